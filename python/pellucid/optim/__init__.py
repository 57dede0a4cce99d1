"""torch.optim: optimisers and schedules of the learning rate."""
from . import lr_scheduler  # noqa: F401
from .algorithms import SGD, Adagrad, Adam, AdamW, RMSprop  # noqa: F401
from .lbfgs import LBFGS  # noqa: F401
from .optimizer import Optimizer  # noqa: F401
from .variants import ASGD, Adadelta, Adamax, NAdam, RAdam, Rprop  # noqa: F401


def __getattr__(name):
    if name == "swa_utils":
        import importlib
        return importlib.import_module(".swa_utils", __name__)
    raise AttributeError(f"module 'torch.optim' has no attribute '{name}' in pellucid")
