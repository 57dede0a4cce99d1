"""torch.nn.modules.batchnorm: batch normalisation under PyTorch's own file name."""
from .lazy import LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d  # noqa: F401
from .norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm  # noqa: F401
