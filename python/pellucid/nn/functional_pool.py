"""Pooling of torch.nn.functional: return_indices, None in sizes, power means."""
from .. import _C

_F = _C.functions
__all__ = ["max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
           "adaptive_max_pool1d", "adaptive_max_pool2d", "lp_pool1d", "lp_pool2d", "max_pool1d_with_indices",
           "max_pool2d_with_indices"]

avg_pool1d, avg_pool2d = _F["avg_pool1d"], _F["avg_pool2d"]
max_pool1d_with_indices, max_pool2d_with_indices = _F["max_pool1d_with_indices"], _F["max_pool2d_with_indices"]


def _max_pool(name):
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        record = _F[name + "_with_indices" if return_indices else name]
        return record(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)
    pool.__name__, pool.__doc__ = name, _F[name].__doc__
    return pool


max_pool1d, max_pool2d = _max_pool("max_pool1d"), _max_pool("max_pool2d")


def _sizes(input, output_size, dims):
    """None in an adaptive size is the input's own size."""
    if isinstance(output_size, int):
        return [output_size] * dims
    return [n if want is None else want for want, n in zip(output_size, input.shape[-dims:])]


def adaptive_avg_pool1d(input, output_size):
    """Means over parts, so that output_size are left."""
    return _F["adaptive_avg_pool1d"](input, _sizes(input, output_size, 1))


def adaptive_avg_pool2d(input, output_size):
    """Means over parts, so that output_size are left."""
    return _F["adaptive_avg_pool2d"](input, _sizes(input, output_size, 2))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maxima over parts, so that output_size are left."""
    result = _F["adaptive_max_pool1d"](input, _sizes(input, output_size, 1))
    return tuple(result) if return_indices else result[0]


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maxima over parts, so that output_size are left."""
    result = _F["adaptive_max_pool2d"](input, _sizes(input, output_size, 2))
    return tuple(result) if return_indices else result[0]


def _lp_pool(input, norm_type, pool, kernel_size, stride, ceil_mode, count):
    mean = pool(input ** norm_type, kernel_size, [] if stride is None else stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * count) ** (1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm over windows."""
    return _lp_pool(input, norm_type, avg_pool1d, kernel_size, stride, ceil_mode, kernel_size)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm over windows."""
    h, w = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    return _lp_pool(input, norm_type, avg_pool2d, kernel_size, stride, ceil_mode, h * w)
