"""torch.compile: calls of a function or module are captured, fused and run as a whole, where that is faster."""
import collections
import copy
import dataclasses
import functools
import gc
import operator
import sys
import types
import warnings
from collections.abc import Iterator

from . import _C
from ._watch import State, Unseen, Watch, global_hooks
from .nn.modules.module import Module, _scopes

def _parts(value):
    """The parts of a value that may hold tensors, and how to make an equal value of others; None for what has no parts."""
    if isinstance(value, dict):
        names = list(value)

        def as_dict(parts):
            made = copy.copy(value)  # a defaultdict, a Counter or a class of the program's own stays what it is
            made.update(zip(names, parts))
            return made
        return list(value.values()), as_dict
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(value), lambda parts: type(value)(*parts)
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value), type(value)
    if isinstance(value, collections.deque):
        return list(value), lambda parts: type(value)(parts, value.maxlen)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [f.name for f in dataclasses.fields(value) if hasattr(value, f.name)]

        def as_object(parts):
            made = copy.copy(value)
            for name, part in zip(names, parts):
                object.__setattr__(made, name, part)  # also where it is frozen
            return made
        return [getattr(value, name) for name in names], as_object
    return None


class _Place:
    """Where a tensor was."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, _Place) and self.number == other.number

    def __hash__(self):
        return hash(("tensor", self.number))


def _flatten(value, tensors, who="seal"):
    """The value with each tensor replaced by its number; the tensors are appended to the list."""
    if isinstance(value, _C.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    found = _parts(value)
    if found is not None:
        parts, made_of = found
        flat = [_flatten(p, tensors, who) for p in parts]
        return made_of(flat) if any(a is not b for a, b in zip(flat, parts)) else value
    if isinstance(value, Iterator):
        raise ValueError(f"{who}: an iterator cannot be given again in each call; give and return a list.")
    if not isinstance(value, Module) and any(isinstance(v, _C.Tensor) for v in getattr(value, "__dict__", {}).values()):
        raise ValueError(_holder_text(value, who))
    return value


def _taken_apart(args, kwargs):
    """The tensors among arguments, and the rest; where all are tensors, the number of them stands for it."""
    if not kwargs and all(type(a) is _C.Tensor for a in args):
        return list(args), len(args)
    tensors = []
    return tensors, _flatten((args, kwargs), tensors)


def _same_others(a, b):
    return a == b if type(a) is int or type(b) is int else _same(a, b)


def _holder_text(value, who):
    return (f"{who}: a {type(value).__name__} holds tensors, which would stay those of the first call. Give and return tensors, or "
            "tuples, lists, dicts and dataclasses of them.")


_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type, types.ModuleType, Module, _Place, _C.dtype)


def _holds_tensors(value):
    """Whether tensors can be reached from an object, other than through modules, classes and a function's globals."""
    seen, pending = set(), [value]
    while pending and len(seen) < 1000:
        found = pending.pop()
        if isinstance(found, _C.Tensor):
            return True
        if id(found) in seen or isinstance(found, _PLAIN):
            continue
        seen.add(id(found))
        if isinstance(found, types.FunctionType):
            pending += [*(found.__closure__ or ()), *(found.__defaults__ or ()), *(found.__kwdefaults__ or {}).values()]
        elif not isinstance(found, types.FrameType):
            pending += gc.get_referents(found)
    return False


def _check_results(form, given, who="seal"):
    """Refuses a flattened result that holds tensors where they cannot be replaced. What was given as an argument may be given back."""
    found = _parts(form)
    if found is not None:
        for part in found[0]:
            _check_results(part, given, who)
    elif not isinstance(form, _PLAIN) and id(form) not in given and _holds_tensors(form):
        raise ValueError(_holder_text(form, who))


def _leaves(value):
    found = _parts(value)
    return [leaf for part in found[0] for leaf in _leaves(part)] if found is not None else [value]


def _snapshot(value):
    """A flattened value as it is now: what the program changes in it later is a difference (_same)."""
    found = _parts(value)
    if found is not None:
        return type(value)(value) if isinstance(value, (set, frozenset)) else found[1]([_snapshot(p) for p in found[0]])
    return copy.copy(value) if isinstance(value, bytearray) or type(value).__module__ == "numpy" else value


class _Objects:
    """What a sealed function depends on beside tensors: objects among its arguments, and the modules that it called."""

    def __init__(self, others, called):
        self._state = State()
        for leaf in (*_leaves(others), *called.values()):
            if isinstance(leaf, Module) or not isinstance(leaf, (*_PLAIN, types.FunctionType)):
                self._state.add(leaf)
        self._state.place(global_hooks)

    def unchanged(self):
        return self._state.unchanged()


