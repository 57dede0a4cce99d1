"""Parity with PyTorch over generated inputs: shapes, dtypes and promotion, strides, broadcasting, indexing and assignment,
gradients, errors raised in the same situations. The inputs are the same in every run."""
import operator

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
pytest.importorskip("hypothesis", reason="hypothesis is not installed, so no inputs are generated")

import hypothesis.strategies as st  # noqa: E402
from hypothesis import given, settings  # noqa: E402

from generated import Dtype, Pair, attempt, broadcastable, dtypes, same_outcome, shapes, tensors  # noqa: E402

scalars = st.one_of(st.integers(-3, 5), st.sampled_from([300, -200, 2**40]), st.sampled_from([-1.5, 0.0, 0.5, 2.0, float("inf")]), st.booleans())
filled = st.lists(st.integers(1, 4), max_size=4).map(tuple)  # PyTorch checks less where there is nothing to write
BINARY = {name: getattr(operator, name) for name in
          "add sub mul truediv floordiv mod pow eq ne lt le gt ge and_ or_ xor".split()}
NAMED = "maximum minimum atan2 fmod remainder true_divide floor_divide logical_and hypot copysign".split()


def data_test(count):
    def wrap(f):
        return settings(max_examples=count)(given(st.data())(f))
    return wrap


@data_test(400)
def test_operators_promote_and_broadcast(data):
    first, second = data.draw(broadcastable())
    a = data.draw(tensors(first))
    b = data.draw(st.one_of(tensors(second), scalars))
    name = data.draw(st.sampled_from(sorted(BINARY)))
    if name == "pow" and not isinstance(b, Pair) and (b in (0, 1, 300, -200, 2**40) or a.theirs.dtype == torch.bool):
        return  # PyTorch has rules of its own for such powers
    if data.draw(st.booleans()) and not isinstance(b, Pair):
        a, b = b, a
    same_outcome(lambda torch, x, y: BINARY[name](x, y), a, b, strides=True)


@data_test(150)
def test_named_binary_functions(data):
    first, second = data.draw(broadcastable())
    a, b = data.draw(tensors(first)), data.draw(tensors(second))
    name = data.draw(st.sampled_from(NAMED))
    same_outcome(lambda torch, x, y: getattr(torch, name)(x, y), a, b, strides=True)


def unchanged_by_errors(call, a, *arguments):
    """The same outcome; where it is an error, our tensor is as it was (PyTorch may have written a part)."""
    before = a.ours.clone()
    if same_outcome(call, a, *arguments, strides=True) is None:
        assert a.ours.tolist() == before.tolist()


@data_test(250)
def test_in_place_operators(data):
    first, second = data.draw(broadcastable())
    a = data.draw(tensors(first))
    b = data.draw(st.one_of(tensors(second), scalars))
    name = data.draw(st.sampled_from("iadd isub imul itruediv ifloordiv imod ipow iand ior ixor".split()))
    if name == "ipow" and not isinstance(b, Pair) and (abs(b) > 100 or a.theirs.dtype == torch.bool):
        return  # PyTorch has rules of its own for such powers
    unchanged_by_errors(lambda torch, x, y: getattr(operator, name)(x, y), a, b)


UNARY = ("neg abs sign exp log sqrt rsqrt sin tanh sigmoid relu floor ceil round trunc frac reciprocal square logical_not "
         "bitwise_not isnan isinf isfinite positive erf log1p expm1 clone contiguous").split()


@data_test(250)
def test_unary_functions(data):
    a = data.draw(tensors())
    name = data.draw(st.sampled_from(UNARY))
    same_outcome(lambda torch, x: getattr(x, name)(), a, strides=True)


REDUCTIONS = "sum mean prod amax amin max min any all argmax argmin std var logsumexp cumsum cumprod nansum count_nonzero median".split()


@data_test(400)
def test_reductions(data):
    a = data.draw(tensors())
    name = data.draw(st.sampled_from(REDUCTIONS))
    dim = data.draw(st.one_of(st.none(), st.integers(-5, 4)))
    keep = data.draw(st.booleans())
    if name == "median" and not a.theirs.numel() and not a.theirs.is_floating_point():
        return  # PyTorch makes a NaN an int

    def call(torch, x):
        if dim is None:
            return getattr(torch, name)(x)
        if name in ("cumsum", "cumprod", "count_nonzero"):
            return getattr(torch, name)(x, dim)
        return getattr(torch, name)(x, dim, keepdim=keep)
    if name in ("max", "min", "median") and dim is not None:
        same_outcome(lambda torch, x: call(torch, x).values, a)  # which of several equal ones the index names is not defined
    else:
        same_outcome(call, a)


