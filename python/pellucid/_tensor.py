"""Tensor methods that need no speed: conversions, hooks, backward, copies, NumPy, formatting.

The type itself is the extension's; `install()` adds what is here to it. Methods that op definitions describe are bound in C++.
"""
import builtins
import copyreg

from . import _C
from ._types import CPU, check_device, device as device_type, strided

Tensor = _C.Tensor
_F = _C.functions


class RemovableHandle:
    """Removes a hook: handle.remove(), or as a context."""

    def __init__(self, remove):
        self._remove = remove

    def remove(self):
        if self._remove is not None:
            self._remove()
            self._remove = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _list(value):
    if value is None:
        return []
    return [value] if isinstance(value, Tensor) else list(value)


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Sums gradients into the leaves that computed this tensor."""
    if inputs is not None and isinstance(inputs, (list, tuple)) and not inputs:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    _C._backward([self], [gradient], retain_graph, create_graph, _list(inputs))


def register_hook(self, hook):
    """Calls hook(grad) when the gradient is computed; what it returns replaces it."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    number = _C._tensor_hook(self, hook)
    return RemovableHandle(lambda: _C._remove_tensor_hook(self, number))


def register_post_accumulate_grad_hook(self, hook):
    """Calls hook(tensor) after a gradient was added to .grad."""
    node, number = _C._accumulate_hook(self, hook)
    self._accumulator = node  # a leaf does not own the node that keeps the hook
    return RemovableHandle(lambda: node._remove_hook(number))


def node_register_hook(self, hook):
    number = self._register_hook(hook)
    return RemovableHandle(lambda: self._remove_hook(number))


def node_register_prehook(self, hook):
    number = self._register_prehook(hook)
    return RemovableHandle(lambda: self._remove_hook(number))


def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
    """to(dtype), to(device, dtype), to(other): the same values in another dtype or layout."""
    for i, a in enumerate(args):
        if isinstance(a, Tensor):
            dtype = a.dtype
        elif isinstance(a, (_C.dtype, type)):
            dtype = a
        elif isinstance(a, (str, device_type)) or (isinstance(a, int) and not isinstance(a, bool)):
            device = a
        elif isinstance(a, bool):
            non_blocking, copy = (a, copy) if not any(isinstance(b, bool) for b in args[:i]) else (non_blocking, a)
        elif isinstance(a, _C.memory_format):
            memory_format = a
        elif a is not None:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(a).__name__})")
    check_device(device)
    return self._convert(dtype, copy, memory_format)


def _converter(dtype, name):
    def convert(self, memory_format=None):
        return self._convert(dtype, False, memory_format)
    convert.__name__ = name
    convert.__doc__ = f"The values as {dtype}."
    return convert


def type_(self, dtype=None, non_blocking=False):
    """The name of the tensor's type, or the values in another dtype."""
    if dtype is None:
        return f"torch.{_LEGACY[self.dtype]}Tensor"
    if isinstance(dtype, str):
        dtype = next(d for d, n in _LEGACY.items() if dtype == f"torch.{n}Tensor")
    elif hasattr(dtype, "dtype"):
        dtype = dtype.dtype
    return self._convert(dtype)


_LEGACY = {_C.float32: "Float", _C.float64: "Double", _C.float16: "Half", _C.bfloat16: "BFloat16",
           _C.int64: "Long", _C.int32: "Int", _C.int16: "Short", _C.int8: "Char", _C.uint8: "Byte", _C.bool: "Bool"}


def numpy(self, *, force=False):
    """A NumPy array over the same memory."""
    import numpy as np
    t = self.detach() if force else self
    if t.requires_grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    return np.asarray(memoryview(t))


def __array__(self, dtype=None, copy=None):
    array = numpy(self)
    if dtype is not None:
        array = array.astype(dtype, copy=False)
    return array.copy() if copy else array


def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions make of a tensor is a tensor: np.sin(t), t + array."""
    return _C._over_buffer(array) if getattr(array, "ndim", 0) else _C._make_tensor(array)


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    return (self.clone() if copy else self)._dlpack()


def __iter__(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def __contains__(self, element):
    if isinstance(element, (Tensor, int, float, bool)):
        return bool((self == element).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def __format__(self, spec):
    if self.ndim == 0:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def __reversed__(self):
    return self if self.ndim == 0 else self.flip(0)


def _rebuild(kind, data, requires_grad, attributes):
    """For pickles of version 0.1, which hold a safetensors file for each tensor."""
    (_, tensor), = _C._parse_tensors(data)[0]
    made = Tensor.__new__(kind, tensor) if kind is not Tensor else tensor
    made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def __copy__(self):
    new = self.detach()
    if type(self) is not Tensor:
        new = Tensor.__new__(type(self), new)
    new.__dict__.update(self.__dict__)
    return new.requires_grad_(self.requires_grad) if self.is_leaf else new


class _no_grad:
    def __enter__(self):
        self.before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, *_):
        _C._set_grad_enabled(self.before)


def _new(name):
    like = _F[name]
    def new(self, *size, dtype=None, device=None, requires_grad=False, **_):
        check_device(device)
        if len(size) == 1 and not isinstance(size[0], int):
            size = size[0]
        return like(tuple(size), dtype=dtype or self.dtype, requires_grad=requires_grad)
    new.__name__ = f"new_{name}"
    new.__doc__ = f"A tensor of {name} with this tensor's dtype."
    return new


def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, **_):
    """A tensor of one value with this tensor's dtype."""
    check_device(device)
    return _F["full"](size, fill_value, dtype=dtype or self.dtype, requires_grad=requires_grad)


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor of data with this tensor's dtype."""
    check_device(device)
    return _C._make_tensor(data, dtype or self.dtype, requires_grad)


