"""Functions of the torch namespace whose Python form is not that of an op: creation from data, variadic arguments, words
for numbers, results that depend on flags."""
from . import _C
from ._tensor import Tensor, nonzero, split, unique, unique_consecutive  # noqa: F401 (functions and methods alike)
from ._printing import get_printoptions, printoptions, set_printoptions  # noqa: F401
from ._types import check_device

_F = _C.functions


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: numbers, nested sequences, an array."""
    check_device(device)
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
                      UserWarning, stacklevel=2)
    return _C._make_tensor(data, dtype, requires_grad)


def as_tensor(data, dtype=None, device=None):
    """data as a tensor, sharing its memory where that is possible."""
    check_device(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if hasattr(data, "__array_interface__") and getattr(data, "ndim", 0):
        over = _C._over_buffer(data)
        return over if dtype is None else over.to(dtype)
    return _C._make_tensor(data, dtype)


asarray = as_tensor


def from_numpy(array):
    """A tensor over the memory of a NumPy array."""
    if not hasattr(array, "__array_interface__"):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return _C._over_buffer(array)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor over the memory of a buffer."""
    try:
        view = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError(f"frombuffer: {type(buffer).__name__} does not implement Python buffer protocol.") from None
    size, length = dtype.itemsize, len(view)
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1")
    if count > 0 and offset + count * size > length:
        raise ValueError(f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater "
                         f"than actual buffer length ({length} bytes)")
    if count < 0 and (length - offset) % size:
        raise ValueError(f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                         f"size ({size})")
    view = view[offset:offset + count * size] if count > 0 else view[offset:]
    letter = {"float64": "d", "float32": "f", "int64": "q", "int32": "i", "int16": "h", "int8": "b", "uint8": "B",
              "bool": "?"}.get(str(dtype).rpartition(".")[2])
    if letter is None:
        raise TypeError(f"frombuffer: {dtype} has no buffer format")
    return _C._over_buffer(view.cast(letter)).requires_grad_(requires_grad)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of another library's tensor."""
    check_device(device)
    made = _C._from_dlpack(ext_tensor.__dlpack__() if hasattr(ext_tensor, "__dlpack__") else ext_tensor)
    return made.clone() if copy else made


def to_dlpack(tensor):
    """A capsule over the tensor's memory."""
    return tensor.__dlpack__()


def _tensors(args):
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)


