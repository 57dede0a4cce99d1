"""torch.jit: trace gives a program; the rest comes back as it was given, and what was asked to compile says so once."""
import inspect
from builtins import isinstance as _is
from collections.abc import Iterable
from typing import Final  # noqa: F401

from . import _C
from ._compile import _check_results, _flatten, _leaves, _restore, _same, _snapshot
from ._functions import tensor as _tensor
from ._promises import compile_warning
from .nn.modules.module import Module


def script(obj, *args, **kwargs):
    """The function or module itself, with a warning."""
    compile_warning("torch.jit.script")
    return obj


class TracedFunction:
    """The calls of a function or module, captured once: they run again without it, with other inputs of the same sizes and dtypes.
    Parameters are read where they are. Results have no history. `print(t)` lists the calls, `t.explain()` says what runs how, and
    `t.run(a=..., b=...)` takes the inputs by name."""

    def __init__(self, func, args, kwargs):
        object.__setattr__(self, "_function", func)
        self.__name__ = getattr(func, "__name__", type(func).__name__)
        tensors = []
        form = _flatten(self._bound(args, kwargs), tensors, "trace")
        self.inputs = self._names(form, len(tensors))

        def call(stand_ins):
            results, (given, named) = [], _restore(form, stand_ins)
            self._result = _flatten(func(*given, **named), results, "trace")
            _check_results(self._result, {id(v) for v in _leaves(form)}, "trace")
            return [t.detach() if t.requires_grad else t for t in results]
        self._dtypes = [t.dtype for t in tensors]
        self._form, self._program = _snapshot(form), _C._trace(call, self.inputs, tensors)

    def _signature(self):
        try:
            return inspect.signature(getattr(self._function, "forward", self._function))
        except (TypeError, ValueError):
            return None

    def _bound(self, args, kwargs):
        """The arguments in one order, by position as far as can be, however they are given."""
        signature = self._signature()
        if signature is None:
            return args, kwargs
        bound = signature.bind(*args, **kwargs)
        return bound.args, bound.kwargs

    def _names(self, form, count):
        """The names of the tensors among the arguments: those of the parameters where each is one tensor."""
        signature = self._signature()
        args, kwargs = form
        names = [] if signature is None else [*list(signature.parameters)[:len(args)], *kwargs]
        if len(names) == count == len(args) + len(kwargs) and len(set(names)) == count:
            return names
        return [f"input{i}" for i in range(count)]

    def __call__(self, *args, **kwargs):
        tensors = []
        if not _same(_flatten(self._bound(args, kwargs), tensors, self.__name__), self._form):
            raise ValueError(f"{self.__name__}: the arguments differ from those that it was traced with in more than the values of "
                             "their tensors; trace it again.")
        return self._run(tensors)

    def run(self, **inputs):
        """Runs it with the inputs by name."""
        if set(inputs) != set(self.inputs):
            raise ValueError(f"{self.__name__}: the inputs are {', '.join(self.inputs)}; found {', '.join(inputs) or 'none'}.")
        return self._run([inputs[name] for name in self.inputs])

    def _run(self, tensors):
        tensors = [t if _is(t, _C.Tensor) else _tensor(t, dtype=d) for t, d in zip(tensors, self._dtypes)]
        return _restore(self._result, self._program.run(tensors))

    def explain(self):
        """What runs how: groups, what they save, the passes and the plan of memory."""
        return self._program.explain()

    @property
    def graph(self):
        """The calls, one a line."""
        return str(self._program)

    @property
    def passes(self):
        """The calls before the first pass and after each one, as (name, text)."""
        return self._program.passes

    def __str__(self):
        return str(self._program)

    def save(self, *_, **__):
        """Not there."""
        raise NotImplementedError("torch.jit: a traced program is not saved; save the state_dict() of the module, and trace it again.")


class TracedModule(TracedFunction, Module):
    """A module that was traced: calls run the program, and parameters, buffers and everything else are those of the module. As the
    calls were captured, train() and eval() change no later run."""

    def __init__(self, module, args, kwargs):
        Module.__init__(self)
        # The same dictionaries: what is set in one is set in the other, with the same names in state_dict().
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, getattr(module, name))
        object.__setattr__(self, "training", module.training)
        TracedFunction.__init__(self, module, args, kwargs)

    def forward(self, *args, **kwargs):
        return TracedFunction.__call__(self, *args, **kwargs)

    __call__ = Module.__call__

    def __getattr__(self, name):
        try:
            return Module.__getattr__(self, name)
        except AttributeError:
            if name == "_function":
                raise
            return getattr(self._function, name)


def trace(func, example_inputs=None, *, example_kwarg_inputs=None, **_):
    """A program made from one call of a function or module with stand-ins for the inputs: the function may ask for sizes and dtypes,
    and not for values. Nothing runs while it is traced, unless the function keeps what it makes (a module that stores an activation,
    an optimiser's state): then its calls run once, with the examples.

        both = torch.jit.trace(lambda a, b: (a + b, a * b), (torch.tensor(0.), torch.tensor(0.)))
        both.run(a=torch.tensor(2.), b=torch.tensor(3.))      # 5 and 6
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise TypeError("torch.jit.trace: example_inputs is missing: a tensor, or a tuple of the arguments.")
    if example_inputs is None:
        example_inputs = ()
    args = (example_inputs,) if _is(example_inputs, (_C.Tensor, dict)) or not _is(example_inputs, Iterable) else tuple(example_inputs)
    kind = TracedModule if _is(func, Module) else TracedFunction
    return kind(func, args, example_kwarg_inputs or {})


def ignore(drop=False, **kwargs):
    """The function itself."""
    return drop if callable(drop) else lambda function: function


def export(fn):
    """The function itself: the mark of a method to compile."""
    return fn


unused = interface = script_if_tracing = export


def script_method(fn):
    """The method itself, with a warning."""
    compile_warning("torch.jit.script_method")
    return fn


def freeze(mod, *args, **kwargs):
    """The module itself, with a warning."""
    compile_warning("torch.jit.freeze")
    return mod


optimize_for_inference = freeze


def annotate(the_type, the_value):
    """The value."""
    return the_value


def is_scripting():
    """False: the program runs as Python."""
    return False


def is_tracing():
    """Whether a program is being made of what runs."""
    return _C._is_sealing()


def isinstance(obj, target_type):
    """Python's own."""
    import builtins
    return builtins.isinstance(obj, target_type)


def __getattr__(name):
    if name in ("save", "load"):
        raise AttributeError(f"torch.jit.{name} is not there: a program is not compiled; save its state_dict() with torch.save.")
    raise AttributeError(f"module 'torch.jit' has no attribute '{name}' in pellucid")
