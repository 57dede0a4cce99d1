"""torch.autograd.variable: Variable under its old place."""
from . import Variable  # noqa: F401
