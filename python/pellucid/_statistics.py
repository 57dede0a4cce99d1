"""Statistics, differences and integrals of the torch namespace that are other functions in a few lines."""
import math as _math

from . import _C
from ._tensor import Tensor
from ._types import named_results as _named_results

_F = _C.functions
METHODS = "corrcoef cov diff mode nanmedian quantile nanquantile".split()
_Mode = _named_results("mode", "values indices")
_Histogram = _named_results("histogram", "hist bin_edges")
_Nanmedian = _named_results("nanmedian", "values indices")


def _ranks(values, q, count, interpolation):
    """values, sorted along the last dim, at the ranks q * (count - 1)."""
    rank = q * (count - 1)
    low, high = rank.floor(), rank.ceil()
    if interpolation == "nearest":
        low = high = rank.round()
    elif interpolation == "lower":
        high = low
    elif interpolation == "higher":
        low = high
    elif interpolation not in ("linear", "midpoint"):
        raise RuntimeError("quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                           f"{interpolation}")
    a, b = values.gather(-1, low.long()), values.gather(-1, high.long())
    return (a + b) / 2 if interpolation == "midpoint" else a + (b - a) * (rank - low)


def _quantile(input, q, dim, keepdim, interpolation, skip_nan, name):
    if not input.is_floating_point():
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    scalar = not isinstance(q, Tensor) or q.ndim == 0
    q = _C._make_tensor(q, input.dtype) if not isinstance(q, Tensor) else q.to(input.dtype)
    q = q.reshape(-1)
    if ((q < 0) | (q > 1)).any():
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    ndim = input.ndim
    x = input.reshape(-1) if dim is None else input.movedim(dim, -1)
    values = _F["sort"](x, -1)[0]
    count = values.shape[-1]
    valid = (~values.isnan()).sum(-1, keepdim=True) if skip_nan else _F["full_like"](values[..., :1], count)
    found = _ranks(values, q.expand((*values.shape[:-1], q.numel())), valid.to(input.dtype).clamp(min=1), interpolation)
    if skip_nan:
        found = _F["where"](valid > 0, found, _math.nan)
    else:
        found = _F["where"](values.isnan().any(-1, keepdim=True), _math.nan, found)
    found = found.movedim(-1, 0)
    if keepdim:
        found = found.reshape((q.numel(), *[1] * ndim)) if dim is None else found.unsqueeze(dim + 1 if dim >= 0 else dim)
    return found[0] if scalar else found


def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The values below which the parts q lie."""
    return _quantile(input, q, dim, keepdim, interpolation, False, "quantile")


def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """quantile without the NaNs."""
    return _quantile(input, q, dim, keepdim, interpolation, True, "nanquantile")


def nanmedian(input, dim=None, keepdim=False):
    """median without the NaNs; the lower one of two."""
    if dim is None:
        kept = input[~input.isnan()]
        return kept.median() if kept.numel() else _F["full"]((), _math.nan, dtype=input.dtype)
    order, places = _F["sort"](input, dim)
    middle = ((~input.isnan()).sum(dim, keepdim=True) - 1).clamp(min=0) // 2
    found = [t.gather(dim, middle) for t in (order, places)]
    return _Nanmedian(*found) if keepdim else _Nanmedian(*(t.squeeze(dim) for t in found))


def mode(input, dim=-1, keepdim=False):
    """The most frequent value along dim, the least of several, and the last place of it."""
    if input.dim() == 0:
        values, indices = mode(input.unsqueeze(0), dim)
        return _Mode(values, indices)
    x = input.movedim(dim, -1)
    counts = (x.unsqueeze(-1) == x.unsqueeze(-2)).sum(-1)
    order, places = _F["sort"](x, -1)
    best = counts.gather(-1, places).argmax(-1, keepdim=True)  # the first of equals: the least value
    values = order.gather(-1, best)
    numbers = _F["arange"](0, x.shape[-1], 1).expand(x.shape)
    indices = _F["where"](x == values, numbers, -1).amax(-1, keepdim=True)
    values, indices = values.movedim(-1, dim), indices.movedim(-1, dim)
    return _Mode(values, indices) if keepdim else _Mode(values.squeeze(dim), indices.squeeze(dim))


def histogram(input, bins, *, range=None, weight=None, density=False):
    """(counts, edges) of bins, given by their number or their edges."""
    if isinstance(bins, Tensor):
        edges = bins
    else:
        low, high = range if range is not None else (input.min().item(), input.max().item())
        edges = _F["linspace"](low, high, bins + 1, dtype=input.dtype)
    x = input.reshape(-1)
    inside = (x >= edges[0]) & (x <= edges[-1])
    places = (_F["searchsorted"](edges, x[inside].contiguous(), right=True) - 1).clamp(max=edges.numel() - 2)
    weights = None if weight is None else weight.reshape(-1)[inside]
    counts = _F["bincount"](places, weights, edges.numel() - 1).to(input.dtype)
    if density:
        counts = counts / (counts.sum() * edges.diff())
    return _Histogram(counts, edges)


def cov(input, *, correction=1, fweights=None, aweights=None):
    """The covariance matrix of variables in rows; weights of the observations are counts or of any kind."""
    x = input.reshape(1, -1) if input.ndim < 2 else input
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            weights = given if weights is None else weights * given
    if weights is None:
        x = x - x.mean(1, keepdim=True)
        return (x @ x.t() / max(x.shape[1] - correction, 0)).squeeze()
    total = weights.sum()
    x = x - (x * weights).sum(1, keepdim=True) / total
    norm = total - correction * ((weights * aweights).sum() / total if aweights is not None else 1)
    return ((x * weights) @ x.t() / norm.clamp(min=0)).squeeze()


def corrcoef(input):
    """The correlation coefficients of variables in rows."""
    c = cov(input)
    if c.ndim == 0:
        return c / c
    root = c.diagonal().sqrt()
    return (c / root.unsqueeze(1) / root.unsqueeze(0)).clamp(-1, 1)


# Differences and integrals

def diff(input, n=1, dim=-1, prepend=None, append=None):
    """The differences of neighbours along dim, n times."""
    parts = [t for t in (prepend, input, append) if t is not None]
    x = _F["cat"](parts, dim) if len(parts) > 1 else input
    for _ in range(n):
        size = x.shape[dim]
        if size <= 1:
            return x.narrow(dim, 0, 0)
        a, b = x.narrow(dim, 1, size - 1), x.narrow(dim, 0, size - 1)
        x = a ^ b if x.dtype is _C.bool else a - b
    return x


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Central differences along each dim: one tensor a dim."""
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'dim', "
                           f"but got {len(steps)} for {len(dims)} dims.")
    return tuple(_slope(input.movedim(d, -1), h, edge_order).movedim(-1, d) for d, h in zip(dims, steps))


