"""torch.special: functions under their names there, and some that are others in a few lines."""
from . import _C

_F = _C.functions
_RENAMED = {"expit": "sigmoid", "logit": "logit", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
            "expm1": "expm1", "log1p": "log1p", "xlogy": "xlogy", "log_softmax": "log_softmax", "softmax": "softmax",
            "logsumexp": "logsumexp", "round": "round", "gammaln": "lgamma", "digamma": "digamma", "psi": "digamma",
            "polygamma": "polygamma"}


def sinc(input):
    """sin(pi x) / (pi x), 1 at 0."""
    from . import _more
    return _more.sinc(input)


def multigammaln(input, p):
    """The logarithm of the multivariate gamma function."""
    from . import _more
    return _more.mvlgamma(input, p)


def entr(input):
    """-x log x, 0 at 0, -inf below."""
    return _F["where"](input < 0, -float("inf"), -_F["xlogy"](input, input))


def ndtr(input):
    """The normal distribution's cumulative function."""
    return _F["erfc"](-input * 0.5**0.5) / 2


def ndtri(input):
    """The inverse of ndtr."""
    return _F["erfinv"](2 * input - 1) * 2.0**0.5


def xlog1py(input, other):
    """x log(1 + y), 0 where x is 0."""
    return _F["where"](input == 0, 0.0, input * _F["log1p"](other))


def i0(input):
    """The modified Bessel function of order 0."""
    from . import _more
    return _more.i0(input)


def __dir__():
    return sorted({*globals(), *_RENAMED, *(name[len("special_"):] for name in _F if name.startswith("special_"))})



def __getattr__(name):
    record = _RENAMED.get(name, "special_" + name)
    if record in _F:
        return _F[record]
    raise AttributeError(f"module 'torch.special' has no attribute '{name}' in pellucid")
