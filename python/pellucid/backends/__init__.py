"""torch.backends: which accelerators there are: none."""
from types import SimpleNamespace

from . import cudnn  # noqa: F401

mps = SimpleNamespace(is_available=lambda: False, is_built=lambda: False)
mkldnn = SimpleNamespace(is_available=lambda: True)
cuda = SimpleNamespace(is_built=lambda: False, matmul=SimpleNamespace(allow_tf32=False))
openmp = SimpleNamespace(is_available=lambda: True)
