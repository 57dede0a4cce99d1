"""Pooling of torch.nn.functional: return_indices, None in sizes, power means, volumes, the way back."""
from .. import _C

_F = _C.functions


def _max_pool(name):
    def pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        op = _F[name + "_with_indices" if return_indices else name]
        return op(input, kernel_size, [] if stride is None else stride, padding, dilation, ceil_mode)
    pool.__name__, pool.__doc__ = name, _F[name].__doc__
    return pool


max_pool1d, max_pool2d, max_pool3d = _max_pool("max_pool1d"), _max_pool("max_pool2d"), _max_pool("max_pool3d")


def _sizes(input, output_size, dims):
    """None in an adaptive size is the input's own size."""
    if isinstance(output_size, int):
        return [output_size] * dims
    if len(output_size) != dims:
        raise RuntimeError(f"adaptive pooling: output_size must be {dims} sizes, but got {tuple(output_size)}")
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


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maxima over parts, so that output_size are left."""
    result = _F["adaptive_max_pool3d"](input, _sizes(input, output_size, 3))
    return tuple(result) if return_indices else result[0]


def _lp_pool(input, norm_type, pool, kernel_size, stride, ceil_mode, count):
    mean = pool(input ** norm_type, kernel_size, [] if stride is None else stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * count) ** (1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm over windows."""
    return _lp_pool(input, norm_type, _F["avg_pool1d"], kernel_size, stride, ceil_mode, kernel_size)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm over windows."""
    h, w = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    return _lp_pool(input, norm_type, _F["avg_pool2d"], kernel_size, stride, ceil_mode, h * w)


def _three(value):
    return (value,) * 3 if isinstance(value, int) else tuple(value) if len(value) == 3 else tuple(value) * 3


def adaptive_avg_pool3d(input, output_size):
    """Means over parts, so that output_size are left."""
    return _F["adaptive_avg_pool3d"](input, _sizes(input, output_size, 3))


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm over windows of volumes."""
    a, b, c = _three(kernel_size)
    return _lp_pool(input, norm_type, _F["avg_pool3d"], kernel_size, stride, ceil_mode, a * b * c)


def _unpooled_size(dims, least, asked):
    """The sizes asked for, which may differ from the least ones by less than a stride."""
    if asked is None:
        return [size for size, _ in least]
    asked = list(asked)
    if len(asked) not in (dims, dims + 2):
        raise ValueError(f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
                         f"'{len(asked)}'")
    asked = asked[-dims:]
    for d, (want, (size, stride)) in enumerate(zip(asked, least)):
        if not size - stride < want < size + stride:
            raise ValueError(f'invalid output_size "{tuple(asked)}" (dim {d} must be between {size - stride} and {size + stride})')
    return asked


def _max_unpool(dims):
    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        if not input.is_floating_point() or indices.dtype is not _C.int64:
            raise NotImplementedError(f"max_unpool: expects a floating input and int64 indices, but got {input.dtype} and "
                                      f"{indices.dtype}")
        if input.shape != indices.shape:
            raise RuntimeError(f"max_unpool: Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) "
                               f"but got indices tensor with shape: {list(indices.shape)}")
        each = lambda v: (v,) * dims if isinstance(v, int) else tuple(v)
        k, p = each(kernel_size), each(padding)
        s = k if stride is None else each(stride)
        if min(s) <= 0:
            raise RuntimeError(f"max_unpool: strides should be greater than zero, but got stride: {list(s)}")
        size = _unpooled_size(dims, [((n - 1) * si - 2 * pi + ki, si) for n, si, pi, ki in zip(input.shape[-dims:], s, p, k)],
                              output_size)
        if dims == 3:
            return _F["max_unpool3d"](input, indices, size, s, p)
        if dims == 2:
            return _F["max_unpool2d"](input, indices, size)
        return _F["max_unpool2d"](input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1)).squeeze(-1)
    unpool.__name__ = f"max_unpool{dims}d"
    unpool.__doc__ = "The values of a max_pool back at the places that its indices name, zeros elsewhere."
    return unpool


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
