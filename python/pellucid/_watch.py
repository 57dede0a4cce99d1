"""What a function depends on beside tensors, as far as Python can tell: sealed functions ask whether it changed, and
mode="reduce-overhead" whether a function may be sealed at all."""
import builtins
import collections
import contextlib
import dis
import functools
import gc
import operator
import sys
import types

from . import _C
from .nn.modules.module import Module, _global_hooks

_EQUAL = (bool, int, float, complex, str, bytes, tuple, frozenset, range, slice)
_PLAIN = (type(None), *_EQUAL, type(Ellipsis), type(NotImplemented), _C.dtype, types.MappingProxyType)
# What these modules do changes nothing that a later call could see, and depends on nothing that changes.
_HARMLESS = frozenset(("abc", "builtins", "cmath", "collections", "contextlib", "copy", "copyreg", "dataclasses", "enum", "functools",
                       "importlib", "inspect", "itertools", "keyword", "math", "numbers", "operator", "pellucid", "re", "reprlib", "types",
                       "typing", "warnings", "weakref", "_abc", "_collections", "_collections_abc", "_frozen_importlib",
                       "_frozen_importlib_external", "_functools", "_operator", "_thread", "_weakref", "_weakrefset", "zipimport"))
_EFFECTS = frozenset(("print", "input", "open", "eval", "exec", "compile", "breakpoint", "globals", "locals", "vars"))
_MOST_PARTS = 4000
# Of a module, what its _structure() looks into.
_PARTS = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _top(name):
    return (name or "").partition(".")[0]


def _module_of(kind):
    name = kind.__module__
    return name if isinstance(name, str) else repr(kind).split("'")[1]  # a type of C that has none of its own


def _is_harmless(name):
    return _top(name) in _HARMLESS


class Unseen(Exception):
    """Something is held whose changes cannot be seen."""


def _same(a, b):
    return a is b or (type(a) is type(b) and isinstance(a, _EQUAL) and a == b)


def _alike(now, before):
    return len(now) == len(before) and (all(map(operator.is_, now, before)) or all(map(_same, now, before)))


def _contents(cells):
    def values():
        found = []
        for cell in cells:
            try:
                found.append(cell.cell_contents)
            except ValueError:  # it is empty
                found.append(None)
        return found
    return values


class State:
    """Objects and what can be reached from them, as they are now. Tensors count by identity: programs read their values anew."""

    def __init__(self, refuses=False):
        self._places = []  # functions that give lists, and what they gave
        self._seen = {}
        self._parts = 0
        self._refuses = refuses

    def unchanged(self):
        return all(_alike(values(), before) for values, before in self._places)

    def place(self, values):
        before = values()
        self._places.append((values, before))
        self._parts += len(before)
        if self._parts > _MOST_PARTS:
            if self._refuses:
                raise Unseen(f"it can reach more than {_MOST_PARTS} Python objects")
            return
        for value in before:
            self.add(value)

    def add(self, value):
        if isinstance(value, _PLAIN):
            if isinstance(value, tuple):
                for part in value:
                    self.add(part)
            return
        if isinstance(value, _C.Tensor) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self._add_object(value)

    def _add_object(self, value):
        kind = type(value)
        if isinstance(value, Module):
            modules = list(value.modules())
            for module in modules:  # their structure has all that is in these
                for part in (module, *(getattr(module, name) for name in _PARTS)):
                    self._seen[id(part)] = part
            for module in modules:
                self.place(module._structure)
        elif isinstance(value, (list, collections.deque)):
            self.place(lambda: list(value))
        elif isinstance(value, dict):
            self.place(lambda: [*value, *value.values()])
        elif isinstance(value, (set, bytearray)):
            self.place(lambda: [frozenset(value) if isinstance(value, set) else bytes(value)])
        elif isinstance(value, functools.partial):
            self.place(lambda: [value.func, *value.args, *value.keywords.values()])
        elif isinstance(value, types.MethodType):
            self.add(value.__self__)
            self.add(value.__func__)
        elif isinstance(value, types.FunctionType):
            if not _is_harmless(value.__module__):
                self.place(lambda: [value.__code__, value.__defaults__, *(value.__kwdefaults__ or {}).values()])
                self.place(_contents(value.__closure__ or ()))
        elif isinstance(value, (types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType)):
            pass
        elif isinstance(value, (staticmethod, classmethod, property)):
            for part in (getattr(value, name, None) for name in ("__func__", "fget", "fset", "fdel")):
                self.add(part)
        elif isinstance(value, type):
            if not _is_harmless(_module_of(value)) and _top(_module_of(value)) not in sys.stdlib_module_names:
                self.place(lambda: [v for name, v in vars(value).items() if name not in ("__dict__", "__weakref__", "__doc__")])
        elif isinstance(value, types.ModuleType):
            if self._refuses and not _is_harmless(value.__name__):
                raise Unseen(f"it uses the module {value.__name__}")
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
                                types.MethodWrapperType, types.ClassMethodDescriptorType)):
            owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", "")
            if self._refuses and not _is_harmless(owner):
                raise Unseen(f"it uses {owner}.{value.__name__}")
        elif _top(_module_of(kind)) == "pellucid" and _is_own(kind):
            pass  # an optimiser, a generator, a device: what of it matters is seen elsewhere
        elif hasattr(value, "__dict__") or getattr(kind, "__slots__", ()):
            self._add_attributes(value)
        elif self._refuses:
            raise Unseen(f"it can reach a {kind.__name__}, whose changes cannot be seen")

    def _add_attributes(self, value):
        kind = type(value)
        slots = [name for c in kind.__mro__ for name in _names(getattr(c, "__slots__", ())) if name not in ("__dict__", "__weakref__")]
        self.place(lambda: [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)])
        self.add(kind)
        if isinstance(value, type(iter(()))) or hasattr(kind, "__next__"):
            if self._refuses:
                raise Unseen(f"it can reach a {kind.__name__}, which is an iterator")