def _restore(value, tensors):
    """What _flatten took apart, with these tensors."""
    if type(value) is _Place:
        return tensors[value.number]
    found = _parts(value)
    return value if found is None else found[1]([_restore(p, tensors) for p in found[0]])


def _same(a, b):
    """Whether two flattened values are equal, whatever their own idea of equality is (arrays of NumPy have none)."""
    if type(a) is not type(b):
        return False
    mine, other = _parts(a), _parts(b)
    if mine is not None and not isinstance(a, (set, frozenset)):
        names = list(a) == list(b) if isinstance(a, dict) else True
        return names and len(mine[0]) == len(other[0]) and all(map(_same, mine[0], other[0]))
    if type(a).__module__ == "numpy" and hasattr(a, "tobytes"):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    try:
        return a is b or bool(a == b)
    except (TypeError, ValueError):
        return False


def _elements(value, depth):
    """How many elements the tensors in a container have, to tell sizes of calls apart."""
    if isinstance(value, _C.Tensor):
        return value.numel()
    if depth == 0 or not isinstance(value, (list, tuple, dict)):
        return 0
    return sum(_elements(v, depth - 1) for v in (value.values() if isinstance(value, dict) else value))


_BACKENDS = ("inductor", "aot_eager", "cudagraphs", "eager")
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


_CAPTURED = object()  # in the place of a result: the call is captured like any other


class _Form:
    """A sealed program of a function with mode="reduce-overhead", and what Python knows of it."""

    def __init__(self, sealed, function):
        self.sealed, self.watch = sealed, Watch(function)
        self.result = self.state = None
        self.verified = False  # a whole call changed nothing that it can reach
        self.traced = False
        self.generation = 0  # of what it depends on: another one is traced anew


class _Forms:
    """The sealed programs of a function, for arguments of each form; where sealing is not safe calls are captured."""

    _MOST_OTHERS = 16

    def __init__(self, function, options):
        self._function = function
        self._found = _C._SealedForms(options)
        self._others = []  # what arguments there were beside tensors
        self._forms = {}

    def text(self):
        return self._found.text()

    def _number_of(self, others):
        for i, known in enumerate(self._others):
            if _same_others(others, known):
                return i
        if len(self._others) == self._MOST_OTHERS:
            return None
        self._others.append(_snapshot(others))
        return len(self._others) - 1

    def call(self, args, kwargs):
        """The result, or _CAPTURED."""
        if self._found.refused or sys.getprofile() is not None:
            return _CAPTURED
        try:
            tensors, others = _taken_apart(args, kwargs)
        except ValueError as e:
            self._found.refuse(str(e))
            return _CAPTURED
        number = self._number_of(others)
        sealed = None if number is None else self._found.find(tensors, [number])
        if sealed is None:
            return _CAPTURED
        if id(sealed) not in self._forms:
            self._forms[id(sealed)] = _Form(sealed, self._function)
        form = self._forms[id(sealed)]
        if form.state is not None and not form.state.unchanged():
            form.verified, form.state, form.result = False, None, None
            form.generation += 1
        if not sealed.traces(tensors):
            if form.verified:
                results = sealed.try_replay(tensors)
                return _CAPTURED if results is None else _restore(form.result, results)
            form.generation += 1
        return self._trace(form, tensors, others, [number, form.generation], args, kwargs)

    def _trace(self, form, tensors, others, numbers, args, kwargs):
        sealed, watch, known = form.sealed, form.watch, len(form.watch)
        form.state = None
        try:
            before = watch.state(*_leaves(others)) if form.traced else None
            why = ""
        except Unseen as e:
            before, why = None, str(e)
        form.traced = True
        sealed.begin(tensors, numbers)
        try:
            with watch.noting():
                result = self._function(*args, **kwargs)
            results = []
            try:
                flat = _flatten(result, results)
                _check_results(flat, {id(v) for v in _leaves(others)})
                if before is not None and not before.unchanged():
                    why = "a call of it changes Python variables or attributes, which a replay would not"
                after = watch.state(*_leaves(others))
            except (ValueError, Unseen) as e:
                why = why or str(e)
            why = why or watch.refused
            if why:
                sealed.end_unsealed(why)
                return result
            results = [t.detach() if _C._history_is_spent(t) else t for t in results]
            same = form.result is not None and _same(flat, form.result)
            sealed.end(results)
        finally:
            sealed.abandon()
        if sealed.is_refused:
            return result
        form.verified = before is not None and len(watch) == known and same
        form.result, form.state = flat, after
        return _restore(flat, results)


