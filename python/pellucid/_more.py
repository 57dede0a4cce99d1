"""Functions of the torch namespace that are other functions in a few lines, and second names of ops.

Each has PyTorch's signature; METHODS are methods of Tensor too.
"""
import itertools as _itertools
import math as _math

from . import _C
from ._tensor import Tensor
from ._types import named_results as _named_results

_F = _C.functions

# Second name -> op; in-place forms follow where the op has one.
ALIASES = {"arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2",
           "arctanh": "atanh", "fix": "trunc", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
           "negative": "neg", "not_equal": "ne"}
METHODS = ("heaviside isreal logaddexp2 logdet slogdet matrix_exp pinverse qr svd renorm select_scatter slice_scatter "
           "diagonal_scatter scatter_reduce sinc cholesky cholesky_solve index_reduce adjoint gcd lcm ldexp mvlgamma i0 angle "
           "conj_physical cholesky_inverse").split()

# Methods that have a form in place, which computes first and copies.
IN_PLACE = "heaviside renorm scatter_reduce sinc index_reduce gcd lcm ldexp mvlgamma i0".split()

_Svd = _named_results("svd", "U S V")
_Qr = _named_results("qr", "Q R")


# Elements

def sinc(input):
    """sin(pi x) / (pi x), 1 at 0."""
    x = input * _math.pi
    zero = x == 0
    return _F["where"](zero, 1.0, x.sin() / _F["where"](zero, 1.0, x).to(x.dtype)).to(x.dtype)


def heaviside(input, values):
    """0 below 0, 1 above, values at 0."""
    return _F["where"](input == 0, values, (input > 0).to(input.dtype))


def logaddexp2(input, other):
    """log2(2^input + 2^other)."""
    most = _F["maximum"](input, other)
    return most + _F["log1p"](_F["exp2"](-(input - other).abs())) / _math.log(2)


def ldexp(input, other):
    """input * 2^other."""
    return input * _F["pow"](2.0, other)


def mvlgamma(input, p):
    """The logarithm of the multivariate gamma function."""
    places = _F["arange"](0, p, 1).to(input.dtype)
    return _F["lgamma"](input.unsqueeze(-1) - places / 2).sum(-1) + p * (p - 1) / 4 * _math.log(_math.pi)


def gcd(input, other):
    """The greatest common divisor."""
    a, b = _F["broadcast_tensors"]([input.abs(), other.abs()])
    while (b != 0).any():
        zero = b == 0
        a, b = _F["where"](zero, a, b), _F["where"](zero, b, a % _F["where"](zero, 1, b))
    return a


