"""Tensor methods that write into a tensor in ways no op record describes: places, random numbers, other sizes, Python functions."""
import math

from . import _C
from ._tensor import Tensor

_F = _C.functions


def fill_diagonal_(self, fill_value, wrap=False):
    """Writes a value to the main diagonal."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if wrap and self.ndim == 2 and self.shape[0] > self.shape[1]:
        self.view(-1)[::self.shape[1] + 1] = fill_value
    else:
        step = sum(self.stride())
        self.as_strided((min(self.shape),), (step,), self.storage_offset()).fill_(fill_value)
    return self


def geometric_(self, p, *, generator=None):
    """Random numbers of tries up to the first success."""
    return self.copy_((_F["rand"](tuple(self.shape), dtype=_C.float64, **_from(generator)).neg_().log1p_()
                       / math.log1p(-p)).ceil_().clamp_(min=1))


def cauchy_(self, median=0, sigma=1, *, generator=None):
    """Random numbers of a Cauchy distribution."""
    u = _F["rand"](tuple(self.shape), dtype=_C.float64, **_from(generator))
    return self.copy_((u.sub_(0.5).mul_(math.pi)).tan_().mul_(sigma).add_(median))


def _from(generator):
    return {} if generator is None else {"generator": generator}


def put_(self, index, source, accumulate=False):
    """Writes source to the places that index numbers in the flattened tensor."""
    flat = self.reshape(-1)
    flat.index_put_((index.reshape(-1),), source.reshape(-1), accumulate)
    return self if flat.data_ptr() == self.data_ptr() else self.copy_(flat.view(self.shape))


def resize_(self, *sizes, memory_format=None):
    """The same elements in other sizes, as many of them as fit; further ones are not initialised."""
    sizes = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    count = 1
    for n in sizes:
        count *= n
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if tuple(sizes) != tuple(self.shape):
        made = _F["empty"]((count,), dtype=self.dtype)
        kept = min(count, self.numel())
        made[:kept] = self.reshape(-1)[:kept]
        self.data = made.view(tuple(sizes))
    return self


def set_(self, source=None):
    """Makes this tensor another view of what source looks at; without one, a tensor of nothing."""
    self.data = _F["empty"]((0,), dtype=self.dtype) if source is None else source.detach()
    return self


def _swapping(name):
    def swap(self, first, second):
        return self.transpose_(first, second)
    swap.__name__, swap.__doc__ = name, "transpose_ under another name."
    return swap


def map_(self, other, function):
    """Writes function(a, b) of each pair of elements into this tensor."""
    return self.copy_(self.new_tensor([function(a, b) for a, b in zip(self.flatten().tolist(), other.flatten().tolist())])
                      .view(self.shape))


def apply_(self, function):
    """Writes function(a) of each element into this tensor."""
    return self.copy_(self.new_tensor([function(a) for a in self.flatten().tolist()]).view(self.shape))


def install():
    """Adds what is here to the Tensor type."""
    for method in (fill_diagonal_, geometric_, cauchy_, put_, resize_, set_, map_, apply_, _swapping("swapaxes_"),
                   _swapping("swapdims_")):
        setattr(Tensor, method.__name__, method)
    Tensor.resize_as_ = lambda self, other: self.resize_(other.shape)
