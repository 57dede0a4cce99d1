"""Functions of torch.nn.functional over images, volumes and bags, written with ops: conv3d, unfold, fold, interpolate,
grid_sample, embedding_bag. Each is a composition, so gradients of any order come from the ops."""
import math

from .. import _C

_F = _C.functions
__all__ = ["conv3d", "unfold", "fold", "interpolate", "upsample", "grid_sample", "affine_grid", "embedding_bag"]


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def _volume_padding(padding, kernel, dilation, stride):
    """How much to add at both ends of each dim, last dim first."""
    if padding == "valid":
        return [0] * 6
    if padding == "same":
        if any(s != 1 for s in stride):
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        totals = [d * (k - 1) for d, k in zip(dilation, kernel)]
        return [n for t in reversed(totals) for n in (t // 2, t - t // 2)]
    if isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    return [p for p in reversed(_triple(padding)) for _ in range(2)]


def _triple(value):
    value = (value,) * 3 if isinstance(value, int) else tuple(value)
    return value * 3 if len(value) == 1 else value


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution of [N, C, D, H, W]: a sum over the kernel's depth of convolutions of the slices."""
    if input.ndim not in (4, 5) or weight.ndim != 5:
        raise RuntimeError(f"Expected 4D (unbatched) or 5D (batched) input to conv3d and a 5D weight, but got input of size: "
                           f"{list(input.shape)} and weight of size: {list(weight.shape)}")
    stride, dilation, kernel = _triple(stride), _triple(dilation), tuple(weight.shape[2:])
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if not isinstance(padding, str) and min(_triple(padding)) < 0:
        raise RuntimeError("negative padding is not supported")
    x = input.unsqueeze(0) if input.ndim == 4 else input
    x = _F["constant_pad_nd"](x, _volume_padding(padding, kernel, dilation, stride))
    depth = (x.shape[2] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    if depth <= 0:
        raise RuntimeError(f"Kernel size can't be greater than actual input size (input {list(input.shape)}, kernel {kernel})")
    total = None
    for k in range(kernel[0]):
        start = k * dilation[0]
        slices = x[:, :, start:start + (depth - 1) * stride[0] + 1:stride[0]].transpose(1, 2).flatten(0, 1)
        part = _F["conv2d"](slices, weight[:, :, k], bias if k == 0 else None, stride[1:], 0, dilation[1:], groups)
        total = part if total is None else total + part
    out = total.unflatten(0, (x.shape[0], depth)).transpose(1, 2).contiguous()
    return out.squeeze(0) if input.ndim == 4 else out


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """[N, C, H, W] to [N, C kh kw, L]: the window around each place, as a column."""
    single = input.ndim == 3
    if input.ndim not in (3, 4):
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                           f"input, but got: {list(input.shape)}")
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(_pair, (kernel_size, dilation, padding, stride))
    x = input.unsqueeze(0) if single else input
    if ph or pw:
        x = _F["constant_pad_nd"](x, [pw, pw, ph, ph])
    reach_h, reach_w = dh * (kh - 1) + 1, dw * (kw - 1) + 1
    if x.shape[2] < reach_h or x.shape[3] < reach_w:
        raise RuntimeError(f"unfold: a window of {kernel_size} with dilation {dilation} does not fit into sizes "
                           f"{list(input.shape)} with padding {padding}.")
    windows = x.unfold(2, reach_h, sh).unfold(3, reach_w, sw)[..., ::dh, ::dw]  # [N, C, oh, ow, kh, kw]
    columns = windows.permute(0, 1, 4, 5, 2, 3).reshape(x.shape[0], x.shape[1] * kh * kw, windows.shape[2] * windows.shape[3])
    return columns.squeeze(0) if single else columns


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of unfold: columns are added up where their windows overlap."""
    single = input.ndim == 2
    (h, w), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(_pair, (output_size, kernel_size, dilation, padding, stride))
    columns = input.unsqueeze(0) if single else input
    oh, ow = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in ((h, ph, dh, kh, sh), (w, pw, dw, kw, sw)))
    if columns.shape[1] % (kh * kw) or columns.shape[2] != oh * ow:
        raise RuntimeError(f"fold: columns of sizes {list(input.shape)} do not fit output_size {output_size} with kernel_size "
                           f"{kernel_size}; {oh * ow} columns of a multiple of {kh * kw} values were expected.")
    n, channels = columns.shape[0], columns.shape[1] // (kh * kw)
    parts = columns.reshape(n, channels, kh, kw, oh, ow)
    full = _F["zeros"]((n, channels, h + 2 * ph, w + 2 * pw), dtype=input.dtype)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            full[:, :, rows, slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)] += parts[:, :, i, j]
    out = full[:, :, ph:ph + h, pw:pw + w]
    return out.squeeze(0) if single else out


def _places(n, to, scale, align_corners):
    """Where each of `to` results lies among n inputs, as real numbers."""
    at = _F["arange"](0, to, dtype=_C.float64)
    if align_corners:
        return at * ((n - 1) / (to - 1) if to > 1 else 0.0)
    return (at + 0.5) * scale - 0.5


def _linear_dim(x, d, to, scale, align_corners):
    n = x.shape[d]
    at = _places(n, to, scale, align_corners).clamp_min(0)
    low = at.floor().clamp_max(n - 1)
    shape = [-1] + [1] * (x.ndim - d - 1)
    part = (at - low).to(x.dtype).reshape(shape)
    high = (low + 1).clamp_max(n - 1)
    return x.index_select(d, low.long()) * (1 - part) + x.index_select(d, high.long()) * part


def _cubic_weights(t, a=-0.75):
    """Of the four neighbours at distances 1 + t, t, 1 - t, 2 - t."""
    near = lambda v: ((a + 2) * v - (a + 3)) * v * v + 1
    far = lambda v: ((a * v - 5 * a) * v + 8 * a) * v - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _cubic_dim(x, d, to, scale, align_corners):
    n = x.shape[d]
    at = _places(n, to, scale, align_corners)
    low = at.floor()
    shape = [-1] + [1] * (x.ndim - d - 1)
    total = None
    for k, weight in enumerate(_cubic_weights(at - low)):
        index = (low + (k - 1)).clamp(0, n - 1).long()
        term = x.index_select(d, index) * weight.to(x.dtype).reshape(shape)
        total = term if total is None else total + term
    return total


def _nearest_dim(x, d, to, scale, exact):
    n = x.shape[d]
    half = 0.5 if exact else 0.0
    index = [min(int((i + half) * scale), n - 1) for i in range(to)]
    return x.index_select(d, _C._make_tensor(index, _C.int64))


_MODES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resizes the dims behind batch and channels; linear and cubic modes go dim by dim."""
    spatial = input.ndim - 2
    if mode not in ("nearest", "nearest-exact", "area") and _MODES.get(mode) != spatial:
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
                                  f"nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                         "trilinear")
    if antialias:
        raise NotImplementedError("interpolate: antialias=True is not there.")
    sizes = input.shape[2:]
    if size is not None:
        size = [size] * spatial if isinstance(size, int) else list(size)
        if len(size) != spatial:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got {spatial} and "
                             f"{len(size)}")
        factors = [None] * spatial
    else:
        factors = [scale_factor] * spatial if isinstance(scale_factor, (int, float)) else list(scale_factor)
        size = [int(math.floor(n * f)) for n, f in zip(sizes, factors)]
        if recompute_scale_factor:
            factors = [None] * spatial
    if any(s <= 0 for s in size):
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got output sizes {size}")
    if mode == "area":
        return _area(input, size)
    scales = [n / to if f is None else 1.0 / f for n, to, f in zip(sizes, size, factors)]
    for d, (to, scale) in enumerate(zip(size, scales), start=2):
        if mode.startswith("nearest"):
            input = _nearest_dim(input, d, to, scale, mode == "nearest-exact")
        else:
            input = (_cubic_dim if mode == "bicubic" else _linear_dim)(input, d, to, scale, bool(align_corners))
    return input


def _area(x, size):
    """Means over parts, dim by dim."""
    for d, to in enumerate(size, start=2):
        moved = x.movedim(d, -1)
        flat = moved.reshape(1, -1, moved.shape[-1])
        x = _F["adaptive_avg_pool1d"](flat, [to]).reshape(*moved.shape[:-1], to).movedim(-1, d)
    return x


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate's old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def affine_grid(theta, size, align_corners=None):
    """The places [N, H, W, 2] that grid_sample reads for affine maps theta [N, 2, 3]."""
    if len(size) != 4:
        raise NotImplementedError("affine_grid: only images, sizes [N, C, H, W], are there.")
    n, _, h, w = size

    def line(count):
        ends = 1.0 if align_corners else 1.0 - 1.0 / count
        return _F["linspace"](-ends, ends, count, dtype=theta.dtype) if count > 1 else _F["zeros"](1, dtype=theta.dtype)
    x, y = line(w).expand(h, w), line(h).unsqueeze(1).expand(h, w)
    base = _F["stack"]([x, y, _F["ones_like"](x)], -1).reshape(1, h * w, 3)
    return (base @ theta.transpose(1, 2)).reshape(n, h, w, 2)


def _reflect(x, low, high):
    """x mirrored at both ends into [low, high] (twice the ends are given)."""
    if low == high:
        return _F["zeros_like"](x)
    span, start = (high - low) / 2, low / 2
    x = (x - start).abs()
    flips = (x / span).floor().detach()
    rest = x - flips * span
    return _F["where"](flips % 2 == 0, rest + start, span - rest + start)


def _source(at, n, padding_mode, align_corners):
    """A coordinate in [-1, 1] as a place among n elements."""
    x = (at + 1) / 2 * (n - 1) if align_corners else ((at + 1) * n - 1) / 2
    return _into(x, n, padding_mode, align_corners)


def _into(x, n, padding_mode, align_corners):
    if padding_mode == "reflection":
        x = _reflect(x, 0, 2 * (n - 1)) if align_corners else _reflect(x, -1, 2 * n - 1)
    return x if padding_mode == "zeros" else x.clamp(0, n - 1)


def _read(input, places, sizes):
    """input [N, C, …] at integer places (one float tensor [N, …] for each dim); zeros outside."""
    n, channels = input.shape[:2]
    inside, flat = None, None
    for x, size in zip(places, sizes):
        good = (x >= 0) & (x <= size - 1)
        inside = good if inside is None else inside & good
        index = x.clamp(0, size - 1).nan_to_num().long()
        flat = index if flat is None else flat * size + index
    out_shape = flat.shape[1:]
    index = flat.reshape(n, 1, -1).expand(n, channels, -1)
    values = input.flatten(2).gather(2, index).reshape(n, channels, *out_shape)
    return values * inside.unsqueeze(1).to(input.dtype)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of input at the places of grid, whose last dim holds x, y (and z) in [-1, 1]."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
                         f"'{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
                         f"'{padding_mode}'")
    spatial = input.ndim - 2
    if grid.ndim != input.ndim or grid.shape[-1] != spatial or grid.shape[0] != input.shape[0]:
        raise RuntimeError(f"grid_sample: a grid of sizes {list(grid.shape)} does not fit an input of sizes {list(input.shape)}.")
    align, sizes = bool(align_corners), input.shape[2:]
    coordinates = list(grid.unbind(-1))[::-1]  # x is the last dim
    if mode == "bicubic":
        return _grid_cubic(input, coordinates, sizes, padding_mode, align)
    at = [_source(c, n, padding_mode, align) for c, n in zip(coordinates, sizes)]
    if mode == "nearest":
        return _read(input, [x.round() for x in at], sizes)
    low = [x.floor().detach() for x in at]
    total = None
    for corner in range(2 ** spatial):
        weight, places = None, []
        for d in range(spatial):
            up = corner >> d & 1
            part = at[d] - low[d] if up else low[d] + 1 - at[d]
            weight = part if weight is None else weight * part
            places.append(low[d] + up)
        term = _read(input, places, sizes) * weight.unsqueeze(1)
        total = term if total is None else total + term
    return total


