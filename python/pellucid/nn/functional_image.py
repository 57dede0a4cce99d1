"""Functions of torch.nn.functional over images, volumes and bags: PyTorch's signatures over the ops im2col, col2im, resample,
grid_sampler, affine_grid_generator and embedding_bag."""
import math

from .. import _C, _promises

_F = _C.functions
__all__ = ["unfold", "fold", "interpolate", "upsample", "upsample_nearest", "upsample_bilinear", "grid_sample",
           "affine_grid", "embedding_bag"]


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """[N, C, H, W] to [N, C kh kw, L]: the window around each place, as a column."""
    return _F["im2col"](input, kernel_size, dilation, padding, stride)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of unfold: columns are added up where their windows overlap."""
    return _F["col2im"](input, output_size, kernel_size, dilation, padding, stride)


# For how many dims a mode is, and what the op calls it; 0: any.
_MODES = {"nearest": (0, "nearest"), "nearest-exact": (0, "nearest-exact"), "area": (0, "area"), "linear": (1, "linear"),
          "bilinear": (2, "linear"), "trilinear": (3, "linear"), "bicubic": (2, "cubic")}


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resizes the dims behind batch and channels, one after the other."""
    spatial = input.ndim - 2
    dims, along = _MODES.get(mode, (None, None))
    if not 1 <= spatial <= 3 or dims not in (0, spatial):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
                                  f"nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})")
    if (size is None) == (scale_factor is None):
        raise ValueError("only one of size or scale_factor should be defined")
    if align_corners is not None and dims == 0:
        raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                         "trilinear")
    if antialias and dims != 2:
        raise ValueError(f"Anti-alias option is restricted to bilinear and bicubic modes (got {mode})")
    if not input.dtype.is_floating_point and not (input.dtype is _C.uint8 and (dims == 2 or along.startswith("nearest"))):
        raise NotImplementedError(f"interpolate: mode {mode} is not implemented for {input.dtype}")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    size, factors = _targets(input.shape[2:], size, scale_factor, recompute_scale_factor or mode == "area")
    if antialias:
        along += "-antialias"
    steps = list(enumerate(zip(size, factors), start=2))
    x = input
    # Bytes are rounded after every dim: the last comes first, as in PyTorch.
    for d, (to, factor) in reversed(steps) if input.dtype is _C.uint8 else steps:
        x = _F["resample"](x, d, to, along, bool(align_corners), factor)
    return x


def _targets(sizes, size, scale_factor, recompute):
    """The new size of each dim, and the factor that places are computed with (None: from the sizes)."""
    count = len(sizes)
    if size is not None:
        size = [size] * count if isinstance(size, int) else list(size)
        if len(size) != count:
            raise ValueError(f"Input and output must have the same number of spatial dimensions, but got {count} and {len(size)}")
        return size, [None] * count
    factors = [scale_factor] * count if isinstance(scale_factor, (int, float)) else list(scale_factor)
    if len(factors) != count:
        raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions, but got {count} and "
                         f"{len(factors)}")
    size = [int(math.floor(n * f)) for n, f in zip(sizes, factors)]
    return size, [None if recompute else float(f) for f in factors]


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate's old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate(mode="nearest")."""
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate(mode="bilinear", align_corners=True)."""
    return interpolate(input, size, scale_factor, "bilinear", True)


def affine_grid(theta, size, align_corners=None):
    """The places [N, H, W, 2] (or of volumes) that grid_sample reads for affine maps theta [N, 2, 3]."""
    return _F["affine_grid_generator"](theta, size, bool(align_corners))


def _number(name, names, what):
    """The position of a mode's name, which is what the op takes."""
    if name not in names:
        listed = ", ".join(f"'{n}'" for n in names[:-1])
        raise ValueError(f"nn.functional.grid_sample(): expected {what} to be {listed} or '{names[-1]}', but got: '{name}'")
    return names.index(name)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of input at the places of grid, whose last dim holds x, y (and z) in [-1, 1]."""
    mode = _number(mode, ("bilinear", "nearest", "bicubic"), "mode")
    padding_mode = _number(padding_mode, ("zeros", "border", "reflection"), "padding_mode")
    return _F["grid_sampler"](input, grid, mode, padding_mode, bool(align_corners))


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of the rows of each bag of indices."""
    modes = ("sum", "mean", "max")
    if mode not in modes:
        raise ValueError("mode has to be one of sum, mean or max")
    if sparse:
        _promises.not_kept("embedding_bag(sparse=True)", "there are no sparse tensors; the gradient is dense, with the same values.")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                  f"mode='sum' (got mode='{mode}').")
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must "
                         f"have the same shape as the input ({list(input.shape)})")
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                             "sequences.")
        offsets, include_last_offset = _F["arange"](0, input.shape[0]) * input.shape[1], False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.ndim != 1 or offsets is None or offsets.ndim != 1:
        raise ValueError("input has to be 1D with 1D offsets, or 2D without offsets")
    if max_norm is not None:
        from .functional import _renormalize
        _renormalize(weight, input, max_norm, norm_type)
    return _F["embedding_bag"](weight, input, offsets, scale_grad_by_freq, modes.index(mode), sparse, per_sample_weights,
                               include_last_offset, padding_idx)[0]
