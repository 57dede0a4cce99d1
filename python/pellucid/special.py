"""torch.special: functions under their names there."""
from . import _C

_F = _C.functions
_RENAMED = {"expit": "sigmoid", "logit": "logit", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
            "expm1": "expm1", "log1p": "log1p", "xlogy": "xlogy", "log_softmax": "log_softmax", "softmax": "softmax",
            "logsumexp": "logsumexp", "round": "round"}


def __getattr__(name):
    record = _RENAMED.get(name, "special_" + name)
    if record in _F:
        return _F[record]
    raise AttributeError(f"module 'torch.special' has no attribute '{name}' in pellucid")
