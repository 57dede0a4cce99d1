"""torch.nn.modules.activation: activations under PyTorch's own file name."""
from .attention import MultiheadAttention  # noqa: F401
from .simple import *  # noqa: F403
