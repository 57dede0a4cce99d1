"""Lazy evaluation: operations are kept, and run when a value is needed."""
import dataclasses
from collections.abc import Iterator

from . import _C
from .autograd.forward_modes import _Mode


class lazy(_Mode):
    """Operations in its scope are kept until somebody reads a value that depends on them; at its end, all that the program can
    still see is computed. The results have the same bits as without it. A context and a decorator.

        with pellucid.lazy():
            y = torch.tanh(x @ w)   # nothing runs
            print(y)                # runs both
    """

    def __init__(self, enabled=True):
        self.enabled = bool(enabled)

    def _again(self):
        return lazy(self.enabled)

    def __enter__(self):
        _C._enter_lazy(self.enabled)
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.enabled:
                _C._eval_all()
        finally:
            _C._leave_lazy()


def _tensors(values):
    for value in values:
        if isinstance(value, _C.Tensor):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from _tensors(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _tensors(vars(value).values() if hasattr(value, "__dict__") else
                                [getattr(value, f.name, None) for f in dataclasses.fields(value)])
        elif not isinstance(value, type) and callable(getattr(value, "parameters", None)) and callable(getattr(value, "buffers", None)):
            yield from value.parameters()
            yield from value.buffers()


def eval(*values):
    """Computes pending tensors, also those in lists, sets, dicts, dataclasses and modules; without arguments all that this thread
    kept. What holds no tensor is passed over; an iterator, which would be used up, is refused."""
    for value in values:
        if isinstance(value, Iterator):
            raise TypeError(f"pellucid.eval: a {type(value).__name__} would be used up; give a list.")
    if values:
        _C._eval(list(_tensors(values)))
    else:
        _C._eval_all()
