"""Gradients compared with central differences."""
from .. import _C
from .._promises import not_kept
from .._tensor import Tensor


def _function_of_tensors(func, inputs):
    places = [i for i, t in enumerate(inputs) if isinstance(t, Tensor)]

    def call(*tensors):
        args = list(inputs)
        for i, t in zip(places, tensors):
            args[i] = t
        out = func(*args)
        return out if isinstance(out, Tensor) else [t for t in out if isinstance(t, Tensor) and t.is_floating_point()]
    return call, [inputs[i] for i in places]


def _say_what_is_not_checked(options):
    asked = [name for name, on in options.items() if name.startswith("check_") and on
             and name not in ("check_undefined_grad", "check_grad_dtypes", "check_backward_ad")]
    if asked:
        not_kept(f"gradcheck({asked[0]}=True)", "this is not checked; gradients of backward alone are.")


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **options):
    """Whether the gradients of func at float64 inputs agree with central differences."""
    _say_what_is_not_checked(options)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return _C._gradcheck(*_function_of_tensors(func, inputs), eps, atol, rtol, raise_exception, False)


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, **options):
    """The same for the gradients of the gradients."""
    _say_what_is_not_checked(options)
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    return _C._gradcheck(*_function_of_tensors(func, inputs), eps, atol, rtol, raise_exception, True)
