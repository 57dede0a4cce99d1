"""torch.compiler: nothing is compiled, so what changes how a program is compiled has nothing to change; ops run at once here."""
from ._functions import compile  # noqa: F401


def disable(fn=None, recursive=True, **_):
    """The function itself."""
    return fn if fn is not None else lambda function: function


allow_in_graph = assume_constant_result = disable


def is_compiling():
    """False: ops run at once."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset():
    """Accepted: nothing is kept."""


def cudagraph_mark_step_begin():
    """Accepted: there are no graphs of a device."""
