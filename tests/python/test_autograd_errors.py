"""What Python functions may hand to the engine, inference mode, writes that overlap their source, threads in one graph."""
import threading

import pytest
import pellucid as torch
from pellucid.autograd import Function


def make_function(backward, forward=lambda ctx, x: x * 2):
    class Given(Function):
        @staticmethod
        def forward(ctx, x):
            return forward(ctx, x)

        @staticmethod
        def backward(ctx, grad):
            return backward(ctx, grad)
    return Given


def gradient(backward, forward=lambda ctx, x: x * 2):
    x = torch.ones(5, 5, requires_grad=True)
    make_function(backward, forward).apply(x).sum().backward()
    return x.grad


@pytest.mark.parametrize("wrong", [(10,), (5,), (), (1, 1)])
def test_a_function_returns_a_gradient_of_its_inputs_sizes(wrong):
    with pytest.raises(RuntimeError, match="GivenBackward.*5, 5"):
        gradient(lambda ctx, g: torch.ones(wrong))


def test_a_functions_gradient_is_reduced_and_converted():
    assert torch.equal(gradient(lambda ctx, g: torch.ones(3, 5, 5)), torch.full((5, 5), 3.0))
    for dtype in (torch.float64, torch.int64, torch.bool):
        made = gradient(lambda ctx, g: g.to(dtype))
        assert made.dtype == torch.float32 and torch.equal(made, torch.ones(5, 5))
    assert gradient(lambda ctx, g: None) is None


@pytest.mark.parametrize("returned", ["abc", 1.0, ("abc",), {"a": 1}, object()])
def test_what_is_no_tensor_is_named(returned):
    kind = type(returned[0] if isinstance(returned, tuple) else returned).__name__
    with pytest.raises(RuntimeError, match=f"GivenBackward.*{kind}"):
        gradient(lambda ctx, g: returned)


@pytest.mark.parametrize("count", [0, 2, 3])
def test_the_number_of_gradients(count):
    with pytest.raises(RuntimeError, match=f"GivenBackward.*incorrect number of gradients .expected 1, got {count}"):
        gradient(lambda ctx, g: (g,) * count)


def test_more_gradients_are_accepted_where_they_are_none():
    assert torch.equal(gradient(lambda ctx, g: (g, None)), torch.ones(5, 5))


@pytest.mark.parametrize("method", ["save_for_backward", "mark_dirty", "mark_non_differentiable"])
def test_a_context_takes_tensors(method):
    def forward(ctx, x):
        getattr(ctx, method)("abc")
        return x * 2
    with pytest.raises((TypeError, RuntimeError), match=f"{method}.*str"):
        gradient(lambda ctx, g: g, forward)


def hooked(register, hook):
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    register(x, y)(hook)
    y.sum().backward()
    return x.grad


LEAF, RESULT = (lambda x, y: x.register_hook), (lambda x, y: y.register_hook)
BEFORE, AFTER = (lambda x, y: y.grad_fn.register_prehook), (lambda x, y: y.grad_fn.register_hook)


@pytest.mark.parametrize("register", [LEAF, RESULT])
@pytest.mark.parametrize("returned", ["abc", 1.0, torch.ones(1), torch.ones(3, dtype=torch.float64)])
def test_a_tensors_hook_returns_a_gradient_like_the_given_one(register, returned):
    with pytest.raises(RuntimeError, match="hook"):
        hooked(register, lambda g: returned)


@pytest.mark.parametrize("returned", ["abc", ("abc",), (), (torch.ones(1),), (torch.ones(3, dtype=torch.float64),)])
def test_a_hook_before_a_node(returned):
    with pytest.raises(RuntimeError, match="hook"):
        hooked(BEFORE, lambda grads: returned)


@pytest.mark.parametrize("change", [lambda i: "abc", lambda i: (), lambda i: ("abc",) + i[1:], lambda i: (torch.ones(1),) + i[1:],
                                    lambda i: (i[0].double(),) + i[1:], lambda i: i + (i[0],)])
def test_a_hook_after_a_node(change):
    with pytest.raises(RuntimeError, match="hook"):
        hooked(AFTER, lambda inputs, outputs: change(inputs))


def test_a_hook_after_accumulation_returns_none():
    x = torch.ones(3, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda p: "abc")
    with pytest.raises(TypeError, match="str"):
        (x * 2).sum().backward()


@pytest.mark.parametrize("returned", ["abc", None, 3])
def test_unpacking_gives_a_tensor(returned):
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: returned):
        y = x * x
    with pytest.raises(TypeError, match=f"unpack_hook.*{type(returned).__name__}"):
        y.sum().backward()


def test_packing_does_not_change_its_argument():
    def pack(t):
        t.add_(1)
        return t
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="in place"):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            x * x


@pytest.mark.parametrize("returned", ["abc", (torch.ones(3),), (torch.ones(4, 1, 2),), (torch.ones(1, 2), torch.ones(1, 2)),
                                      (torch.ones(1, 2, dtype=torch.float64),)])
def test_a_modules_backward_hook(returned):
    layer = torch.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda module, inputs, outputs: returned)
    with pytest.raises((RuntimeError, TypeError), match="hook"):
        layer(torch.ones(1, 2, requires_grad=True)).sum().backward()


def test_gradients_that_are_given():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got str"):
        torch.autograd.grad(x * 2, x, "a")
    with pytest.raises(RuntimeError, match="str"):
        torch.autograd.grad((x * 2).sum(), "a")
    with pytest.raises(RuntimeError):
        torch.autograd.grad(x * 2, x, torch.ones(2))
    assert torch.autograd.grad(x * 2, x, torch.ones(3, dtype=torch.float64))[0].dtype == torch.float32
    for wrong in (torch.ones(2), torch.ones(3, dtype=torch.float64)):
        with pytest.raises(RuntimeError):
            x.grad = wrong
    assert x.grad is None


def test_a_function_that_changes_or_returns_its_input():
    def double(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    changed = make_function(lambda ctx, g: g * 3, double).apply(y)
    assert changed is y
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))
    with pytest.raises(RuntimeError, match="leaf"):
        make_function(lambda ctx, g: g, double).apply(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="dirty"):
        make_function(lambda ctx, g: g, lambda ctx, x: (ctx.mark_dirty(x), x * 2)[1]).apply(x * 1)
    same = make_function(lambda ctx, g: g * 3, lambda ctx, x: x).apply(y)
    assert same is not y and same.grad_fn is not y.grad_fn
    with pytest.raises(RuntimeError):
        same.mul_(2)


# Inference mode

def test_inference_mode_tensors_and_modules_may_require_gradients():
    with torch.inference_mode():
        assert torch.ones(2, requires_grad=True).requires_grad
        assert torch.tensor([1.0], requires_grad=True).is_inference()
        assert torch.ones(2).requires_grad_().requires_grad
        x = torch.ones(2)
        x.requires_grad = True
        assert x.requires_grad and x.is_leaf
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Linear(4, 4))
        assert all(p.requires_grad and p.is_inference() for p in model.parameters())
        model.load_state_dict(model.state_dict())
        assert not torch.nn.Linear(2, 2)(torch.ones(1, 2)).requires_grad
        assert torch.nn.Parameter(torch.ones(2)).requires_grad
        with torch.enable_grad():
            assert torch.is_grad_enabled() and not (x * 2).requires_grad
        with torch.inference_mode(False):
            assert torch.is_grad_enabled() and not torch.ones(2).is_inference()
        assert torch.is_inference_mode_enabled()
        with pytest.raises(RuntimeError, match="version counter"):
            x._version
    (x + 2).sum().backward()
    assert torch.equal(x.grad, torch.ones(2))


def test_inference_tensors_outside_of_the_mode():
    p = torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        made = torch.ones(3)
        view = made.view(3)
    changes = [lambda: made.requires_grad_(), lambda: made.add_(1), lambda: view.zero_(), lambda: made.__setitem__(0, 5.0),
               lambda: made.unsqueeze_(0), lambda: torch.add(p.detach(), 1, out=made), lambda: made * p,
               torch.no_grad()(lambda: made.add_(1))]
    for change in changes:
        with pytest.raises(RuntimeError):
            change()
    assert torch.equal(made, torch.ones(3)) and made.shape == (3,)
    assert not made.clone().is_inference() and made.detach().is_inference()
    assert (made + p).requires_grad


# Writes that overlap their source

ORDER = torch.tensor([3, 2, 1, 0])


@pytest.mark.parametrize("change, expected", [
    (lambda x: x.__setitem__(ORDER, x), [3, 2, 1, 0]),
    (lambda x: x.index_copy_(0, ORDER, x), [3, 2, 1, 0]),
    (lambda x: x.index_add_(0, ORDER, x), [3, 3, 3, 3]),
    (lambda x: x.scatter_(0, ORDER, x), [3, 2, 1, 0]),
    (lambda x: x.put_(ORDER, x), [3, 2, 1, 0]),
    (lambda x: x.__setitem__(slice(1, None), x[:-1]), [0, 0, 1, 2]),
    (lambda x: x[1:].add_(x[:-1]), [0, 1, 3, 5]),
    (lambda x: x.add_(x[1]), [1, 2, 3, 4]),
    (lambda x: torch.mul(x, x, out=x), [0, 1, 4, 9]),
    (lambda x: torch.cumsum(x, 0, out=x), [0, 1, 3, 6]),
])
def test_a_write_whose_source_overlaps_it(change, expected):
    x = torch.arange(4.0)
    change(x)
    assert x.tolist() == expected


def test_products_and_shifted_results_into_an_input():
    x = torch.arange(4.0).view(2, 2)
    torch.mm(x, x, out=x)
    assert x.tolist() == [[2, 3], [6, 11]]
    y = torch.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(y[1:], y[:-1], out=y[1:])
    assert y.tolist() == [0, 1, 2, 3]


def test_arrays_that_share_memory():
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(5, dtype=numpy.float32)
    torch.from_numpy(values[1:]).copy_(torch.from_numpy(values[:-1]))
    assert values.tolist() == [0, 0, 1, 2, 3]


# Threads

def test_threads_in_one_graph():
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    w = torch.ones(4, dtype=torch.float64, requires_grad=True)
    loss = make_function(backward, forward).apply(w * 2).exp().sum()
    node, problems, start = loss.grad_fn, [], threading.Barrier(3)

    def run(index):
        start.wait()
        for _ in range(50):
            try:
                if index == 0:
                    node.saved_tensors, w.grad, w.register_hook(lambda g: None).remove()
                else:
                    loss.backward(retain_graph=True)
            except Exception as e:
                problems.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
    once, = torch.autograd.grad(loss, w)
    assert torch.allclose(w.grad, once * 100)
