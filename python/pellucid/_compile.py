"""torch.compile: calls of a function or module are captured, fused and run as a whole, where that is faster."""
import functools
import types

from . import _C
from ._lazy import _tensors
from .nn.modules.module import Module

def _flatten(value, tensors):
    """The value with each tensor replaced by its number; the tensors are appended to the list."""
    if isinstance(value, _C.Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, dict):
        return type(value)((k, _flatten(v, tensors)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_flatten(v, tensors) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_flatten(v, tensors) for v in value)
    return value


def _restore(value, tensors):
    """What _flatten took apart, with these tensors."""
    if isinstance(value, _Place):
        return tensors[value.number]
    if isinstance(value, dict):
        return type(value)((k, _restore(v, tensors)) for k, v in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_restore(v, tensors) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_restore(v, tensors) for v in value)
    return value


class _Place:
    """Where a tensor was."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, _Place) and self.number == other.number

    def __hash__(self):
        return hash(("tensor", self.number))


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Compiled:
    """A function whose calls are captured. Results have the same bits; both ways are timed at first, and the faster one stays."""

    def __init__(self, function, always=False, memory_budget=0):
        self._function, self._always, self._budget = function, always, memory_budget
        self._trials = _C._CompileTrials(always, memory_budget)
        self._sealed = None
        functools.update_wrapper(self, function, updated=())

    def seal(self):
        """From now on calls replay what the function did, without calling it. The tensors among the arguments, and those that the
        function uses (parameters, a learning rate), are read anew; other side effects are lost, and results have no history. The
        function is traced at calls 1, 2 and every 1,024th; one that differs raises before it runs. Returns itself."""
        self._sealed, self._others, self._result = _C._Sealed(), None, None
        return self

    def _call_sealed(self, args, kwargs):
        tensors = []
        others = _flatten((args, kwargs), tensors)
        if self._others is not None and others != self._others:
            raise ValueError("seal: an argument that is no tensor changed. A sealed function replays what it did with the first "
                             "one; give it as a tensor.")
        sealed = self._sealed
        if not sealed.traces():
            return _restore(self._result, sealed.replay(tensors, []))
        sealed.begin(tensors, [])
        try:
            result = self._function(*args, **kwargs)
            results = []
            form = _flatten(result, results)
            sealed.end(results)
        finally:
            sealed.abandon()
        self._others, self._result = others, form
        return result

    def __call__(self, *args, **kwargs):
        if self._sealed is not None:
            return self._call_sealed(args, kwargs)
        elements = 0
        for value in args:
            if isinstance(value, _C.Tensor):
                elements += value.numel()
            elif isinstance(value, (list, tuple, dict)):
                elements += sum(t.numel() for t in _tensors([value]))
        if kwargs:
            elements += sum(t.numel() for t in _tensors([kwargs]))
        call = _C._CompiledCall(self._trials, elements)
        try:
            result = self._function(*args, **kwargs)
            call.finish()
            return result
        finally:
            call.close()

    def __get__(self, instance, owner=None):  # a method that was compiled in its class
        return self if instance is None else types.MethodType(self, instance)

    def explain(self, *args, **kwargs):
        """Makes one call, captured, and tells what ran how: print it, or look at its `parts`."""
        return _C._explain(lambda: self._function(*args, **kwargs))

    def report(self):
        """What was measured so far, and which way calls take."""
        return self._trials.report()

    def __reduce__(self):
        return Compiled, (self._function, self._always, self._budget)


class OptimizedModule(Module):
    """A module whose calls are captured; `_orig_mod` is the module that was given, and everything else is asked of it."""

    def __init__(self, module, always=False, memory_budget=0):
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        object.__setattr__(self, "_compiled", Compiled(module, always, memory_budget))

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

    def explain(self, *args, **kwargs):
        """Makes one call, captured, and tells what ran how."""
        return self._compiled.explain(*args, **kwargs)

    def report(self):
        """What was measured so far, and which way calls take."""
        return self._compiled.report()

    def __reduce__(self):
        return OptimizedModule, (self._orig_mod, self._compiled._always, self._compiled._budget)


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False,
            memory_budget=0):
    """A function or module whose calls are captured and fused, with the same bits; also a decorator.

        f = torch.compile(lambda x: F.layer_norm(F.gelu(x * 100 + 10) + x, (1024,)))
        f(x)
        print(f.explain(x))      # groups, and why they end
        print(f.report())        # captured and eager, measured

    mode="max-autotune" and its kin capture every call; else the faster way is found out in the first ten calls. A program that
    was captured before is replayed. With memory_budget, in bytes, results that wait until they are read again are computed a
    second time where that saves memory. f.seal() replays without calling the function at all. fullgraph, dynamic and options are
    accepted: nothing breaks a capture, and sizes may change. backend="eager" compiles nothing.
    """
    del fullgraph, dynamic
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    always = mode in _MODES[1:]

    def compiled(target):
        if disable or backend == "eager":
            return target
        if isinstance(target, OptimizedModule):
            return target
        if isinstance(target, Module):
            return OptimizedModule(target, always, memory_budget)
        if not callable(target):
            raise RuntimeError(f"torch.compile: a function or a module is needed, found {type(target).__name__}")
        return Compiled(target, always, memory_budget)
    return compiled if model is None else compiled(model)
