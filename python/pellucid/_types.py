"""device, layout, finfo and iinfo: small value types beside dtype; the types of several results."""
from collections import namedtuple

from . import _C


def named_results(name, fields):
    """A named tuple that prints its parts one below the other, as those of the ops do."""
    base = namedtuple(name, fields)

    def __repr__(self):
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(self._fields, self))
        return f"torch.return_types.{name}(\n{parts})"
    return type(name, (base,), {"__repr__": __repr__, "__slots__": (), "__module__": base.__module__})


class device:
    """Where a tensor lives: always the CPU. Other names are refused where tensors would be put there."""
    __slots__ = ("type", "index")

    def __init__(self, type="cpu", index=None):
        if isinstance(type, device):
            type, index = type.type, type.index
        if isinstance(type, int):
            type, index = "cuda", type
        name, _, number = str(type).partition(":")
        if number:
            if index is not None:
                raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
            index = int(number)
        if name not in ("cpu", "cuda", "mps", "xpu", "meta"):
            raise RuntimeError(f"Expected one of cpu, cuda, mps, xpu, meta device type at start of device string: {name}")
        self.type, self.index = name, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        """Accepts the CPU, where new tensors are anyway."""
        check_device(self)
        return self

    def __exit__(self, *_):
        pass


CPU = device("cpu")


def check_device(where):
    """None or the CPU; anything else is an error, as there is nothing else."""
    if where is None:
        return
    where = device(where)
    if where.type != "cpu":
        raise RuntimeError(f"device '{where}' is not available: pellucid runs on the CPU; pass 'cpu'.")


class layout:
    """How a tensor's elements lie in memory: strided."""

    def __repr__(self):
        return "torch.strided"


strided = layout()

# bits, eps, max, smallest normal, decimal digits
_FLOATS = {
    "float16": (16, 2.0**-10, 65504.0, 2.0**-14, 1e-3),
    "bfloat16": (16, 2.0**-7, 2.0**127 * (2 - 2.0**-7), 2.0**-126, 1e-2),
    "float32": (32, 2.0**-23, 2.0**127 * (2 - 2.0**-23), 2.0**-126, 1e-6),
    "float64": (64, 2.0**-52, 2.0**1023 * (2 - 2.0**-52), 2.0**-1022, 1e-15),
}
_INTS = {"uint8": (8, 0, 255), "int8": (8, -2**7, 2**7 - 1), "int16": (16, -2**15, 2**15 - 1),
         "int32": (32, -2**31, 2**31 - 1), "int64": (64, -2**63, 2**63 - 1)}


class _Limits:
    """Equal for one dtype."""

    def __eq__(self, other):
        return type(other) is type(self) and other.dtype == self.dtype

    def __hash__(self):
        return hash((type(self), self.dtype))


class finfo(_Limits):
    """The limits of a floating dtype."""

    def __init__(self, type=None):
        self.dtype = str(type or _C.get_default_dtype()).rpartition(".")[2]
        if self.dtype not in _FLOATS:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{type}'")
        self.bits, self.eps, self.max, self.tiny, self.resolution = _FLOATS[self.dtype]
        self.min, self.smallest_normal = -self.max, self.tiny

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo(_Limits):
    """The limits of an integer dtype."""

    def __init__(self, type):
        self.dtype = str(type).rpartition(".")[2]
        if self.dtype not in _INTS:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        self.bits, self.min, self.max = _INTS[self.dtype]

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