def lcm(input, other):
    """The least common multiple."""
    divisor = gcd(input, other)
    return _F["where"](divisor == 0, divisor, (input * other).abs() // divisor.clamp(min=1))


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is one of the test elements."""
    tensor = lambda v: v if isinstance(v, Tensor) else _C._make_tensor(v)
    elements, tests = tensor(elements), tensor(test_elements).reshape(-1)
    if tests.numel() == 0:
        found = _F["zeros"](elements.shape, dtype=_C.bool)
    else:
        order = _F["sort"](tests)[0]
        place = _F["searchsorted"](order, elements.reshape(-1).to(order.dtype).contiguous()).clamp(max=order.numel() - 1)
        found = (order[place] == elements.reshape(-1)).reshape(elements.shape)
    return ~found if invert else found


def isreal(input):
    """True everywhere: there are no complex types."""
    return _F["ones_like"](input, dtype=_C.bool)


def unravel_index(indices, shape):
    """The places in a tensor of that shape of numbers of its elements."""
    places = []
    for size in reversed([shape] if isinstance(shape, int) else list(shape)):
        places.append(indices % size)
        indices = indices // size
    return tuple(reversed(places))


def combinations(input, r=2, with_replacement=False):
    """All choices of r elements, one a row."""
    choose = _itertools.combinations_with_replacement if with_replacement else _itertools.combinations
    rows = list(choose(range(input.numel()), r))
    return input[_C._make_tensor(rows, _C.int64)] if rows else _F["empty"]((0, r), dtype=input.dtype)


def poisson(input, generator=None):
    """Random counts of events that come at the given rates."""
    rate, count = input.double(), _F["zeros_like"](input, dtype=_C.float64)
    u = _F["rand"](tuple(input.shape), dtype=_C.float64, **({} if generator is None else {"generator": generator}))
    most = rate.max().item() if rate.numel() else 0.0
    below = _F["exp"](-rate)  # P(0); counts up until the sum of probabilities passes u
    if most > 500:  # e^-rate would underflow: sums of smaller ones
        return poisson(input / 2, generator) + poisson(input / 2, generator)
    total = below.clone()
    for k in range(1, int(most + 12 * most ** 0.5 + 30)):
        more = u > total
        if not more.any():
            break
        count += more
        below = below * rate / k
        total += below
    return count.to(input.dtype)


def i0(input):
    """The modified Bessel function of order 0, by its series, whose terms are all positive."""
    quarter = (input if input.is_floating_point() else input.to(_C.get_default_dtype())) ** 2 / 4
    term = total = _F["ones_like"](quarter)
    most = min(quarter.detach().max().item(), 360.0 ** 2) if quarter.numel() else 0.0  # beyond, the sum is infinite by then
    k = 0
    while k * k < most or (term.detach() > total.detach() * 1e-17).any():
        k += 1
        term = term * quarter / (k * k)
        total = total + term
    return total


def angle(input):
    """0 for numbers from 0 up, pi below, NaN for NaN."""
    x = input if input.is_floating_point() else input.to(_C.get_default_dtype())
    return _F["where"](x < 0, _math.pi, _F["where"](x.isnan(), x, 0.0)).to(x.dtype)


def real(input):
    """The tensor itself: there are no complex types."""
    return input


conj = conj_physical = resolve_conj = resolve_neg = real


def pdist(input, p=2.0):
    """The p-norm distances between all pairs of rows."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    first, second = _F["triu_indices"](input.shape[0], input.shape[0], 1)
    return _F["linalg_vector_norm"](input[first] - input[second], p, 1)


# Places

def select_scatter(input, src, dim, index):
    """A copy of input with src at one place of dim."""
    made = input.clone()
    made.select(dim, index).copy_(src)
    return made


def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    """A copy of input with src in a slice of dim."""
    made = input.clone()
    made.movedim(dim, 0)[start:end:step].copy_(src.movedim(dim, 0))
    return made


def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """A copy of input with src on a diagonal."""
    made = input.clone()
    made.diagonal(offset, dim1, dim2).copy_(src)
    return made


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """Reduces the values of src into the places of input that index names: sum, prod, mean, amax, amin."""
    src = src[tuple(slice(0, n) for n in index.shape)]
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    neutral = 1 if reduce == "prod" else 0
    base = input
    if not include_self:
        if reduce in ("amax", "amin"):
            least = {"amax": -_math.inf, "amin": _math.inf}[reduce]
            if not input.is_floating_point():
                from ._types import iinfo
                least = getattr(iinfo(input.dtype), "min" if reduce == "amax" else "max")
            neutral = least
        base = input.scatter(dim, index, neutral)
    if reduce == "sum":
        return base.scatter_add(dim, index, src)
    if reduce == "prod":
        return base.scatter(dim, index, src, reduce="multiply")
    if reduce == "mean":
        one = _F["ones_like"](src)
        count = (_F["ones_like"] if include_self else _F["zeros_like"])(input).scatter_add(dim, index, one)
        if not include_self:
            count = count.clamp(min=1)
        total = base.scatter_add(dim, index, src)
        return total / count if input.is_floating_point() else total.div(count, rounding_mode="floor")
    return _scatter_extreme(base, dim, index, src, reduce)


def _scatter_extreme(base, dim, index, src, reduce):
    """amax and amin: after a stable sort the last value written to a place is the extreme one."""
    with_self = _F["gather"](base, dim, index)
    both = (_F["maximum"] if reduce == "amax" else _F["minimum"])(with_self, src)
    order = both.detach().argsort(dim=dim, stable=True, descending=reduce == "amin")
    sorted_index = index.gather(dim, order)
    sorted_values = both.gather(dim, order)
    # Where several values go to one place only the last counts: walk the ranks from first to last.
    for i in range(index.shape[dim]):
        base = base.scatter(dim, sorted_index.narrow(dim, i, 1), sorted_values.narrow(dim, i, 1))
    return base


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """Reduces slices of source into the slices of input that index names: prod, mean, amax, amin."""
    shape = [1] * source.ndim
    shape[dim] = -1
    return scatter_reduce(input, dim, index.reshape(shape).expand(source.shape), source, reduce, include_self=include_self)


def renorm(input, p, dim, maxnorm):
    """input with each slice along dim scaled down to a p-norm of maxnorm."""
    others = [d for d in range(input.ndim) if d != dim % input.ndim]
    norms = _F["linalg_vector_norm"](input, p, others, True)
    return input * _F["where"](norms > maxnorm, maxnorm / (norms + 1e-7), 1.0).to(input.dtype)


# Matrices

def adjoint(input):
    """The last two dims swapped."""
    return input.mT


def logdet(input):
    """log det; NaN where the determinant is negative."""
    sign, size = slogdet(input)
    return _F["where"](sign < 0, _math.nan, size).to(input.dtype)


def slogdet(input):
    """The sign and the logarithm of the size of the determinant."""
    from . import linalg
    return linalg.slogdet(input)


def matrix_exp(input):
    """The exponential of matrices."""
    from . import linalg
    return linalg.matrix_exp(input)


def pinverse(input, rcond=1e-15):
    """linalg.pinv."""
    from . import linalg
    return linalg.pinv(input, rcond=rcond)


def cholesky(input, upper=False):
    """linalg.cholesky, or its transpose."""
    lower = _F["linalg_cholesky"](input)
    return lower.mT if upper else lower


def cholesky_solve(input, L, upper=False):
    """x of (L Lᵀ) x = input."""
    L = L.mT if upper else L
    return _F["linalg_solve"](L.mT, _F["linalg_solve"](L, input))


def cholesky_inverse(input, upper=False):
    """The inverse of L Lᵀ."""
    return _F["inverse"](input.mT @ input if upper else input @ input.mT)


def svd(input, some=True, compute_uv=True):
    """(U, S, V) with input = U diag(S) Vᵀ."""
    u, s, vh = _F["linalg_svd"](input, not some)
    return _Svd(u, s, vh.mT)


def qr(input, some=True):
    """(Q, R)."""
    return _Qr(*_F["linalg_qr"](input, "reduced" if some else "complete"))


def chain_matmul(*matrices):
    """The product of several matrices."""
    from . import linalg
    return linalg.multi_dot(matrices)


def vander(x, N=None, increasing=False):
    """Powers of x as columns, falling unless told otherwise."""
    powers = _F["arange"](0, x.numel() if N is None else N, 1)
    made = x.unsqueeze(-1) ** powers
    return made if increasing else made.flip(-1)


# Windows

def _window(name, coefficients):
    def window(window_length, periodic=True, *, dtype=None, **_):
        dtype = dtype or _C.get_default_dtype()
        if window_length <= 1:
            return _F["ones"]((window_length,), dtype=dtype)
        n = _F["arange"](0, window_length, 1).double() * (2 * _math.pi / (window_length if periodic else window_length - 1))
        return sum(c * (n * k).cos() for k, c in enumerate(coefficients)).to(dtype)
    window.__name__ = name
    window.__doc__ = f"A window of cosines: {', '.join(str(c) for c in coefficients)}."
    return window


hann_window = _window("hann_window", (0.5, -0.5))
blackman_window = _window("blackman_window", (0.42, -0.5, 0.08))


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, **_):
    """alpha - beta cos."""
    return _window("hamming_window", (alpha, -beta))(window_length, periodic, dtype=dtype)


