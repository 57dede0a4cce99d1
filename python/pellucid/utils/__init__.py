"""torch.utils: data, checkpoints, measuring."""


def __getattr__(name):
    if name in ("data", "checkpoint", "benchmark", "dlpack", "tensorboard", "_pytree"):
        import importlib
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'torch.utils' has no attribute '{name}' in pellucid")