class Compiled:
    """A function whose calls are captured. Results have the same bits; both ways are timed at first, and the faster one stays."""

    def __init__(self, function, always=False, memory_budget=0, whole=False, reassociate=False, seals=False):
        self._function, self._given = function, (always, memory_budget, whole, reassociate, seals)
        self._options = _C._CompileOptions(memory_budget, reassociate)
        self._trials = _C._CompileTrials(always, whole, self._options)
        self._forms = _Forms(function, self._options) if seals else None
        self._sealed = None
        self._calls = self._traced = 0  # of a sealed function
        functools.update_wrapper(self, function, updated=())

    def seal(self):
        """From now on calls replay what the function did, without calling it. The tensors among the arguments, and those that the
        function uses (parameters, a learning rate), are read anew; other side effects are lost, and results have no history. The
        function is traced at calls 1, 2 and every 1,024th; one that differs raises before it runs. Returns itself."""
        self._sealed, self._others, self._result, self._objects = _C._Sealed(self._options), None, None, None
        self._calls = self._traced = 0
        return self

    def _call_sealed(self, args, kwargs):
        tensors, others = _taken_apart(args, kwargs)
        if self._others is not None and not _same_others(others, self._others):
            raise ValueError("seal: an argument that is no tensor changed. A sealed function replays what it did with the first "
                             "one; give it as a tensor.")
        if self._objects is not None and not self._objects.unchanged():
            self.seal()
        sealed = self._sealed
        self._calls += 1
        if not sealed.traces(tensors):
            return _restore(self._result, sealed.replay(tensors, []))
        self._objects = None  # what it holds is not held by the program
        sealed.begin(tensors, [])
        try:
            results = []
            with _scopes.noting() as called:
                form = _flatten(self._function(*args, **kwargs), results)
            _check_results(form, {id(v) for v in _leaves(others)})
            # As in every later call they have no history, and what it kept for a gradient is not made.
            results = [t.detach() if t.requires_grad else t for t in results]
            sealed.end(results)
        finally:
            sealed.abandon()
        self._others, self._result, self._objects = _snapshot(others), form, _Objects(others, called)
        self._traced += 1
        return _restore(form, results)

    def __call__(self, *args, **kwargs):
        if self._sealed is not None and not _C._is_sealing():
            return self._call_sealed(args, kwargs)
        if self._forms is not None and not _C._is_sealing():
            result = self._forms.call(args, kwargs)
            if result is not _CAPTURED:
                return result
        elements = 0
        for value in args:
            if isinstance(value, _C.Tensor):
                elements += value.numel()
            elif isinstance(value, (list, tuple, dict)):
                elements += _elements(value, 3)
        if kwargs:
            elements += _elements(kwargs, 3)
        call = _C._CompiledCall(self._trials, elements)
        try:
            result = self._function(*args, **kwargs)
            if call.finish():
                self._warn_of_changes()
            return result
        finally:
            call.close()

    def _warn_of_changes(self):
        code = getattr(getattr(self._function, "__func__", self._function), "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        calls = _C._CompileTrials.most_new_in_a_row
        warnings.warn(f"compile: {name}{where} captured something new in each of {calls} calls in a row, so no program could be kept "
                      "and replayed. Usually sizes change with every call: give it inputs of a few sizes (pad them), or compile a "
                      "part whose sizes stay.", stacklevel=3)

    def __get__(self, instance, owner=None):  # a method that was compiled in its class
        return self if instance is None else types.MethodType(self, instance)

    def explain(self, *args, **kwargs):
        """Makes one call, captured, and tells what ran how: print it, or look at its `parts`."""
        explanation = _C._explain(lambda: self._function(*args, **kwargs), self._options)
        if self._forms is not None:
            explanation.way = self._forms.text()
        return explanation

    def report(self):
        """What was measured so far, and which way calls take."""
        if self._sealed is None:
            captured, sealed = self._trials.report(), self._forms.text() if self._forms is not None else ""
            return sealed if sealed and captured == "not called yet\n" else captured + sealed
        return f"sealed; {self._calls} calls, of which {self._traced} called the function and traced it"

    def __getattr__(self, name):  # what is not its own is the function's
        if name in ("_function", "_sealed"):
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self):
        return Compiled, (self._function, *self._given), {"sealed": self._sealed is not None}

    def __setstate__(self, state):  # a copy of a sealed function is sealed, and traced anew
        if state["sealed"]:
            self.seal()


