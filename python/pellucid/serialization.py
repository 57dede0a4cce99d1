"""save and load: safetensors files, with what is no tensor as JSON beside the names. Pickle files are refused.

Tensors keep what they share: a storage is written once, and each tensor says which part of it it looks at (src/io/shared_views.h).
Objects that appear twice are one object again after loading. Version 1 of the structure (without the metadata entry
"structure_version") had neither; its files are still read.
"""
import functools
import json
import os
import warnings

from . import _C
from ._tensor import Tensor
from ._types import check_device, device

_VERSION = 2


@functools.cache
def _plain():
    """Types of plain data by their name in the file: how they become lists, dicts or strings, and back."""
    import argparse
    import pathlib
    return {"set": (set, list, set), "frozenset": (frozenset, list, frozenset), "bytes": (bytes, bytes.hex, bytes.fromhex),
            "bytearray": (bytearray, bytearray.hex, bytearray.fromhex), "complex": (complex, lambda c: [c.real, c.imag],
                                                                                    lambda v: complex(*v)),
            "range": (range, lambda r: [r.start, r.stop, r.step], lambda v: range(*v)), "device": (device, str, device),
            "namespace": (argparse.Namespace, vars, lambda v: argparse.Namespace(**v)),
            "path": (pathlib.PurePath, str, pathlib.Path)}


class _Packer:
    """Turns nested data into JSON, with tensors replaced by their names."""

    def __init__(self):
        self.tensors = []
        self._seen = {}  # by id: the object, which thereby lives on, and its JSON
        self._marked = 0

    def __call__(self, value):
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, float) and not hasattr(value, "__array_interface__"):
            return {"float": float(value).hex()}
        if id(value) in self._seen:
            return self._again(id(value))
        made = {}
        self._seen[id(value)] = value, made
        made.update(self._pack(value))
        return made

    def _again(self, key):
        made = self._seen[key][1]
        if "id" not in made:
            made["id"] = self._marked
            self._marked += 1
        return {"again": made["id"]}

    def _pack(self, value):
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            made = {"dict": [[self(k), self(v)] for k, v in value.items()], "kind": type(value).__name__}
            if type(value).__name__ == "defaultdict" and value.default_factory in _FACTORIES.values():
                made["factory"] = next((n for n, f in _FACTORIES.items() if f is value.default_factory))
            return made
        if isinstance(value, _C.Size):
            return {"size": list(value)}
        if isinstance(value, tuple):
            return {"tuple": [self(v) for v in value]}
        if isinstance(value, list):
            return {"list": [self(v) for v in value]}
        if isinstance(value, _C.dtype):
            return {"dtype": str(value).rpartition(".")[2]}
        if isinstance(value, int):  # an IntEnum, say
            return {"int": int(value)}
        return self._other(value)

    def _tensor(self, value):
        name = f"{len(self.tensors)}"
        self.tensors.append((name, value.detach()))
        made = {"tensor": name, "parameter": type(value) is not Tensor, "requires_grad": value.requires_grad}
        attributes = {k: v for k, v in value.__dict__.items() if k != "_accumulator"}
        if attributes:
            try:
                made["attributes"] = self(attributes)
            except TypeError as e:
                warnings.warn(f"save: the attributes {', '.join(attributes)} of a tensor are left out: {e}", stacklevel=2)
        return made

    def _other(self, value):
        """What is not JSON's own."""
        for name, (kind, pack, _) in _plain().items():
            if isinstance(value, kind):
                return {"plain": name, "value": self(pack(value))}
        if hasattr(value, "__array_interface__"):  # NumPy's arrays and numbers
            return {"numpy": self(_C._make_tensor(value)), "number": not hasattr(value, "__setitem__")}
        if isinstance(value, float):
            return {"float": value.hex()}
        if hasattr(value, "state_dict"):
            raise TypeError(f"save: a {type(value).__name__} is code as well as data; save its state_dict() instead.")
        raise TypeError(f"save: a {type(value).__name__} cannot be saved; tensors, arrays, numbers, strings, None, dicts, lists, "
                        "tuples and sets can.")


_FACTORIES = {"None": None, "int": int, "float": float, "list": list, "dict": dict, "set": set, "str": str}


