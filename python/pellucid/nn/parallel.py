"""torch.nn.parallel: one device, so a model in DataParallel is the model."""
from .modules.module import Module


class DataParallel(Module):
    """Calls the module: there is one device."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class DistributedDataParallel(Module):
    """Refused: there is one process."""

    def __init__(self, *_, **__):
        raise RuntimeError("DistributedDataParallel is not there: pellucid's Python package runs in one process; ask "
                           "torch.distributed.is_available() first.")
