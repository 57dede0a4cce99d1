"""torch.jit: nothing is compiled, what comes back is what was given; what was asked to compile says so once."""
from typing import Final  # noqa: F401

from ._promises import compile_warning


def script(obj, *args, **kwargs):
    """The function or module itself, with a warning."""
    compile_warning("torch.jit.script")
    return obj


def trace(func, example_inputs=None, *args, **kwargs):
    """The function or module itself, with a warning, after one call with the example."""
    compile_warning("torch.jit.trace")
    if example_inputs is not None:
        func(*example_inputs) if isinstance(example_inputs, tuple) else func(example_inputs)
    return func


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


is_tracing = is_scripting


def isinstance(obj, target_type):
    """Python's own."""
    import builtins
    return builtins.isinstance(obj, target_type)


def __getattr__(name):
    if name in ("save", "load"):
        raise AttributeError(f"torch.jit.{name} is not there: a program is not compiled; save its state_dict() with torch.save.")
    raise AttributeError(f"module 'torch.jit' has no attribute '{name}' in pellucid")
