"""torch.autograd.grad_mode: no_grad and its kin under their old place."""
from .forward_modes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
