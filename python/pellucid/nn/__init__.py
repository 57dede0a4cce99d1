"""torch.nn: modules, parameters, functions, initialisers."""
from . import functional, init, parameter, utils  # noqa: F401
from .modules import *  # noqa: F401,F403
from .modules.module import Module  # noqa: F401
from .parameter import Buffer, Parameter  # noqa: F401


def __getattr__(name):
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}' in pellucid")
