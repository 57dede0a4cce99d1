#!/usr/bin/env python3
"""Writes pellucid/__init__.pyi from the op definitions of the built extension.

usage: stubs.py FOLDER_OF_THE_EXTENSION OUTPUT.pyi

Functions and methods come from the records' schemas; what Python files define is imported from them.
"""
import ast
import keyword
import os
import re
import sys

TYPES = {"Tensor": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str", "Scalar": "Number",
         "ScalarType": "_dtype", "MemoryFormat": "_format", "Device": "Device"}

HEAD = '''# Made from the op definitions by python/stubs.py; do not edit.
import builtins
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

from . import (accelerator as accelerator, amp as amp, autograd as autograd, backends as backends, cuda as cuda,
               distributed as distributed, distributions as distributions, func as func, jit as jit, linalg as linalg,
               multiprocessing as multiprocessing, nn as nn, optim as optim, profiler as profiler, random as random,
               serialization as serialization, special as special, testing as testing, torchviz as torchviz, utils as utils)
@FUNCTIONS@
from ._legacy import (BoolTensor as BoolTensor, ByteTensor as ByteTensor, DoubleTensor as DoubleTensor,
                      FloatTensor as FloatTensor, IntTensor as IntTensor, LongTensor as LongTensor)
from .amp import GradScaler as GradScaler, autocast as autocast
from .func import vmap as vmap
from ._printing import (get_printoptions as get_printoptions, printoptions as printoptions,
                        set_printoptions as set_printoptions)
from ._types import device as device, finfo as finfo, iinfo as iinfo, layout as layout, strided as strided
from .autograd.forward_modes import (enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad,
                                     set_grad_enabled as set_grad_enabled)
from .random import Generator as Generator, get_rng_state as get_rng_state, set_rng_state as set_rng_state
from .serialization import load as load, save as save

Number = Union[builtins.int, builtins.float, builtins.bool]
Device = Union[device, str, builtins.int, None]
_C: Any  # the extension
inf: builtins.float
nan: builtins.float
pi: builtins.float
e: builtins.float

class Size(Tuple[builtins.int, ...]):
    def numel(self) -> builtins.int: ...

class dtype:
    is_floating_point: builtins.bool
    is_complex: builtins.bool
    is_signed: builtins.bool
    itemsize: builtins.int

class memory_format: ...

# Under these names in the class below, whose attributes hide the others.
_dtype = dtype
_device = device
_format = memory_format

class Error(RuntimeError): ...
class ShapeError(Error): ...
class LinAlgError(Error): ...
class OutOfMemoryError(Error, MemoryError): ...
class IoError(Error, OSError): ...
class AutogradError(Error): ...

contiguous_format: memory_format
preserve_format: memory_format
channels_last: memory_format

def is_grad_enabled() -> builtins.bool: ...
def get_num_threads() -> builtins.int: ...
def set_num_threads(threads: builtins.int) -> None: ...
def get_default_dtype() -> dtype: ...
def seed() -> builtins.int: ...
def initial_seed() -> builtins.int: ...
'''