def bartlett_window(window_length, periodic=True, *, dtype=None, **_):
    """A triangle."""
    dtype = dtype or _C.get_default_dtype()
    last = window_length if periodic else window_length - 1
    return (1 - (_F["arange"](0, window_length, 1).double() * (2 / max(last, 1)) - 1).abs()).to(dtype) if window_length > 1 \
        else _F["ones"]((window_length,), dtype=dtype)


def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, **_):
    """A window of Bessel functions."""
    dtype = dtype or _C.get_default_dtype()
    if window_length <= 1:
        return _F["ones"]((window_length,), dtype=dtype)
    place = _F["arange"](0, window_length, 1).double() * (2 / (window_length if periodic else window_length - 1)) - 1
    heights = i0(beta * (1 - place ** 2).clamp(min=0).sqrt())
    return (heights / i0(_C._make_tensor(beta, _C.float64))).to(dtype)


def aliases():
    """The second names with their functions, in-place forms included."""
    made = {}
    for name, op in ALIASES.items():
        made[name] = _F[op]
        if op + "_" in _F:
            made[name + "_"] = _F[op + "_"]
    return made


def _in_place(function):
    def method(self, *args, **kwargs):
        return self.copy_(function(self, *args, **kwargs))
    method.__name__, method.__doc__ = function.__name__ + "_", f"{function.__name__} in place."
    return method


def install(modules):
    """Adds to the Tensor type what METHODS of these modules name, and the second names."""
    for module in modules:
        for name in module.METHODS:
            setattr(Tensor, name, getattr(module, name))
    for name in IN_PLACE:
        setattr(Tensor, name + "_", _in_place(globals()[name]))
    for name, op in ALIASES.items():
        setattr(Tensor, name, getattr(Tensor, op))
        if hasattr(Tensor, op + "_"):
            setattr(Tensor, name + "_", getattr(Tensor, op + "_"))
    Tensor.polygamma = lambda self, n: _F["polygamma"](n, self)
