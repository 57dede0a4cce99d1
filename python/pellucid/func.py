"""torch.func: derivatives of functions as functions, vmap, and modules called with other parameters.

Derivatives are the tape's: each transformation calls the function on leaves of its own and differentiates with create_graph, so
that transformations nest. vmap calls the function once for each example and stacks what it returns: the same results, not faster.
"""
import functools

from . import _C
from ._tensor import Tensor
from .autograd.forward_modes import enable_grad
from .utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "vmap", "functional_call",
           "stack_module_state"]
_F = _C.functions
_depth = 0  # how many transformations are running; only the outermost drops the graph


class _Level:
    """One running transformation: gradients are on, and at the outermost the graph that only it needed is dropped."""

    def __enter__(self):
        global _depth
        _depth += 1
        self._mode = enable_grad()
        self._mode.__enter__()
        self._leaves, self._keep = [], False
        return self

    def __exit__(self, *_):
        global _depth
        _depth -= 1
        self._mode.__exit__()

    def leaf(self, t):
        """A tensor of its own to differentiate by; still a part of the caller's graph, if it was."""
        if t.requires_grad:
            self._keep = True
            return t.view_as(t)
        made = t.detach().requires_grad_()
        self._leaves.append(made)
        return made

    def leaves(self, tree):
        return tree_map(lambda t: self.leaf(t) if isinstance(t, Tensor) else t, tree)

    def result(self, tree):
        return tree_map(lambda t: self._finish(t) if isinstance(t, Tensor) else t, tree)

    def _finish(self, t):
        if _depth > 1 or not t.requires_grad or self._keep or self._reaches_others(t):
            return t
        return t.detach()

    def _reaches_others(self, t):
        """Whether a gradient of t would reach a leaf that is not this transformation's, a parameter say."""
        own, seen, waiting = {id(leaf) for leaf in self._leaves}, set(), [t.grad_fn]
        if t.grad_fn is None:
            return id(t) not in own
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None and id(variable) not in own:
                return True
            waiting.extend(n for n, _ in node.next_functions)
        return False


def _gradients(outputs, inputs, vectors):
    """Differentiable gradients; zeros where an input does not matter."""
    pairs = [(o, v) for o, v in zip(outputs, vectors) if o.requires_grad]
    if not pairs:
        return [_F["zeros_like"](t) for t in inputs]
    found = _C._grad([o for o, _ in pairs], list(inputs), [v for _, v in pairs], True, True, True)
    return [_F["zeros_like"](t) if g is None else g for g, t in zip(found, inputs)]


def _chosen(args, argnums):
    """The arguments by number, and how to put others in their place."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if any(not -len(args) <= n < len(args) for n in numbers):
        raise RuntimeError(f"argnums {argnums} is out of bounds for a function called with {len(args)} positional arguments.")
    numbers = [n % len(args) for n in numbers]
    return numbers, [args[n] for n in numbers]


def _with(args, numbers, values):
    args = list(args)
    for n, value in zip(numbers, values):
        args[n] = value
    return args


def _call(func, args, kwargs, has_aux):
    result = func(*args, **kwargs)
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError("with has_aux=True the function must return a tuple (output, aux).")
    return result


def _call_with_leaves(level, func, args, kwargs, argnums, has_aux):
    """Calls with leaves in the place of the arguments that argnums names; returns them, the output and aux."""
    numbers, chosen = _chosen(args, argnums)
    leaves = level.leaves(chosen)
    return leaves, *_call(func, _with(args, numbers, leaves), kwargs, has_aux)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of one whose value is a single number."""
    @functools.wraps(func)
    def call(*args, **kwargs):
        with _Level() as level:
            leaves, output, aux = _call_with_leaves(level, func, args, kwargs, argnums, has_aux)
            if not isinstance(output, Tensor) or output.ndim != 0:
                found = f"a tensor of sizes {list(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
                raise RuntimeError(f"grad: the function must return a tensor without dims (a scalar), found {found}.")
            flat, spec = tree_flatten(leaves)
            places = [i for i, t in enumerate(flat) if isinstance(t, Tensor)]
            found = _gradients([output], [flat[i] for i in places], [None])
            for i, g in zip(places, found):
                flat[i] = g
            gradient = tree_unflatten(flat, spec)
            gradient = level.result(gradient[0] if isinstance(argnums, int) else tuple(gradient))
            value = level.result(output)
            return gradient, (value, level.result(aux)) if has_aux else value
    return call