TENSOR = '''
class Tensor:
    shape: Size
    dtype: _dtype
    ndim: builtins.int
    device: _device
    requires_grad: builtins.bool
    is_leaf: builtins.bool
    grad: Optional["Tensor"]
    grad_fn: Any
    data: "Tensor"
    name: str
    T: "Tensor"
    mT: "Tensor"
    nbytes: builtins.int
    itemsize: builtins.int
    def __init__(self, *args: Any) -> None: ...
    def backward(self, gradient: Optional["Tensor"] = ..., retain_graph: Optional[builtins.bool] = ...,
                 create_graph: builtins.bool = ..., inputs: Any = ...) -> None: ...
    def item(self) -> Any: ...
    def tolist(self) -> Any: ...
    def numel(self) -> builtins.int: ...
    def dim(self) -> builtins.int: ...
    @overload
    def size(self, dim: None = ...) -> Size: ...
    @overload
    def size(self, dim: builtins.int) -> builtins.int: ...
    def stride(self, dim: Optional[builtins.int] = ...) -> Any: ...
    def numpy(self, *, force: builtins.bool = ...) -> Any: ...
    def to(self, *args: Any, **kwargs: Any) -> "Tensor": ...
    def cpu(self) -> "Tensor": ...
    def float(self) -> "Tensor": ...
    def double(self) -> "Tensor": ...
    def half(self) -> "Tensor": ...
    def long(self) -> "Tensor": ...
    def int(self) -> "Tensor": ...
    def bool(self) -> "Tensor": ...
    def type(self, dtype: Any = ...) -> Any: ...
    def type_as(self, other: "Tensor") -> "Tensor": ...
    def new_zeros(self, *size: Any, **options: Any) -> "Tensor": ...
    def new_ones(self, *size: Any, **options: Any) -> "Tensor": ...
    def new_empty(self, *size: Any, **options: Any) -> "Tensor": ...
    def new_full(self, size: Any, fill_value: Number, **options: Any) -> "Tensor": ...
    def new_tensor(self, data: Any, **options: Any) -> "Tensor": ...
    def requires_grad_(self, requires_grad: builtins.bool = ...) -> "Tensor": ...
    def retain_grad(self) -> None: ...
    def register_hook(self, hook: Callable[["Tensor"], Any]) -> Any: ...
    def is_contiguous(self, memory_format: _format = ...) -> builtins.bool: ...
    def is_floating_point(self) -> builtins.bool: ...
    def data_ptr(self) -> builtins.int: ...
    def element_size(self) -> builtins.int: ...
    def equal(self, other: "Tensor") -> builtins.bool: ...
    def allclose(self, other: "Tensor", rtol: builtins.float = ..., atol: builtins.float = ...,
                 equal_nan: builtins.bool = ...) -> builtins.bool: ...
    def __getitem__(self, key: Any) -> "Tensor": ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def __len__(self) -> builtins.int: ...
    def __iter__(self) -> Iterator["Tensor"]: ...
    def __bool__(self) -> builtins.bool: ...
    def __float__(self) -> builtins.float: ...
    def __int__(self) -> builtins.int: ...
    def __index__(self) -> builtins.int: ...
    def __contains__(self, element: Any) -> builtins.bool: ...
    def __neg__(self) -> "Tensor": ...
    def __pos__(self) -> "Tensor": ...
    def __abs__(self) -> "Tensor": ...
    def __invert__(self) -> "Tensor": ...
    def __eq__(self, other: object) -> "Tensor": ...  # type: ignore[override]
    def __ne__(self, other: object) -> "Tensor": ...  # type: ignore[override]
'''

# op list: the slots of Tensor, by their names in Python.
OPERATORS = ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift radd rsub rmul rtruediv rfloordiv rpow rmod "
             "iadd isub imul itruediv lt le gt ge").split()


def python_type(text):
    """A schema's type as an annotation."""
    text = re.sub(r"\([a-z]!?\)", "", text)
    optional = text.endswith("?")
    text = text.rstrip("?")
    if text.startswith("Tensor|Scalar"):
        made = "Union[Tensor, Number]"
    elif text in ("Tensor[]", "Tensor?[]"):
        made = "Sequence[Optional[Tensor]]" if "?" in text else "Sequence[Tensor]"
    elif text.startswith("int["):
        made = "Union[builtins.int, Sequence[builtins.int]]"
    else:
        made = TYPES[text]
        made = f"builtins.{made}" if made in ("int", "float", "bool") else made
    return f"Optional[{made}]" if optional else made


def split(text):
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in (*parts, text[start:].strip()) if p]


def signature(schema, method, in_place, random):
    """The arguments and result of a schema as Python text, or None where the first is not self for a method."""
    head, _, result = schema.partition(" -> ")
    inner = head[head.index("(") + 1:-1]
    arguments, seen_self, creates = [], False, False
    for part in split(inner):
        if part == "*":
            arguments.append("*")
            continue
        kind, name = part.split(" ", 1)
        name, has_default, _ = name.partition("=")
        if kind.startswith("Device"):
            creates = True
        if name == "self":
            seen_self = True
            if method:
                continue
            name = "input"
        if keyword.iskeyword(name):
            return None
        arguments.append(f"{name}: {python_type(kind)}" + (" = ..." if has_default else ""))
    if method and not seen_self:
        return None
    first, last = ["self"] if method else [], ["requires_grad: builtins.bool = ..."] if creates else []
    made = ordered(arguments)
    if random:
        last += ([] if "*" in made else ["*"]) + ["generator: Optional[Generator] = ..."]
    return [*first, *made, *last], returns(result, in_place)