class _Unpacker:
    """The way back. What a file claims is not trusted: whatever is raised here becomes an IoError (load)."""

    def __init__(self, tensors):
        self.tensors = tensors
        self._known = {}

    def __call__(self, value):
        if not isinstance(value, dict):
            if value is None or isinstance(value, (bool, int, str)):
                return value
            raise ValueError("a value is neither plain nor described")
        if "again" in value:
            return self._known[value["again"]]
        made = self._container(value) if "list" in value or "dict" in value else self._keep(value, self._unpack(value))
        return made

    def _keep(self, value, made):
        if "id" in value:
            self._known[value["id"]] = made
        return made

    def _container(self, value):
        """Known before it is filled, since it may hold itself."""
        if "list" in value:
            made = self._keep(value, [])
            made.extend(self(v) for v in _list(value["list"]))
            return made
        from collections import Counter, OrderedDict, defaultdict
        kinds = {"OrderedDict": OrderedDict, "Counter": Counter}
        made = kinds.get(value["kind"], dict)()
        if "factory" in value:
            made = defaultdict(_FACTORIES[value["factory"]])
        self._keep(value, made)
        for k, v in _list(value["dict"]):
            dict.__setitem__(made, self(k), self(v)) if type(made) is not OrderedDict else made.__setitem__(self(k), self(v))
        return made

    def _unpack(self, value):
        if "tensor" in value:
            return self._tensor(value)
        if "tuple" in value:
            return tuple(self(v) for v in _list(value["tuple"]))
        if "size" in value:
            return _C.Size(value["size"])
        if "plain" in value:
            return _plain()[value["plain"]][2](self(value["value"]))
        if "numpy" in value:
            array = self(value["numpy"]).numpy()
            return array[()] if value["number"] else array.copy()
        if "dtype" in value:
            found = getattr(_C, value["dtype"])
            if not isinstance(found, _C.dtype):
                raise ValueError("a dtype has an unknown name")
            return found
        if "int" in value:
            return int(value["int"])
        return float.fromhex(value["float"])

    def _tensor(self, value):
        tensor = self.tensors[value["tensor"]]
        if value["parameter"]:
            from .nn.parameter import Parameter
            tensor = Parameter(tensor, value["requires_grad"])
        elif value["requires_grad"]:
            tensor = tensor.detach().requires_grad_()
        if "attributes" in value:
            tensor.__dict__.update(self(value["attributes"]))
        return tensor


def _list(value):
    if not isinstance(value, list):
        raise ValueError("a list is missing")
    return value


def _is_flat(obj):
    """Whether obj is a dict of plain tensors, which a safetensors file says everything about."""
    return (isinstance(obj, dict) and obj and type(obj).__name__ in ("dict", "OrderedDict")
            and all(isinstance(k, str) and type(v) is Tensor and not v.requires_grad and not v.__dict__ for k, v in obj.items())
            and len({v._identity() for v in obj.values()}) == len(obj))


def _write(f, data):
    """Writes all of it: an unbuffered file may take a part."""
    while data:
        taken = f.write(data)
        if not isinstance(taken, int) or taken >= len(data):
            return
        data = data[taken:]


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True, _disable_byteorder_record=False):
    """Writes obj to a file: a dict of tensors as plain safetensors, other nested data with its structure in the header."""
    if _is_flat(obj):
        tensors, metadata = list(obj.items()), [("format", "pt"), ("kind", type(obj).__name__)]
    else:
        packer = _Packer()
        try:
            structure = json.dumps(packer(obj))
        except RecursionError:
            raise _C.ValueError("save: the data is nested too deeply.") from None
        tensors = packer.tensors
        metadata = [("format", "pt"), ("structure", structure), ("structure_version", str(_VERSION))]
    if hasattr(f, "write"):
        _write(f, _C._tensors_bytes(tensors, metadata))
    else:
        _C._save_tensors(os.fspath(f), tensors, metadata)


def add_safe_globals(safe_globals):
    """Accepted: no file is a pickle, so none can name a class."""


def _refuse_pickle(start, what):
    if start[4:9] == b"\0\0\0\0{":  # a header of safetensors whose length has the same first bytes
        return
    if start[:4] == b"PK\x03\x04" or start[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise RuntimeError(f"load: {what} is a pickle file, which can run any code when it is read; pellucid does not read "
                           "pickles. Save the weights as safetensors where the file was made: safetensors.torch.save_file("
                           "state_dict, 'model.safetensors').")


def _content(tensors, metadata, what):
    """What a file holds, from its tensors and metadata."""
    metadata = dict(metadata)
    if "structure" not in metadata:
        if metadata.get("kind") == "OrderedDict":
            from collections import OrderedDict
            return OrderedDict(tensors)
        return dict(tensors)
    version = metadata.get("structure_version", "1")
    if version not in ("1", str(_VERSION)):
        raise _C.IoError(f"load: {what} has version {version} of the structure; this program reads 1 to {_VERSION}.")
    try:
        return _Unpacker(dict(tensors))(json.loads(metadata["structure"]))
    except (ArithmeticError, AttributeError, LookupError, RecursionError, RuntimeError, TypeError, ValueError) as e:
        raise _C.IoError(f"load: {what} is damaged: {type(e).__name__}: {e}") from None


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **_):
    """Reads what save wrote, or any safetensors file as a dict of tensors. The tensors have memory of their own; with mmap=True
    they look at the file's pages, and the file must not be written to meanwhile."""
    if isinstance(map_location, (str, device)):
        check_device(map_location)
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("f must be a string filename in order to use mmap argument")
        data = f.read()
        _refuse_pickle(data[:9], "the data")
        return _content(*_C._parse_tensors(data), "the data")
    path = os.fspath(f)
    with open(path, "rb") as file:
        _refuse_pickle(file.read(9), f"'{path}'")
    return _content(*_C._load_tensors(path, bool(mmap)), f"'{path}'")