def meshgrid(*tensors, indexing="ij"):
    """Grids of coordinates, one per one-dimensional tensor."""
    if len({t.dtype for t in _tensors(tensors)}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    return _F["meshgrid"](_tensors(tensors), indexing or "ij")


def broadcast_tensors(*tensors):
    """The tensors expanded to their common sizes."""
    return _F["broadcast_tensors"](_tensors(tensors))


def broadcast_shapes(*shapes):
    """The sizes that shapes broadcast to."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return broadcast_tensors(*[_F["empty"](()).expand(s) for s in shapes])[0].shape if shapes else _C.Size()


def block_diag(*tensors):
    """A matrix with the given ones along its diagonal."""
    return _F["block_diag"](_tensors(tensors))


def einsum(equation, *operands):
    """Sums of products named by letters: einsum('ij,jk->ik', a, b)."""
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): the equation must be a str, not {type(equation).__name__}")
    return _F["einsum"](equation, _tensors(operands))


def atleast(name):
    function = _F[name]
    def call(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return function(tensors[0])
        return tuple(function(t) for t in _tensors(tensors))
    call.__name__, call.__doc__ = name, function.__doc__
    return call


atleast_1d, atleast_2d, atleast_3d = atleast("atleast_1d"), atleast("atleast_2d"), atleast("atleast_3d")


def where(condition, input=None, other=None):
    """Elements of input where the condition holds, of other elsewhere; the places alone without them."""
    if input is None and other is None:
        return _F["where"](condition)
    return _F["where"](condition, input, other)


def arange(start=None, end=None, step=None, **options):
    """Numbers from start (0) up to, without, end."""
    if end is None:
        start, end = 0, start
    return _F["arange"](start, end, 1 if step is None else step, **options)


def linspace(start, end, steps, *, dtype=None, **options):
    """`steps` numbers from start to end."""
    number = lambda v: v.item() if isinstance(v, Tensor) else v
    return _F["linspace"](number(start), number(end), steps, dtype=dtype, **options)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm over dims; 'fro' is 2, 'nuc' the sum of the singular values."""
    if dtype is not None:
        input = input.to(dtype)
    if p == "nuc":
        return _F["linalg_matrix_norm"](input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    p = 2 if p in ("fro", None) else p
    return _F["linalg_vector_norm"](input, float(p), dim, keepdim)


def tensordot(a, b, dims=2, out=None):
    """Sums over the last dims of a and the first of b, or over the given pairs."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        dims = list(range(-dims, 0)), list(range(dims))
    one, two = ([d] if isinstance(d, int) else list(d) for d in dims)
    return _F["tensordot"](a, b, one, two)


def normal(mean, std=1.0, size=None, **options):
    """Normal numbers; mean and std may be tensors."""
    if size is not None:
        return _F["normal"](float(mean), float(std), size, **options)
    return _F["normal"](mean, std)


def equal(input, other):
    """Whether sizes and all elements are equal."""
    return _C._equal(input, other)


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose holds for every element."""
    return input.allclose(other, rtol, atol, equal_nan)


def numel(input):
    """How many elements it has."""
    return input.numel()


def is_tensor(obj):
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def typename(obj):
    """The name of an object's type, as a tensor's own names itself."""
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__qualname__}"


def is_floating_point(input):
    """Whether its dtype is a floating one."""
    return input.dtype.is_floating_point


def is_complex(input):
    """False: there are no complex types."""
    return False


def is_nonzero(input):
    """Whether a tensor of one element is not zero."""
    return bool(input)


def result_type(a, b):
    """The dtype of an arithmetic op on both."""
    empty = lambda v: v.detach()[..., :0] if isinstance(v, Tensor) and v.ndim else v
    return (empty(a) + empty(b)).dtype


def manual_seed(seed):
    """Starts the random numbers from a seed."""
    _C._manual_seed(int(seed) & 0xFFFFFFFFFFFFFFFF)
    from .random import default_generator
    return default_generator


def set_default_dtype(dtype):
    """The dtype of new floating tensors."""
    if not isinstance(dtype, _C.dtype) or not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, found {dtype}")
    _C._set_default_dtype(dtype)


def cartesian_prod(*tensors):
    """All combinations of elements, one a row."""
    return _F["cartesian_prod"](_tensors(tensors))


def chain_matmul(*matrices):
    """The product of several matrices, in the cheapest order."""
    return _F["chain_matmul"](_tensors(matrices))


def histogram(input, bins, *, range=None, weight=None, density=False):
    """(counts, edges) of bins, given by their number or their edges."""
    if isinstance(bins, Tensor):
        if range is not None:
            raise TypeError("histogram(): range goes with a number of bins, not with edges")
        return _F["histogram"](input, bins, weight=weight, density=density)
    ends = None if range is None else _C._make_tensor([float(v) for v in range], _C.float64)
    return _F["histogram"](input, bins, range=ends, weight=weight, density=density)


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Central differences along each dim: one tensor a dim. The spacing is a number, or a number or the places for each dim."""
    if isinstance(spacing, (list, tuple)):
        spacing = [s if isinstance(s, Tensor) else _C._make_tensor(float(s), _C.float64) for s in spacing]
        spacing = [s.to(input.dtype) if input.is_floating_point() else s for s in spacing]
    return _F["gradient"](input, spacing=spacing, dim=dim, edge_order=edge_order)


_DISTANCE_MODES = {None: None, "use_mm_for_euclid_dist_if_necessary": 0, "use_mm_for_euclid_dist": 1,
                   "donot_use_mm_for_euclid_dist": 2}


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """The p-norm distances between the rows of both."""
    if compute_mode not in _DISTANCE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _F["cdist"](x1, x2, p, _DISTANCE_MODES[compute_mode])


def empty_permuted(size, physical_layout, **options):
    """An uninitialised tensor whose dims lie in memory in the given order."""
    order = list(physical_layout)
    if sorted(order) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: physical_layout {tuple(order)} must name each dim of size {tuple(size)} once")
    made = _F["empty"]([size[d] for d in order], **options)
    return made.permute([order.index(d) for d in range(len(order))])


_asked = {"deterministic": False, "precision": "highest"}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Kept for those who ask; there is nothing to switch: results never depend on threads here."""
    _asked["deterministic"] = bool(mode)


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms was called with; results never depend on threads in either case."""
    return _asked["deterministic"]


def set_float32_matmul_precision(precision):
    """Kept for those who ask; products of float32 are always computed in float32, which every setting allows."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"float32 matmul precision must be highest, high or medium, found {precision}")
    _asked["precision"] = precision


def get_float32_matmul_precision():
    """What set_float32_matmul_precision was called with."""
    return _asked["precision"]


def set_num_interop_threads(threads):
    """Accepted: there is one pool of threads."""


def get_num_interop_threads():
    """1: there is one pool of threads."""
    return 1


def set_flush_denormal(mode):
    """False: subnormal numbers are kept."""
    return False


def is_autocast_enabled(device_type=None):
    """False: autocast changes no dtype."""
    return False


def detach_(input):
    """Takes the tensor out of its graph, in place."""
    return input.detach_()


def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Layers of lstm_cell over the steps of sequences, from hx = (h, c): the outputs, the last h and the last c."""
    h, c = hx
    return tuple(_F["lstm"](input, h, c, list(params), has_biases, num_layers, dropout, train, bidirectional, batch_first))