def split(self, split_size, dim=0):
    """Parts of the given size, or sizes, along dim."""
    if isinstance(split_size, int):
        return _F["split"](self, split_size, dim)
    return _F["split_with_sizes"](self, list(split_size), dim)


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct values; with the inverse and counts if asked."""
    values, inverse, counts = _F["unique"](self, sorted, return_inverse, return_counts, dim)
    return _several(values, (return_inverse, inverse), (return_counts, counts))


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The values without repeats of neighbours; with the inverse and counts if asked."""
    values, inverse, counts = _F["unique_consecutive"](self, return_inverse, return_counts, dim)
    return _several(values, (return_inverse, inverse), (return_counts, counts))


def _several(first, *rest):
    asked = tuple(value for wanted, value in rest if wanted)
    return (first, *asked) if asked else first


def nonzero(self, *, as_tuple=False):
    """Where the elements are not zero."""
    return _F["nonzero_numpy"](self) if as_tuple else _F["nonzero"](self)


def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm over dims."""
    from . import _functions
    return _functions.norm(self, p, dim, keepdim, dtype=dtype)


def cuda(self, device=None, non_blocking=False, memory_format=None):
    """Refused: there is no other device."""
    raise RuntimeError("cuda() is not available: pellucid runs on the CPU; ask torch.cuda.is_available() first.")


def new(self, *args, **_):
    """An uninitialised tensor of sizes, or one of data, with this tensor's dtype."""
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        return new_tensor(self, args[0])
    return Tensor.new_empty(self, *args)


def _repr_html_(self):
    """For notebooks: the values as a table, and the facts."""
    from ._printing import tensor_html
    return tensor_html(self)


def _dtype(name):
    return getattr(_C, name)


def _property(get, doc):
    # op functions do not bind, so a property must call them
    return builtins.property(lambda self: get(self), doc=doc)


def install():
    """Adds what is here to the Tensor type."""
    here = globals()
    for name in ("backward register_hook register_post_accumulate_grad_hook to numpy __array__ __array_wrap__ __dlpack__ __iter__ "
                 "__contains__ __format__ __reversed__ __copy__ new_full new_tensor split unique "
                 "unique_consecutive nonzero norm cuda new _repr_html_").split():
        setattr(Tensor, name, here[name])
    Tensor.type = type_
    for name, dtype in dict(float=_C.float32, double=_C.float64, half=_C.float16, bfloat16=_C.bfloat16, long=_C.int64,
                            int=_C.int32, short=_C.int16, char=_C.int8, byte=_C.uint8, bool=_C.bool).items():
        setattr(Tensor, name, _converter(dtype, name))
    for name in ("zeros", "ones", "empty"):
        setattr(Tensor, f"new_{name}", _new(name))
    Tensor.type_as = lambda self, other: self._convert(other.dtype)
    Tensor.cpu = lambda self, memory_format=None: self
    Tensor.equal = lambda self, other: _C._equal(self, other)
    Tensor.allclose = lambda self, other, rtol=1e-05, atol=1e-08, equal_nan=False: _C._allclose(
        self, other, float(rtol), float(atol), equal_nan)
    Tensor.element_size = lambda self: self.dtype.itemsize
    Tensor.is_floating_point = lambda self: self.dtype.is_floating_point
    Tensor.is_complex = lambda self: False
    Tensor.is_nonzero = lambda self: builtins.bool(self)
    Tensor.is_inference = lambda self: _C._is_inference(self)
    Tensor.is_same_size = lambda self, other: self.shape == other.shape
    Tensor.is_conj = Tensor.is_neg = lambda self: False
    Tensor.get_device = lambda self: -1
    Tensor.is_signed = lambda self: self.dtype.is_signed
    Tensor.is_set_to = lambda self, other: _C._is_set_to(self, other)
    Tensor.__dlpack_device__ = lambda self: (1, 0)
    Tensor.__array_priority__ = 1000
    Tensor.device = _property(lambda self: CPU, "Where the tensor is: the CPU.")
    Tensor.layout = _property(lambda self: strided, "How the elements lie: strided.")
    Tensor.is_cuda = Tensor.is_sparse = Tensor.is_quantized = Tensor.is_meta = Tensor.is_mps = Tensor.is_xpu = False
    Tensor.is_nested = Tensor.is_mkldnn = False
    Tensor.is_cpu = True
    Tensor.itemsize = _property(lambda self: self.dtype.itemsize, "Bytes of one element.")
    Tensor.nbytes = _property(lambda self: self.numel() * self.dtype.itemsize, "Bytes of all elements.")
    Tensor.T = _property(_F["numpy_T"], "The dims in reverse order.")
    Tensor.mT = _property(_F["mT"], "The last two dims swapped.")
    Tensor.H = _property(_F["t"], "The transpose of a matrix.")
    Tensor.mH = _property(_F["mT"], "The last two dims swapped: there are no complex types.")
    Tensor.real = _property(lambda self: self, "The tensor itself: there are no complex types.")
    Tensor.pin_memory = lambda self, device=None: self
    Tensor.is_pinned = lambda self: False
    _C.Node.register_hook = node_register_hook
    _C.Node.register_prehook = node_register_prehook
    copyreg.pickle(_C.dtype, lambda t: (_dtype, (str(t).rpartition(".")[2],)))
