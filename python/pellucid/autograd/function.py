"""Custom functions: a class with static forward and backward, called through apply."""
from .. import _C


class FunctionCtx(_C._FunctionContext):
    """What forward hands to backward."""

    def __init__(self):
        super().__init__()
        self._to_save = self._dirty = self._non_differentiable = ()
        self._materialize = True

    def save_for_backward(self, *tensors):
        self._to_save = tensors

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        self._materialize = bool(value)

    @property
    def saved_variables(self):
        return self.saved_tensors


class Function:
    """A differentiable function of one's own:

        class Square(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, grad):
                x, = ctx.saved_tensors
                return 2 * x * grad

        y = Square.apply(x)
    """

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self).__name__}: a Function is not instantiated; call {type(self).__name__}.apply(...).")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to "
                                  "use it with backward mode AD.")

    @classmethod
    def _run_forward(cls, ctx, *args):
        if hasattr(cls, "setup_context"):
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            return output
        return cls.forward(ctx, *args)

    @classmethod
    def apply(cls, *args):
        return _C._apply_function(cls, FunctionCtx(), *args)


def once_differentiable(backward):
    """For a backward whose own operations need no gradient."""
    import functools
    from .forward_modes import no_grad

    @functools.wraps(backward)
    def call(ctx, *grads):
        with no_grad():
            return backward(ctx, *grads)
    return call
