"""torch.distributed: not there; programs that ask get that answer, one process of one."""


def is_available():
    """False: there is one process."""
    return False


is_initialized = is_nccl_available = is_gloo_available = is_torchelastic_launched = is_available


def get_rank(group=None):
    """0: there is one process."""
    return 0


def get_world_size(group=None):
    """1: there is one process."""
    return 1


def barrier(*_, **__):
    """Accepted: nobody to wait for."""


def init_process_group(*_, **__):
    """Refused: there is one process."""
    raise RuntimeError("torch.distributed is not there: pellucid's Python package runs in one process; ask "
                       "torch.distributed.is_available() first.")


def destroy_process_group(group=None):
    """Accepted: there is none."""


def __getattr__(name):
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}' in pellucid")
