"""register_full_backward_hook: an identity before and one after the module tell when its gradients are there."""
from ..._tensor import Tensor
from ...autograd.function import Function


class _Pass(Function):
    """The identity; hands the gradients that arrive to a Python function, which may replace them."""

    @staticmethod
    def forward(ctx, on_gradients, *tensors):
        ctx.on_gradients = on_gradients
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        changed = ctx.on_gradients(grads)
        return (None, *(grads if changed is None else changed))


def _checked(name, result, grads):
    """What a hook returned in the place of grads: as many tensors of the same sizes and dtypes."""
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(grads):
        raise RuntimeError(f"Backward {'pre ' if name == 'grad_output' else ''}hook returned an invalid number of {name}, "
                           f"got {len(result)}, but expected {len(grads)}")
    for new, old in zip(result, grads):
        if new is None or old is None:
            continue
        if not isinstance(new, Tensor):
            raise TypeError(f"expected a Tensor, but the backward hook returned '{type(new).__name__}'")
        if new.shape != old.shape:
            raise RuntimeError(f"a backward hook has changed the size of {name} (was {tuple(old.shape)}, "
                               f"got {tuple(new.shape)})")
        if new.dtype != old.dtype:
            raise RuntimeError(f"a backward hook has changed the type of {name} (was {old.dtype}, got {new.dtype})")
    return result


class GradientHooks:
    """The backward hooks of one call of a module."""

    def __init__(self, module):
        self.module, self.grad_outputs = module, ()

    def _through(self, values, on_gradients):
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
        if not places:
            return tuple(values), False
        passed = _Pass.apply(on_gradients, *[values[i] for i in places])
        values = list(values)
        for i, t in zip(places, passed):
            values[i] = t
        return tuple(values), True

    def of_inputs(self, args):
        args, self.inputs_have_gradients = self._through(args, self._inputs_done)
        return args

    def of_outputs(self, output):
        single = isinstance(output, Tensor)
        values, _ = self._through((output,) if single else tuple(output), self._outputs_done)
        return values[0] if single else values

    def _outputs_done(self, grads):
        changed = None
        for hook, _ in self.module._backward_pre_hooks.values():
            result = hook(self.module, grads)
            if result is not None:
                grads = changed = _checked("grad_output", result, grads)
        self.grad_outputs = grads
        if not self.inputs_have_gradients:
            self._call((None,))
        return changed

    def _inputs_done(self, grads):
        return self._call(grads)

    def _call(self, grads):
        changed = None
        for hook, _ in self.module._backward_hooks.values():
            result = hook(self.module, grads, self.grad_outputs)
            if result is not None:
                grads = changed = _checked("grad_input", result, grads)
        return changed
