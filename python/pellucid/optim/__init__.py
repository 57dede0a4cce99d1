"""torch.optim: optimisers and schedules of the learning rate."""
from . import lr_scheduler  # noqa: F401
from .algorithms import SGD, Adagrad, Adam, AdamW, RMSprop  # noqa: F401
from .optimizer import Optimizer  # noqa: F401


def __getattr__(name):
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}' in pellucid")
