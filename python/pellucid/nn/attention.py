"""torch.nn.attention: the choice of a kernel for scaled_dot_product_attention; there is one here, so any choice is accepted."""
import contextlib
import enum


class SDPBackend(enum.Enum):
    """The kernels that PyTorch knows."""
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Accepted: attention has one kernel."""
    for backend in backends if isinstance(backends, (list, tuple)) else [backends]:
        if not isinstance(backend, SDPBackend):
            raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield
