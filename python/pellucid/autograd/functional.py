"""torch.autograd.functional: Jacobians, Hessians and their products with vectors, of functions of tensors.

Products forward (jvp) are made of two products backward: the second differentiates the first by its own vector.
"""
from .. import _C
from .._tensor import Tensor
from .forward_modes import enable_grad

_F = _C.functions


def _tuple(value, what):
    if isinstance(value, Tensor):
        return (value,), True
    value = tuple(value)
    for item in value:
        if not isinstance(item, Tensor):
            raise TypeError(f"The {what} must be a Tensor or a tuple of Tensors, but one is a {type(item).__name__}")
    return value, False


def _single(values, alone):
    return values[0] if alone else tuple(values)


def _leaves(inputs, create_graph):
    """Inputs that gradients can be taken with respect to; with create_graph those of the caller stay in the graph."""
    return tuple(t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs)


def _call(func, inputs):
    outputs, alone = _tuple(func(*inputs), "outputs of the user-provided function")
    return outputs, alone


def _check_vectors(v, targets, what):
    if v is None:
        if len(targets) != 1 or targets[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {what} is a single Tensor with a single element.")
        return tuple(_F["ones_like"](t) for t in targets)
    v, _ = _tuple(v, "vector v")
    if len(v) != len(targets):
        raise RuntimeError(f"v is a tuple of {len(v)} tensors but there are {len(targets)} {what}s.")
    for a, b in zip(v, targets):
        if a.shape != b.shape:
            raise RuntimeError(f"v has size {list(a.shape)} but the {what} has size {list(b.shape)}.")
    return v


def _grad(outputs, inputs, vectors, create_graph, strict, what):
    """Gradients of those outputs that have one; zeros where an input does not matter, an error if strict."""
    pairs = [(o, v) for o, v in zip(outputs, vectors) if o.requires_grad]
    if not pairs:
        found = [None] * len(inputs)
    else:
        found = _C._grad([o for o, _ in pairs], list(inputs), [v for _, v in pairs], True, create_graph, True)
    if strict and any(g is None for g in found):
        raise RuntimeError(f"{what}: an output does not depend on input {[g is None for g in found].index(True)}; "
                           "with strict=True that is an error.")
    return [_F["zeros_like"](t) if g is None else g for g, t in zip(found, inputs)]


def _finish(values, create_graph):
    return values if create_graph else [v.detach() for v in values]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v times the Jacobian)."""
    with enable_grad():
        inputs, alone = _tuple(inputs, "inputs")
        inputs = _leaves(inputs, create_graph)
        outputs, one = _call(func, inputs)
        v = _check_vectors(v, outputs, "output")
        found = _grad(outputs, inputs, v, create_graph, strict, "vjp")
    return _single(_finish(outputs, create_graph), one), _single(_finish(found, create_graph), alone)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Jacobian times v)."""
    with enable_grad():
        inputs, _ = _tuple(inputs, "inputs")
        inputs = _leaves(inputs, create_graph)
        v = _check_vectors(v, inputs, "input")
        outputs, one = _call(func, inputs)
        dummies = [_F["zeros_like"](o).requires_grad_() for o in outputs]
        back = _grad(outputs, inputs, dummies, True, strict, "jvp")
        found = _grad(back, dummies, v, create_graph, False, "jvp")
    return _single(_finish(outputs, create_graph), one), _single(_finish(found, create_graph), one)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """d func / d inputs: for each output and input a tensor of the output's sizes, then the input's."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    with enable_grad():
        inputs, alone = _tuple(inputs, "inputs")
        inputs = _leaves(inputs, create_graph)
        outputs, one = _call(func, inputs)
        rows = tuple(_single(_finish(_jacobian_of(o, inputs, create_graph, strict), create_graph), alone) for o in outputs)
    return rows[0] if one else rows


def _jacobian_of(output, inputs, create_graph, strict):
    flat = output.reshape(-1)
    rows = [_grad([flat[i]], inputs, [None], create_graph, strict, "jacobian") for i in range(flat.numel())]
    if not rows:
        return [_F["zeros"]((*output.shape, *t.shape), dtype=t.dtype) for t in inputs]
    return [_F["stack"]([row[k] for row in rows]).view((*output.shape, *t.shape)) for k, t in enumerate(inputs)]


def _scalar(output, what):
    if not isinstance(output, Tensor) or output.numel() != 1:
        raise RuntimeError(f"{what}: The Tensor returned by the function given to {what} should contain a single element")
    return output.reshape(())


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function of one value."""
    inputs, alone = _tuple(inputs, "inputs")

    def gradient(*given):
        found = _grad([_scalar(func(*given), "hessian")], given, [None], True, strict, "hessian")
        return tuple(found)

    rows = jacobian(gradient, inputs, create_graph=create_graph, strict=strict)
    return rows[0][0] if alone else rows


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v times the Hessian)."""
    with enable_grad():
        inputs, alone = _tuple(inputs, "inputs")
        inputs = _leaves(inputs, create_graph)
        v = _check_vectors(v, inputs, "input")
        output = func(*inputs)
        first = _grad([_scalar(output, "vhp")], inputs, [None], True, strict, "vhp")
        found = _grad(first, inputs, v, create_graph, strict, "vhp")
    return _finish([output], create_graph)[0], _single(_finish(found, create_graph), alone)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), the Hessian times v), which is vhp: the Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)