def _slope(x, h, edge_order):
    n = x.shape[-1]
    if n < edge_order + 1:
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    at = h if isinstance(h, Tensor) and h.ndim else _F["arange"](0, n, 1).to(_C.get_default_dtype()) * h
    step = at.diff()
    slopes = x.diff() / step
    left, right = step[:-1], step[1:]
    inner = (slopes[..., :-1] * right + slopes[..., 1:] * left) / (left + right)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first, last = 2 * first - inner[..., :1], 2 * last - inner[..., -1:]
    return _F["cat"]([first, inner, last], -1)


def trapezoid(y, x=None, *, dx=1, dim=-1):
    """The integral of y along dim by trapezoids."""
    return _trapezoids(y, x, dx, dim).sum(dim)


trapz = trapezoid


def cumulative_trapezoid(y, x=None, *, dx=1, dim=-1):
    """The integral of y from the first place to each other one."""
    return _trapezoids(y, x, dx, dim).cumsum(dim)


def _trapezoids(y, x, dx, dim):
    n = y.shape[dim]
    mean = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) / 2
    if x is None:
        return mean * dx
    step = x.diff(dim=-1 if x.ndim == 1 else dim)
    return mean * (step.reshape([-1 if d == dim % y.ndim else 1 for d in range(y.ndim)]) if x.ndim == 1 else step)