def _names(slots):
    return [slots] if isinstance(slots, str) else list(slots)


def _is_own(kind):
    from .optim import Optimizer
    return issubclass(kind, Optimizer) or _module_of(kind).startswith(("pellucid._C", "pellucid.op_function"))


def global_hooks():
    return [hook for hooks in _global_hooks.values() for hook in hooks.values()]


class Watch:
    """The Python functions that a function calls, and whether they do what a replay would lose."""

    def __init__(self, function):
        self._function = function
        self._codes = {}  # code of the program's own: its globals
        self._known = set()
        self._cells = ()
        self.refused = ""

    def __len__(self):
        return len(self._codes)

    @contextlib.contextmanager
    def noting(self):
        """In its scope the calls of this thread are noted."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _refuse(self, why):
        self.refused = self.refused or why

    def _note(self, frame, event, arg):
        if event == "call":
            if frame.f_code not in self._known:
                self._known.add(frame.f_code)
                self._note_code(frame.f_code, frame.f_globals)
        elif event == "c_call" and not _is_harmless(frame.f_globals.get("__name__")):
            self._note_builtin(arg)

    def _note_code(self, code, names):
        module = names.get("__name__", "")
        if _is_harmless(module):
            return
        if _top(module) in sys.stdlib_module_names:
            self._refuse(f"it calls {module}.{code.co_name}")
        else:
            self._codes[code] = names

    def _note_builtin(self, function):
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, types.ModuleType):
            kind = getattr(function, "__objclass__", None)
            module = function.__module__ if kind is None else _module_of(kind)
            module = module or getattr(owner, "__name__", "")
            if not _is_harmless(module) or (module == "builtins" and kind is None and function.__name__ in _EFFECTS):
                self._refuse(f"it calls {function.__name__}()" if module == "builtins" else f"it calls {module}.{function.__name__}()")
        else:
            kind = owner if isinstance(owner, type) else type(owner)
            if not _is_harmless(_module_of(kind)):
                self._refuse(f"it calls {_module_of(kind)}.{kind.__name__}.{function.__name__}()")

    def state(self, *more):
        """All that the functions can reach, as it is now; raises Unseen where that cannot be known."""
        state = State(refuses=True)
        state.add(self._function)
        for value in more:
            state.add(value)
        state.place(global_hooks)
        for code, names in self._codes.items():
            self._add_globals(state, code, names)
        for cells in self._hidden_cells(state):
            state.place(_contents(cells))
        return state

    @staticmethod
    def _add_globals(state, code, names):
        used = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")}
        used = sorted(name for name in used if name in names or not hasattr(builtins, name))
        values = [names.get(name) for name in used]
        for module in values:
            name = getattr(module, "__name__", "")
            if isinstance(module, types.ModuleType) and not _is_harmless(name):
                if _top(name) in sys.stdlib_module_names:
                    raise Unseen(f"it uses the module {name}")
                read = sorted(set(code.co_names) & set(vars(module)))
                state._seen[id(module)] = module
                state.place(lambda module=module, read=read: [vars(module).get(n) for n in read])
        state.place(lambda: [names.get(name) for name in used])

    def _hidden_cells(self, state):
        """The variables of functions that were called and cannot be reached from the watched one."""
        hidden = [code for code in self._codes if code.co_freevars]
        if not hidden:
            return []
        if len(self._cells) == 0 or self._cells[0] != len(hidden):
            found = [f for f in gc.get_referrers(*hidden) if isinstance(f, types.FunctionType) and f.__closure__]
            self._cells = (len(hidden), found)
        return [f.__closure__ for f in self._cells[1] if id(f) not in state._seen]