def _grid_cubic(input, coordinates, sizes, padding_mode, align):
    if len(sizes) != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    at = [_source(c, n, "zeros", align) for c, n in zip(coordinates, sizes)]
    low = [x.floor().detach() for x in at]
    weights = [_cubic_weights(x - b) for x, b in zip(at, low)]
    total = None
    for i in range(4):
        for j in range(4):
            places = [_into(b + (k - 1), n, padding_mode, align) for b, k, n in zip(low, (i, j), sizes)]
            term = _read(input, places, sizes) * (weights[0][i] * weights[1][j]).unsqueeze(1)
            total = term if total is None else total + term
    return total


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of the rows of each bag of indices."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                  f"mode='sum' (got mode='{mode}').")
    if input.ndim == 2:
        bags, length = input.shape
        which = _F["arange"](bags).repeat_interleave(length)
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    else:
        starts = offsets.tolist()
        ends = starts[1:] if include_last_offset else [*starts[1:], input.numel()]
        bags = len(ends)
        which = _C._make_tensor([b for b, (s, e) in enumerate(zip(starts, ends)) for _ in range(e - s)], _C.int64)
    from .functional import embedding
    rows = embedding(input, weight, padding_idx, max_norm, norm_type)
    if padding_idx is not None:
        keep = input != padding_idx % weight.shape[0]
        rows, which = rows[keep], which[keep]
        per_sample_weights = None if per_sample_weights is None else per_sample_weights[keep]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    out = _F["zeros"]((bags, weight.shape[1]), dtype=weight.dtype)
    if mode != "max":
        summed = out.index_add(0, which, rows)
        if mode == "sum":
            return summed
        counts = _F["bincount"](which, minlength=bags) if which.numel() else _F["zeros"](bags, dtype=_C.int64)
        return summed / counts.clamp_min(1).to(weight.dtype).unsqueeze(1)
    parts = [rows[which == b] for b in range(bags)]
    return _F["stack"]([p.max(0).values if p.shape[0] else out[b] for b, p in enumerate(parts)])
