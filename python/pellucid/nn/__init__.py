"""torch.nn: modules, parameters, functions, initialisers."""
from . import functional, init, parameter, utils  # noqa: F401
from .modules import *  # noqa: F403
from .modules.module import Module  # noqa: F401
from .parallel import DataParallel  # noqa: F401
from .parameter import Buffer, Parameter, UninitializedParameter  # noqa: F401


def __getattr__(name):
    if name == "attention":
        import importlib
        return importlib.import_module(".attention", __name__)
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}' in pellucid")