def grad(func, argnums=0, has_aux=False):
    """The function that computes func's gradient by its arguments `argnums`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient
    return call


def vjp(func, *primals, has_aux=False):
    """(output, a function from a vector to the vector times the Jacobian)."""
    with _Level() as level:
        leaves = level.leaves(list(primals))
        output, aux = _call(func, leaves, {}, has_aux)
        flat, spec = tree_flatten(leaves)
        outputs, _ = tree_flatten(output)
        result = tree_map(lambda t: t if _depth > 1 or level._keep else t.detach(), output)

    def pull(cotangents, retain_graph=True, create_graph=None):
        vectors, _ = tree_flatten(cotangents)
        if len(vectors) != len(outputs):
            raise RuntimeError(f"vjp: the function has {len(outputs)} outputs but {len(vectors)} vectors were given.")
        found = _gradients(outputs, flat, vectors)
        if _depth == 0 and not level._keep and not any(v.requires_grad for v in vectors):
            found = [g.detach() for g in found]
        gradients = tree_unflatten(found, spec)
        return tuple(gradients)

    return (result, pull, aux) if has_aux else (result, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(output, the Jacobian times the tangents): two products backward, the second by the vector of the first."""
    with _Level() as level:
        leaves = level.leaves(list(primals))
        output, aux = _call(func, leaves, {}, has_aux)
        flat, (vectors, _) = tree_flatten(leaves)[0], tree_flatten(list(tangents))
        if [t.shape for t in flat] != [t.shape for t in vectors]:
            raise RuntimeError("jvp: primals and tangents must have the same structure and sizes.")
        outputs, spec = tree_flatten(output)
        dummies = [_F["zeros_like"](o).requires_grad_() for o in outputs]
        back = _gradients(outputs, flat, dummies)
        found = tree_unflatten(_gradients(back, dummies, vectors), spec)
        level._leaves.extend(dummies)
        result = level.result(output), level.result(found)
    return (*result, aux) if has_aux else result


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that computes the Jacobian: for each output a tensor of its sizes and then the argument's."""
    @functools.wraps(func)
    def call(*args, **kwargs):
        with _Level() as level:
            leaves, output, aux = _call_with_leaves(level, func, args, kwargs, argnums, has_aux)
            flat, spec = tree_flatten(leaves)
            outputs, out_spec = tree_flatten(output)
            rows = [_rows(o, flat, spec, isinstance(argnums, int)) for o in outputs]
            result = level.result(tree_unflatten(rows, out_spec))
            return (result, level.result(aux)) if has_aux else result
    return call


def _rows(output, inputs, spec, single):
    values = output.reshape(-1)
    rows = [_gradients([values[i]], inputs, [None]) for i in range(values.numel())]
    stacked = [_F["stack"]([row[k] for row in rows]).reshape((*output.shape, *t.shape)) if rows
               else _F["zeros"]((*output.shape, *t.shape), dtype=t.dtype) for k, t in enumerate(inputs)]
    made = tree_unflatten(stacked, spec)
    return made[0] if single else tuple(made)


def jacfwd(func, argnums=0, has_aux=False, *, chunk_size=None, randomness="error"):
    """The same Jacobian as jacrev, by the same way."""
    return jacrev(func, argnums, has_aux=has_aux)


def hessian(func, argnums=0):
    """A function that computes the second derivatives."""
    return jacfwd(jacrev(func, argnums), argnums)


# vmap

def _spread(dims, tree, what):
    """dims for every leaf of tree: a number or None stands for all below it."""
    if isinstance(dims, int) or dims is None:
        return [dims] * len(tree_flatten(tree)[0])
    if not isinstance(dims, (list, tuple, dict)) or type(dims) is not type(tree) or len(dims) != len(tree):
        raise ValueError(f"vmap: {what} {dims} does not fit the structure of what it describes.")
    pairs = [(dims[k], tree[k]) for k in tree] if isinstance(tree, dict) else zip(dims, tree)
    return [d for dim, part in pairs for d in _spread(dim, part, what)]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func over a batch: called for each example along in_dims, the results stacked along out_dims."""
    @functools.wraps(func)
    def call(*args, **kwargs):
        given = (list(args), kwargs)
        dims = [*_spread(in_dims if not isinstance(in_dims, tuple) else list(in_dims), list(args), "in_dims"),
                *_spread(0, kwargs, "in_dims")]
        flat, spec = tree_flatten(given)
        sizes = {t.shape[d] for t, d in zip(flat, dims) if d is not None and isinstance(t, Tensor)}
        if not sizes:
            raise ValueError("vmap: at least one input must be a tensor with a dim to map over.")
        if len(sizes) > 1:
            raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                             f"{sorted(sizes)}.")
        results = []
        for i in range(sizes.pop()):
            one = [t.select(d, i) if d is not None and isinstance(t, Tensor) else t for t, d in zip(flat, dims)]
            some, named = tree_unflatten(one, spec)
            results.append(func(*some, **named))
        return _stack(results, out_dims)
    return call


def _stack(results, out_dims):
    if not results:
        raise ValueError("vmap: the mapped dimension has size 0, so there is nothing to call the function with.")
    parts = [tree_flatten(r)[0] for r in results]
    spec = tree_flatten(results[0])[1]
    dims = _spread(out_dims, results[0], "out_dims")
    stacked = []
    for k, dim in enumerate(dims):
        column = [p[k] for p in parts]
        if not isinstance(column[0], Tensor):
            raise ValueError(f"vmap: the function must only return tensors, got type {type(column[0])}.")
        stacked.append(column[0] if dim is None else _F["stack"](column, dim))
    return tree_unflatten(stacked, spec)


# Modules as functions

def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the given tensors in place of its parameters and buffers of those names."""
    given = {}
    dicts = parameter_and_buffer_dicts
    for one in [dicts] if isinstance(dicts, dict) else dicts:
        given.update(one)
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    unknown = [n for n in given if n not in own]
    if strict and (unknown or set(own) - set(given)):
        raise RuntimeError(f"functional_call: unexpected keys {unknown}, missing keys {sorted(set(own) - set(given))}.")
    if tie_weights:
        for name, value in list(given.items()):
            if name in own:
                given.update({n: value for n, t in own.items() if t is own[name] and n not in given})
    places = []
    try:
        for name, value in given.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            where = owner._parameters if last in owner._parameters else owner._buffers
            places.append((where, last, where.get(last)))
            where[last] = value
        args = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*args, **(kwargs or {}))
    finally:
        for where, last, before in reversed(places):
            where[last] = before


def stack_module_state(models):
    """(parameters, buffers) of several models of one kind, each stacked along a new first dim."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    stack = lambda of: {name: _F["stack"]([dict(of(m))[name].detach() for m in models]) for name, _ in of(models[0])}
    parameters = {n: t.requires_grad_() for n, t in stack(lambda m: m.named_parameters()).items()}
    return parameters, stack(lambda m: m.named_buffers())
