"""Parameter and Buffer: tensors that a module registers when they become its attributes."""
from .. import _C
from .._tensor import Tensor


class Parameter(Tensor):
    """A tensor that is a module's to learn."""

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = _C.functions["empty"](0)
        self = Tensor.__new__(cls, data.detach()).requires_grad_(requires_grad)
        _C._count_memory_as(self, "parameter")
        return self

    def __repr__(self):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that is a module's state but not to learn."""

    def __new__(cls, data=None, *, persistent=True):
        self = Tensor.__new__(cls, _C.functions["empty"](0) if data is None else data.detach())
        self.persistent = persistent
        return self


class UninitializedParameter(Parameter):
    """The place of a parameter whose sizes the first input decides (lazy layers)."""

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        return Tensor.__new__(cls, _C.functions["empty"](0, dtype=dtype or _C.get_default_dtype())).requires_grad_(requires_grad)

    def __repr__(self):
        return f"<{type(self).__name__}>"


def is_lazy(param):
    """Whether it has no sizes yet."""
    return isinstance(param, UninitializedParameter)
