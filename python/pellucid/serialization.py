"""save and load: safetensors files, with what is no tensor as JSON beside the names. Pickle files are refused."""
import functools
import json
import os

from . import _C
from ._tensor import Tensor
from ._types import device


@functools.cache
def _plain():
    """Types of plain data by their name in the file: how they become lists, dicts or strings, and back."""
    import argparse
    import pathlib
    return {"set": (set, list, set), "frozenset": (frozenset, list, frozenset), "bytes": (bytes, bytes.hex, bytes.fromhex),
            "range": (range, lambda r: [r.start, r.stop, r.step], lambda v: range(*v)), "device": (device, str, device),
            "namespace": (argparse.Namespace, vars, lambda v: argparse.Namespace(**v)),
            "path": (pathlib.PurePath, str, pathlib.Path)}


def _pack_other(value, tensors):
    """What is not JSON's own; None where it cannot be saved."""
    if isinstance(value, _C.Size):
        return {"size": list(value)}
    for name, (kind, pack, _) in _plain().items():
        if isinstance(value, kind):
            return {"plain": name, "value": _pack(pack(value), tensors)}
    if hasattr(value, "__array_interface__"):  # NumPy's arrays and numbers
        kept = _pack(_C._make_tensor(value), tensors)
        return {"numpy": kept, "number": not hasattr(value, "__setitem__")}
    return None


def _pack(value, tensors):
    """value as JSON, with tensors replaced by their names."""
    if isinstance(value, Tensor):
        name = f"{len(tensors)}"
        tensors.append((name, value.detach()))
        return {"tensor": name, "parameter": type(value) is not Tensor, "requires_grad": value.requires_grad}
    if isinstance(value, dict):
        return {"dict": [[_pack(k, tensors), _pack(v, tensors)] for k, v in value.items()], "kind": type(value).__name__}
    if isinstance(value, tuple) and type(value) is not _C.Size:
        return {"tuple": [_pack(v, tensors) for v in value]}
    if isinstance(value, list):
        return {"list": [_pack(v, tensors) for v in value]}
    if isinstance(value, _C.dtype):
        return {"dtype": str(value).rpartition(".")[2]}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    other = _pack_other(value, tensors)
    if other is not None:
        return other
    if isinstance(value, float):
        return {"float": value.hex()}
    if hasattr(value, "state_dict"):
        raise TypeError(f"save: a {type(value).__name__} is code as well as data; save its state_dict() instead.")
    raise TypeError(f"save: a {type(value).__name__} cannot be saved; tensors, arrays, numbers, strings, None, dicts, lists, "
                    "tuples and sets can.")


def _unpack(value, tensors):
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        tensor = tensors[value["tensor"]]
        if value["parameter"]:
            from .nn.parameter import Parameter
            return Parameter(tensor, value["requires_grad"])
        return tensor.requires_grad_() if value["requires_grad"] else tensor
    if "dict" in value:
        items = [(_unpack(k, tensors), _unpack(v, tensors)) for k, v in value["dict"]]
        if value["kind"] == "OrderedDict":
            from collections import OrderedDict
            return OrderedDict(items)
        return dict(items)
    if "tuple" in value:
        return tuple(_unpack(v, tensors) for v in value["tuple"])
    if "list" in value:
        return [_unpack(v, tensors) for v in value["list"]]
    if "size" in value:
        return _C.Size(value["size"])
    if "plain" in value:
        return _plain()[value["plain"]][2](_unpack(value["value"], tensors))
    if "numpy" in value:
        array = _unpack(value["numpy"], tensors).numpy()
        return array[()] if value["number"] else array.copy()
    return getattr(_C, value["dtype"]) if "dtype" in value else float.fromhex(value["float"])


def _is_flat(obj):
    return (isinstance(obj, dict) and obj and all(isinstance(k, str) and type(v) is Tensor and not v.requires_grad
                                                  for k, v in obj.items()))


def save(obj, f, **_):
    """Writes obj to a file: a dict of tensors as plain safetensors, other nested data with its structure in the header."""
    if _is_flat(obj):
        tensors, metadata = list(obj.items()), [("format", "pt")]
    else:
        tensors = []
        structure = _pack(obj, tensors)
        metadata = [("format", "pt"), ("structure", json.dumps(structure))]
    if hasattr(f, "write"):
        f.write(_C._safetensors_bytes(tensors, metadata))
    else:
        _C._save_safetensors(os.fspath(f), tensors, metadata)


def add_safe_globals(safe_globals):
    """Accepted: no file is a pickle, so none can name a class."""


def _refuse_pickle(start, what):
    if start[:4] == b"PK\x03\x04" or start[:2] in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"):
        raise RuntimeError(f"load: {what} is a pickle file, which can run any code when it is read; pellucid does not read "
                           "pickles. Save the weights as safetensors where the file was made: safetensors.torch.save_file("
                           "state_dict, 'model.safetensors').")


def load(f, map_location=None, weights_only=True, mmap=None, **_):
    """Reads what save wrote, or any safetensors file as a dict of tensors."""
    if hasattr(f, "read"):
        data = f.read()
        _refuse_pickle(data[:4], "the data")
        tensors, metadata = _C._parse_safetensors(data)
    else:
        path = os.fspath(f)
        with open(path, "rb") as file:
            _refuse_pickle(file.read(4), f"'{path}'")
        tensors, metadata = _C._load_safetensors(path)
    metadata = dict(metadata)
    if "structure" in metadata:
        return _unpack(json.loads(metadata["structure"]), dict(tensors))
    return dict(tensors)
