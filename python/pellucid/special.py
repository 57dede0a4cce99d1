"""torch.special: the ops named special_NAME, by their first name or another one."""
from . import _C

_F = _C.functions
_PREFIX = "special_"


def __dir__():
    return sorted({*globals(), *(name[len(_PREFIX):] for name in _F if name.startswith(_PREFIX) and not name.endswith("_"))})


def __getattr__(name):
    if _PREFIX + name in _F:
        return _F[_PREFIX + name]
    raise AttributeError(f"module 'torch.special' has no attribute '{name}' in pellucid")
