"""Gradient checkpointing: activations are dropped and computed again when backward needs them."""
from .. import _C
from .._tensor import Tensor


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs) without keeping what backward needs; the same gradients bit for bit."""
    for known in ("context_fn", "determinism_check", "debug", "early_stop"):
        kwargs.pop(known, None)
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    shape = []  # what function returned: one tensor, or a tuple with other things in it

    def run(*tensors):
        given = list(args)
        for i, t in zip(places, tensors):
            given[i] = t
        out = function(*given, **kwargs)
        shape[:] = [out]
        if isinstance(out, (list, tuple)):
            return [o for o in out if isinstance(o, Tensor)]
        return out if isinstance(out, Tensor) else ()

    results = iter(_C._checkpoint(run, [args[i] for i in places], preserve_rng_state))
    out = shape.pop()
    if isinstance(out, Tensor):
        return next(results)
    if not isinstance(out, (list, tuple)):
        return out
    return type(out)(next(results) if isinstance(o, Tensor) else o for o in out)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A Sequential in `segments` checkpointed parts; the last part keeps its activations."""
    parts = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(parts) // segments

    def run(start, end):
        def forward(x):
            for part in parts[start:end]:
                x = part(x)
            return x
        return forward

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(run(start, end), input, use_reentrant=use_reentrant, **kwargs)
    return run(end, len(parts))(input)