class OptimizedModule(Module):
    """A module whose calls are captured; `_orig_mod` is the module that was given, and everything else is asked of it."""

    def __init__(self, module, *given):
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_compiled", Compiled(module, *given))

    def forward(self, *args, **kwargs):
        return self._compiled(*args, **kwargs)

    def seal(self):
        """From now on calls replay what the module did; see Compiled.seal. Returns itself."""
        self._compiled.seal()
        return self

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)

    # What is set, or asked of a container, is the module's own: there is one state.
    def __setattr__(self, name, value):
        if name == "_orig_mod" or "_orig_mod" not in self.__dict__.get("_modules", {}):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    @property
    def training(self):
        return self._orig_mod.training

    @training.setter
    def training(self, mode):
        if "_orig_mod" in self.__dict__.get("_modules", {}):
            self._orig_mod.training = mode

    def __bool__(self):
        return True

    def __len__(self):
        return len(self._orig_mod)

    def __iter__(self):
        return iter(self._orig_mod)

    def __getitem__(self, key):
        return self._orig_mod[key]

    def __setitem__(self, key, value):
        self._orig_mod[key] = value

    def __contains__(self, key):
        return key in self._orig_mod

    def __dir__(self):
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def explain(self, *args, **kwargs):
        """Makes one call, captured, and tells what ran how."""
        return self._compiled.explain(*args, **kwargs)

    def report(self):
        """What was measured so far, and which way calls take."""
        return self._compiled.report()

    def __reduce__(self):
        compiled = self._compiled
        return OptimizedModule, (self._orig_mod, *compiled._given), {"sealed": compiled._sealed is not None}

    def __setstate__(self, state):
        if state["sealed"]:
            self.seal()


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False,
            memory_budget=0):
    """A function or module whose calls are captured and fused, with the same bits; also a decorator.

        f = torch.compile(lambda x: F.layer_norm(F.gelu(x * 100 + 10) + x, (1024,)))
        f(x)
        print(f.explain(x))      # groups, and why they end
        print(f.report())        # captured and eager, measured

    mode="max-autotune" captures every call; else the faster way is found out in the first ten calls. A program that was captured
    before is replayed. mode="reduce-overhead" replays it without calling the function (f.seal()) where that is safe, and captures
    every call where it is not: f.report() says which, and why. With memory_budget, in bytes, results that wait until they are read
    again are computed a second time where that saves memory. With fullgraph=True every call is captured, and one that asks for a
    value (item(), printing, if t:), which splits the program, raises ValueError. options={"reassociate": True} lets passes round
    otherwise than the program says; other options change nothing, with a warning. dynamic is accepted: sizes may change.
    backend="eager" compiles nothing.
    """
    del dynamic
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if callable(backend):
        warnings.warn("torch.compile: a backend of one's own is not called: calls are captured and run by pellucid.", stacklevel=2)
    elif backend not in _BACKENDS:
        raise RuntimeError(f"torch.compile: Invalid backend: {backend!r}, should be one of: {', '.join(_BACKENDS)}")
    options = dict(options or {})
    reassociate = options.pop("reassociate", False)
    if not isinstance(reassociate, bool):
        raise ValueError(f"torch.compile: the option reassociate is True or False, found {reassociate!r}.")
    if options:
        warnings.warn(f"torch.compile: the options {', '.join(map(str, options))} change nothing here; reassociate does, and memory_budget "
                      "is an argument of its own.", stacklevel=2)
    if isinstance(memory_budget, float) and memory_budget.is_integer():
        memory_budget = int(memory_budget)
    memory_budget = operator.index(memory_budget)
    if memory_budget < 0:
        raise ValueError(f"torch.compile: memory_budget is a number of bytes, found {memory_budget}; 0 is no limit.")
    given = mode in _MODES[1:], memory_budget, fullgraph, reassociate, mode == "reduce-overhead" and not fullgraph

    def compiled(target):
        if disable or backend == "eager":
            return target
        if isinstance(target, OptimizedModule):
            return target
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(compiled(target.__func__))
        if isinstance(target, Module):
            return OptimizedModule(target, *given)
        if not callable(target):
            raise RuntimeError(f"torch.compile: a function or a module is needed, found {type(target).__name__}")
        return Compiled(target, *given)
    return compiled if model is None else compiled(model)
