"""torch.compiler: what changes how a program is compiled has nothing to change here: a capture has no breaks and no guards."""
from ._compile import compile  # noqa: F401


def disable(fn=None, recursive=True, **_):
    """The function itself."""
    return fn if fn is not None else lambda function: function


allow_in_graph = assume_constant_result = disable


def is_compiling():
    """False: while a compiled function runs, its calls are captured, and the program is the same."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset():
    """Accepted: nothing is kept."""


def cudagraph_mark_step_begin():
    """Accepted: there are no graphs of a device."""
