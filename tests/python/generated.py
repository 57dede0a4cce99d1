"""What the generated parity tests share: strategies for shapes, dtypes, layouts and tensors, and the comparison of a call's
outcome in pellucid with that in PyTorch: values, dtypes, sizes, strides, or the error raised."""
import warnings

import hypothesis
import hypothesis.strategies as st
import torch

import pellucid

hypothesis.settings.register_profile("parity", derandomize=True, deadline=None, database=None, print_blob=False,
                                     suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("parity")

FLOATS = ["float64", "float32", "float16", "bfloat16"]
INTS = ["int64", "int32", "int16", "int8", "uint8"]
DTYPES = FLOATS + INTS + ["bool"]
dtypes = st.sampled_from(DTYPES)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
seeds = st.integers(0, 10**6)


class Pair:
    """One tensor in both libraries, with the same strides and values and no memory in common."""

    def __init__(self, theirs, grad=False):
        self.theirs = theirs.requires_grad_(grad)
        self.ours = to_ours(theirs.detach())
        if grad:
            self.ours.requires_grad_()

    def __repr__(self):
        return f"<{self.theirs.dtype} {list(self.theirs.shape)} strides {self.theirs.stride()} {self.theirs.flatten().tolist()}>"


def to_ours(t):
    """The whole storage is copied, so that views of it see the same."""
    storage = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage()).clone()
    return pellucid.from_dlpack(storage).as_strided(tuple(t.shape), t.stride(), t.storage_offset())


def numbers(shape, dtype, seed):
    """Small whole numbers, halves too for floating dtypes, so that results can be compared closely."""
    g = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if dtype == "bool":
        return torch.randint(0, 2, shape, generator=g).bool()
    low = 0 if dtype == "uint8" else -4
    values = torch.randint(low, 6, shape, generator=g)
    return values.to(kind) if dtype in INTS else (values.double() / 2).to(kind)


@st.composite
def tensors(draw, shape=shapes, dtype=dtypes, layout=True, grad=False, expand=True):
    """A Pair: contiguous, with dims swapped, with a step, or expanded."""
    size = tuple(draw(shape) if isinstance(shape, st.SearchStrategy) else shape)
    kind = draw(dtype) if isinstance(dtype, st.SearchStrategy) else dtype
    seed = draw(seeds)
    ways = ["plain", "plain", "swapped", "stepped"] + ["expanded"] * expand
    how = draw(st.sampled_from(ways)) if layout and size else "plain"
    if how == "swapped":
        order = draw(st.permutations(range(len(size))))
        t = numbers([size[d] for d in order], kind, seed).permute([order.index(d) for d in range(len(size))])
    elif how == "stepped":
        t = numbers([*size[:-1], size[-1] * 2 + 1], kind, seed)[..., 1::2][..., :size[-1]]
    elif how == "expanded":
        dim = draw(st.integers(0, len(size) - 1))
        t = numbers([1 if d == dim else n for d, n in enumerate(size)], kind, seed).expand(size)
    else:
        t = numbers(size, kind, seed)
    return Pair(t, grad)


@st.composite
def broadcastable(draw, count=2, most=3):
    """Shapes that broadcast together, mostly."""
    full = draw(st.lists(st.integers(0, 4), max_size=most))
    found = []
    for _ in range(count):
        part = full[draw(st.integers(0, len(full))):]
        part = [1 if draw(st.integers(0, 3)) == 0 else n for n in part]
        if part and draw(st.integers(0, 15)) == 0:
            part[0] += 1
        found.append(tuple(part))
    return found


def pick(value, side):
    """A value with every Pair replaced by its tensor of one side, and dtype names by dtypes."""
    if isinstance(value, Pair):
        return getattr(value, side)
    if isinstance(value, Dtype):
        return getattr(torch if side == "theirs" else pellucid, value)
    if isinstance(value, (list, tuple)):
        return type(value)(pick(v, side) for v in value)
    return value


class Dtype(str):
    """The name of a dtype among arguments."""


def attempt(call, side, arguments):
    module = torch if side == "theirs" else pellucid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(module, *pick(arguments, side)), None
        except Exception as error:  # whatever it is, the other side must raise its like
            return None, error


def same_outcome(call, *arguments, strides=False, tolerance=None, undefined=lambda value: False):
    """call(module, *arguments) gives the same or raises a like error on both sides; returns both results, or None for errors.
    undefined(their result) says where there is nothing to compare with."""
    theirs, their_error = attempt(call, "theirs", arguments)
    ours, our_error = attempt(call, "ours", arguments)
    if isinstance(their_error, NotImplementedError) or any(text in str(their_error) for text in GAPS):
        return None
    if their_error is not None:
        assert our_error is not None, f"PyTorch raises {type(their_error).__name__}: {their_error}; pellucid gives {ours!r}"
        # The kinds may differ: wrong sizes are always a ShapeError here, where PyTorch raises one of several.
        kinds = (RuntimeError, TypeError, ValueError, IndexError, OverflowError)
        assert isinstance(our_error, kinds), f"PyTorch raises {their_error!r}, pellucid {our_error!r}"
        return None
    assert our_error is None, f"PyTorch gives {theirs!r}; pellucid raises {type(our_error).__name__}: {our_error}"
    if undefined(theirs):
        return None
    same_value(ours, theirs, strides, tolerance)
    return ours, theirs


# Errors for what PyTorch could do but does not.
GAPS = ("not implemented for", "does not support bool input")
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def same_value(ours, theirs, strides=False, tolerance=None):
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, pellucid.Tensor), f"{ours!r} for {theirs!r}"
        assert str(ours.dtype) == str(theirs.dtype), f"dtype {ours.dtype}, PyTorch's {theirs.dtype}"
        assert tuple(ours.shape) == tuple(theirs.shape), f"sizes {list(ours.shape)}, PyTorch's {list(theirs.shape)}"
        if strides and theirs.numel():  # a step of a dim with one element is never taken
            steps = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (ours, theirs)]
            assert steps[0] == steps[1], f"strides {ours.stride()}, PyTorch's {theirs.stride()} for {list(theirs.shape)}"
        assert ours.requires_grad == theirs.requires_grad
        bound = tolerance or TOLERANCES.get(str(theirs.dtype)[6:], 0.0)
        found = torch.tensor(ours.detach().flatten().tolist(), dtype=torch.float64)
        wanted = theirs.detach().flatten().double()
        assert torch.allclose(found, wanted, rtol=bound, atol=bound, equal_nan=True), f"{found.tolist()}, PyTorch's {wanted.tolist()}"
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs):
            same_value(a, b, strides, tolerance)
    elif isinstance(theirs, (torch.dtype, torch.Size)):
        assert str(ours) == str(theirs)
    else:
        assert type(ours) is type(theirs) and (ours == theirs or ours != ours), f"{ours!r}, PyTorch's {theirs!r}"