def ordered(arguments):
    """No argument without a default may follow one with it: such schemas ask for the keyword."""
    out, defaults = [], False
    for a in arguments:
        if a == "*":
            defaults = False
        if defaults and "=" not in a and "*" not in out:
            out.append("*")
        defaults = defaults or "=" in a
        out.append(a)
    return out if out[-1:] != ["*"] else out[:-1]


def returns(result, in_place):
    if in_place:
        return "Tensor"
    if result == "()":
        return "None"
    if result.replace("(a)", "") == "Tensor[]":
        return "Tuple[Tensor, ...]"
    if result.startswith("(Tensor"):
        visible = [o for o in split(result[1:-1]) if not o.rpartition(" ")[2].startswith("_")]
        return "Tensor" if len(visible) == 1 else "Any" if any(" " in o for o in visible) else (
            "Tuple[" + ", ".join(["Tensor"] * len(visible)) + "]")
    return "Tensor"


def definitions(name, op, method, indent):
    found = [s for s in (signature(x, method, name.endswith("_"), op.random) for x in op.schemas) if s]
    # A list of ints may be given as several: zeros(2, 3), x.view(2, 3).
    gathers = [(a[:method] + ["*size: builtins.int"] + [x for x in a[method + 1:] if x != "*"], r) for a, r in found
               if len(a) > method and "Sequence[builtins.int]]" in a[method] and "Optional" not in a[method]
               and all("=" in x or x == "*" for x in a[method + 1:])]
    found += gathers
    lines = []
    for arguments, result in found:
        if len(found) > 1:
            lines.append(f"{indent}@overload")
        lines.append(f"{indent}def {name}({', '.join(arguments)}) -> {result}: ...")
    return lines


def python_file(name):
    """The syntax tree of a file of the package."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pellucid", name + ".py"), encoding="utf-8") as file:
        return ast.parse(file.read())


def assigned(tree):
    """(name, value) of every assignment at the top of a file."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(name, ast.Name):
                        yield name.id, node.value


def imports(module):
    """The line that imports the public functions of a file of the package."""
    tree = python_file(module)
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {n for n, _ in assigned(tree)}
    names |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "_tensor" for a in n.names}
    names = sorted(n for n in names if not n.startswith("_") and not n.isupper()
                   and n not in ("install", "aliases", "atleast", "check_device", "Tensor"))
    return f"from .{module} import " + ", ".join(f"{n} as {n}" for n in names)


def main():
    folder, output = sys.argv[1:]
    sys.path.insert(0, folder)
    import _C
    head = HEAD.replace("@FUNCTIONS@", imports("_functions"))
    python_names = set(re.findall(r"(\w+) as \1", head)) | set(re.findall(r"^def (\w+)", head, re.MULTILINE))
    taken = set(re.findall(r"^    def (\w+)", TENSOR, re.MULTILINE))
    lines = [head, TENSOR.rstrip()]
    for o in OPERATORS:
        lines.append(f"    def __{o}__(self, other: Any) -> \"Tensor\": ...")
    for name, op in sorted(_C.functions.items()):
        if not name.startswith("_") and not name.endswith("_backward") and name not in taken and name not in ("mT", "numpy_T"):
            lines += definitions(name, op, True, "    ")
    for alias in ("float32 float float64 double float16 half bfloat16 int64 long int32 int int16 short int8 uint8 bool").split():
        lines.append(f"{alias}: dtype")
    for name, op in sorted(_C.functions.items()):
        if not name.startswith("_") and not name.endswith("_backward") and name not in python_names:
            lines += definitions(name, op, False, "")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