@data_test(120)
def test_reductions_over_several_dims_and_into_dtypes(data):
    a = data.draw(tensors())
    dims = data.draw(st.lists(st.integers(-4, 3), max_size=3).map(tuple))
    name = data.draw(st.sampled_from("sum mean amax std logsumexp".split() if dims else "sum mean amax std".split()))
    dtype = data.draw(st.sampled_from([None, "float64", "float32", "int64"])) if name in ("sum", "mean") else None
    if dtype is None:
        same_outcome(lambda torch, x: getattr(torch, name)(x, dims, keepdim=False), a)
    else:
        same_outcome(lambda torch, x, t: getattr(torch, name)(x, dims, dtype=t), a, Dtype(dtype))


small = st.integers(-5, 5)
VIEWS = {
    "transpose": st.tuples(small, small), "permute": st.lists(small, max_size=4).map(lambda d: (d,)), "squeeze": st.tuples(small),
    "unsqueeze": st.tuples(small), "select": st.tuples(small, small), "narrow": st.tuples(small, small, st.integers(-1, 4)),
    "flatten": st.tuples(small, small), "view": st.lists(st.integers(-1, 6), max_size=4).map(lambda d: (d,)),
    "reshape": st.lists(st.integers(-1, 6), max_size=4).map(lambda d: (d,)), "expand": st.lists(st.integers(-1, 4), max_size=5).map(lambda d: (d,)),
    "movedim": st.tuples(small, small), "diagonal": st.tuples(small, small, small), "unfold": st.tuples(small, st.integers(0, 4), st.integers(0, 3)),
    "chunk": st.tuples(st.integers(0, 5), small), "split": st.tuples(st.integers(-1, 4), small), "unbind": st.tuples(small), "t": st.just(()),
    "swapaxes": st.tuples(small, small), "tensor_split": st.tuples(st.integers(0, 4), small), "unflatten": st.tuples(small, st.lists(st.integers(-1, 4), min_size=1, max_size=3)),
    "flip": st.lists(small, max_size=3).map(lambda d: (d,)), "roll": st.tuples(small, small), "repeat": st.lists(st.integers(0, 3), max_size=5).map(lambda d: (d,)),
    "tile": st.lists(st.integers(0, 3), max_size=4).map(lambda d: (d,)), "rot90": st.tuples(small), "tril": st.tuples(small), "triu": st.tuples(small),
    "broadcast_to": st.lists(st.integers(-1, 4), max_size=5).map(lambda d: (d,)), "hsplit": st.tuples(st.integers(0, 3)), "ravel": st.just(()),
}


@data_test(500)
def test_chains_of_views(data):
    a = data.draw(tensors())
    chain = data.draw(st.lists(st.sampled_from(sorted(VIEWS)), min_size=1, max_size=3))
    steps = [(name, data.draw(VIEWS[name])) for name in chain]
    if "roll" in chain and not (a.theirs.ndim and a.theirs.numel()):
        return  # PyTorch looks at the dims of roll by rules of its own there

    def call(torch, x):
        facts = []
        for name, arguments in steps:
            x = getattr(x, name)(*arguments)
            if isinstance(x, (tuple, list)):
                if not x:
                    break
                facts.append(len(x))
                x = x[len(x) // 2]
            facts.append((x.storage_offset(), x.is_contiguous()))
        return [x, *facts]
    same_outcome(call, a, strides=True)


@st.composite
def keys(draw, shape, dtypes=(torch.int64, torch.int64, torch.int32, torch.uint8, torch.float32)):
    """A key for x[key]: ints, slices, None, ..., bools, masks, tensors and lists of ints."""
    entries, dim = [], 0
    while dim < len(shape) and draw(st.integers(0, 5)) > 0:
        n = shape[dim]
        kind = draw(st.sampled_from("int int slice slice slice tensor list mask none ellipsis bool".split()))
        if kind == "int":
            entries.append(draw(st.integers(-n - 1, n)))
        elif kind == "slice":
            limits = st.one_of(st.none(), st.integers(-n - 2, n + 2))
            entries.append(slice(draw(limits), draw(limits), draw(st.sampled_from([None, None, 1, 2, 3, -1]))))
        elif kind in ("tensor", "list"):
            index = draw(st.lists(st.integers(-n, n - 1) if n and draw(st.integers(0, 9)) else st.integers(-n - 1, n), max_size=3))
            if kind == "list":
                entries.append(index)
            else:
                size = draw(st.sampled_from([(len(index),), (len(index), 1), (1, len(index))]))
                kind = draw(st.sampled_from(dtypes))
                entries.append(Pair(torch.tensor(index, dtype=torch.int64).reshape(size).to(kind)))
        elif kind == "mask":
            depth = draw(st.integers(1, min(2, len(shape) - dim)))
            entries.append(draw(tensors(shape[dim:dim + depth], "bool", layout=False)))
            dim += depth - 1
        elif kind == "none":
            entries.append(None)
            continue
        elif kind == "bool":
            entries.append(draw(st.booleans()))
            continue
        else:
            entries.append(Ellipsis)
            continue
        dim += 1
    return tuple(entries) if len(entries) != 1 or draw(st.booleans()) else entries[0]


@data_test(500)
def test_indexing(data):
    a = data.draw(tensors())
    key = data.draw(keys(tuple(a.theirs.shape)))
    same_outcome(lambda torch, x, k: x[k], a, key, strides=True)


@data_test(500)
def test_assignment(data):
    a = data.draw(tensors(filled, expand=False))  # PyTorch writes to elements that share memory, in no defined order; here it is an error
    key = data.draw(keys(tuple(a.theirs.shape), (torch.int64, torch.int32, torch.float32)))
    value = data.draw(st.one_of(scalars, tensors(st.lists(st.integers(0, 3), max_size=2), layout=False)))

    written, _ = attempt(lambda torch, x, k: x[k], "theirs", (a, key))
    if written is not None and not written.numel() and isinstance(value, Pair) and value.theirs.dtype != a.theirs.dtype:
        return  # PyTorch looks at dtypes only where there is something to write

    def call(torch, x, k, v):
        x[k] = v
        return x
    unchanged_by_errors(call, a, key, value)


@data_test(200)
def test_joins(data):
    shape = data.draw(shapes)
    count = data.draw(st.integers(0, 3))
    parts = []
    for _ in range(count):
        sizes = list(shape)
        if sizes and data.draw(st.integers(0, 2)) == 0:
            sizes[data.draw(st.integers(0, len(sizes) - 1))] = data.draw(st.integers(0, 3))
        parts.append(data.draw(tensors(tuple(sizes) if sizes != [0] else (1,))))  # PyTorch leaves [0] out, whatever the dim
    name = data.draw(st.sampled_from("cat stack hstack vstack dstack".split()))
    dim = data.draw(st.integers(-4, 3))
    same_outcome(lambda torch, p: getattr(torch, name)(p, *([dim] if name in ("cat", "stack") else [])), parts, strides=True)


@data_test(150)
def test_where_and_masks(data):
    one, two, three = data.draw(broadcastable(3))
    mask = data.draw(tensors(one, st.sampled_from(["bool", "bool", "bool", "uint8", "int64"])))
    a, b = data.draw(st.one_of(tensors(two), scalars)), data.draw(st.one_of(tensors(three), scalars))
    same_outcome(lambda torch, m, x, y: torch.where(m, x, y), mask, a, b)
    if isinstance(a, Pair):
        number = data.draw(scalars)
        same_outcome(lambda torch, m, x: x.masked_fill(m, number), mask, a, strides=True)
        same_outcome(lambda torch, m, x: torch.masked_select(x, m), mask, a)


@data_test(200)
def test_products_of_matrices(data):
    sizes = st.lists(st.integers(0, 3), max_size=4).map(tuple)
    first = data.draw(sizes)
    second = data.draw(sizes)
    if first and second and data.draw(st.integers(0, 3)):
        second = (*second[:-2], first[-1], *second[-1:]) if len(second) > 1 else (first[-1],)
    kind = data.draw(dtypes)
    a = data.draw(tensors(first, kind))
    b = data.draw(tensors(second, kind if data.draw(st.integers(0, 5)) else data.draw(dtypes)))
    if a.theirs.dtype != b.theirs.dtype and 0 in (*first, *second):
        return  # PyTorch looks at dtypes only where there is something to multiply
    names = "matmul matmul mm bmm mv dot outer" + " inner" * bool(first and second)
    name = data.draw(st.sampled_from(names.split()))
    same_outcome(lambda torch, x, y: getattr(torch, name)(x, y), a, b)


nested = st.recursive(st.one_of(scalars), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=8)


@data_test(200)
def test_tensors_from_data(data):
    value = data.draw(nested)
    dtype = data.draw(st.one_of(st.none(), dtypes.map(Dtype)))
    same_outcome(lambda torch, v, t: torch.tensor(v, dtype=t), value, dtype, strides=True)


@data_test(200)
def test_creation(data):
    number = st.one_of(st.integers(-4, 6), st.sampled_from([-1.5, 0.25, 2.5]))
    start, end, step = data.draw(number), data.draw(number), data.draw(number)
    whole = all(isinstance(n, int) for n in (start, end, step))  # a step of 0.25 in int32 is an error here, 0 in PyTorch
    dtype = data.draw(st.one_of(st.none(), dtypes.map(Dtype)))
    size = data.draw(shapes)
    call = data.draw(st.sampled_from([
        lambda torch, t: torch.arange(start, end, step, dtype=t if whole else None), lambda torch, t: torch.arange(end, dtype=t),
        lambda torch, t: torch.linspace(start, end, abs(int(step)), dtype=t if t is None or t.is_floating_point else None), lambda torch, t: torch.full(size, start, dtype=t),
        lambda torch, t: torch.zeros(size, dtype=t), lambda torch, t: torch.ones(*size, dtype=t),
        lambda torch, t: torch.eye(abs(int(start)), abs(int(end)), dtype=t), lambda torch, t: torch.zeros(size).new_full((2,), start, dtype=t),
        lambda torch, t: torch.logspace(start, end, 3, dtype=t if t is None or t.is_floating_point else None)]))
    same_outcome(call, dtype, strides=True)


@data_test(200)
def test_conversions(data):
    a, kind = data.draw(tensors()), Dtype(data.draw(dtypes))
    call = data.draw(st.sampled_from([
        lambda torch, x, t: x.to(t), lambda torch, x, t: torch.zeros_like(x, dtype=t), lambda torch, x, t: x.tolist(),
        lambda torch, x, t: torch.promote_types(x.dtype, t), lambda torch, x, t: torch.result_type(x, 1.5), lambda torch, x, t: x.item(),
        lambda torch, x, t: bool(x), lambda torch, x, t: int(x), lambda torch, x, t: len(x), lambda torch, x, t: list(x),
        lambda torch, x, t: torch.can_cast(x.dtype, t), lambda torch, x, t: float(x), lambda torch, x, t: repr(x)]))
    same_outcome(call, a, kind, strides=True)


# Differentiable expressions over leaves: each is a function of one or two tensors.
ONE = [lambda t, x: x.sin(), lambda t, x: x * x, lambda t, x: x.exp(), lambda t, x: x.sum(-1, keepdim=True) if x.ndim else x,
       lambda t, x: x.transpose(0, -1) if x.ndim else x, lambda t, x: t.softmax(x, -1) if x.ndim else x, lambda t, x: x.sigmoid(),
       lambda t, x: x[..., None], lambda t, x: x.flatten(), lambda t, x: x.cumsum(0) if x.ndim else x, lambda t, x: -x.tanh(),
       lambda t, x: x.expand(2, *x.shape), lambda t, x: t.nn.functional.gelu(x), lambda t, x: x.clamp(-1, 1), lambda t, x: x.abs(),
       lambda t, x: x[::2] if x.ndim else x, lambda t, x: x.mean(0) if x.ndim else x, lambda t, x: x.flip(0) if x.ndim else x]
TWO = [lambda t, x, y: x + y, lambda t, x, y: x * y, lambda t, x, y: x - y, lambda t, x, y: x / (y * y + 1), lambda t, x, y: t.maximum(x, y),
       lambda t, x, y: t.where(x > y, x, y), lambda t, x, y: x @ y, lambda t, x, y: t.hypot(x + 9, y), lambda t, x, y: t.cat([x, y])]


@data_test(300)
def test_gradients_of_expressions(data):
    first, second = data.draw(broadcastable())
    leaves = [data.draw(tensors(first, "float64", grad=True)), data.draw(tensors(second, "float64", grad=True))]
    plan = data.draw(st.lists(st.one_of(st.tuples(st.sampled_from(ONE), st.integers(0, 5)),
                                        st.tuples(st.sampled_from(TWO), st.integers(0, 5), st.integers(0, 5))), min_size=1, max_size=5))
    twice = data.draw(st.booleans())

    def call(torch, x, y):
        values = [x, y]
        for f, *which in plan:
            values.append(f(torch, *(values[i % len(values)] for i in which)))
        total = values[-1].sum() * values[-1].sum()
        found = torch.autograd.grad(total, (x, y), create_graph=twice, allow_unused=True)
        if twice:
            total = sum(g.square().sum() for g in found if g is not None)
            if total.requires_grad:
                found = [*found, *torch.autograd.grad(total, (x, y), allow_unused=True)]
        return list(found)
    # Numbers grow quickly in powers of powers; beyond this, rounding alone makes them differ.
    same_outcome(call, *leaves, tolerance=1e-7, undefined=lambda found: any(
        g is not None and not (g.isfinite().all() and g.abs().amax() < 1e6) for g in found if g is None or g.numel()))


@data_test(150)
def test_gradients_through_views_changed_in_place(data):
    a = data.draw(tensors(st.lists(st.integers(1, 3), min_size=1, max_size=3), "float64", layout=False, grad=True))
    key = data.draw(keys(tuple(a.theirs.shape)))
    change = data.draw(st.sampled_from([lambda v: v.mul_(2), lambda v: v.add_(1), lambda v: v.copy_(v.detach() * 3), lambda v: v.zero_(), lambda v: v.sin_()]))

    def call(torch, x, k):
        y = x * 1.5
        change(y[k])
        y[k] = y[k] * 2
        y.square().sum().backward()
        return x.grad
    same_outcome(call, a, key)
