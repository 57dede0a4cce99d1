"""Gradients from Python: backward, grad, modes, hooks, custom functions, checkpoints, the graph."""
import threading

import pytest

import pellucid as torch
from pellucid.autograd import Function, Variable, grad, gradcheck, gradgradcheck
from pellucid.utils.checkpoint import checkpoint


def test_the_small_graph_of_the_manual():
    x = torch.tensor(2.0, requires_grad=True)
    a = x ** 2
    b = torch.sin(a)
    y = torch.exp(b) * x
    y.backward()
    assert [f"{v.item():.4f}" for v in (a, b, y, x.grad)] == ["4.0000", "-0.7568", "0.9383", "-1.9842"]


def test_derivatives_of_any_order():
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    y, orders = x ** 3, []
    for _ in range(3):
        y, = grad(y, x, create_graph=True)
        orders.append(y.item())
    assert orders == [12, 12, 6]


def test_grad_accumulates_and_can_be_set():
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6] and x.grad is x.grad
    x.grad = None
    assert x.grad is None
    x.grad = torch.ones(2)
    with pytest.raises(RuntimeError):
        x.grad = torch.ones(3)
    with pytest.raises(TypeError):
        x.grad = 3


def test_modes_as_context_and_decorator():
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def quiet():
        return (x * 2).requires_grad

    @torch.no_grad
    def quiet_too():
        return (x * 2).requires_grad

    @torch.no_grad()
    def quiet_steps():
        yield (x * 2).requires_grad
    assert not quiet() and not quiet_too() and not next(quiet_steps()) and (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        assert not (x * 2).requires_grad


class Cube(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x ** 3 * factor

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 3 * x ** 2 * ctx.factor * g, None


def test_custom_functions_differentiate_twice():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    y = Cube.apply(x, 2.0)
    assert y.grad_fn.name() == "CubeBackward"
    assert gradcheck(lambda t: Cube.apply(t, 2.0), (x,)) and gradgradcheck(lambda t: Cube.apply(t, 2.0), (x,))


def test_an_error_in_a_custom_backward_arrives():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("from backward")
    with pytest.raises(KeyError, match="from backward"):
        Broken.apply(torch.ones(1, requires_grad=True)).backward()


def test_gradcheck_finds_a_wrong_gradient():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError):
        gradcheck(Wrong.apply, (x,))
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False)


def test_hooks():
    x = torch.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert seen == [[2, 2]] and x.grad.tolist() == [20, 20] and y.grad.tolist() == [1, 1]
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1
    done = []
    x.register_post_accumulate_grad_hook(lambda t: done.append(t is x))
    (x * 2).sum().backward()
    assert done == [True]


def test_the_graph_can_be_walked():
    x = torch.ones(2, requires_grad=True)
    y = (x * x).sum()
    mul = y.grad_fn.next_functions[0][0]
    assert y.grad_fn.name() == "SumBackward0" and mul.name() == "MulBackward0"
    leaf = mul.next_functions[0][0]
    assert leaf.name() == "AccumulateGrad" and leaf.variable is x
    assert mul._saved_self is x and x.is_leaf and not y.is_leaf and leaf == mul.next_functions[1][0]


def test_changed_saved_tensors_are_found():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="version|changed"):
        y.sum().backward()
    with pytest.raises(RuntimeError):
        x.add_(1)


def test_checkpoint_gives_the_same_gradients():
    x = torch.randn(4, requires_grad=True)
    f = lambda t: torch.nn.functional.dropout(t.sin() * t, 0.5)
    torch.manual_seed(3)
    f(x).sum().backward()
    expected, x.grad = x.grad, None
    torch.manual_seed(3)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    assert torch.equal(expected, x.grad)


def test_saved_tensors_hooks():
    x = torch.ones(2, requires_grad=True)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or len(packed) - 1, lambda i: packed[i] * 2):
        y = (x * x).sum()
    y.backward()
    assert packed and x.grad.tolist() == [4, 4]


def test_old_spellings():
    v = Variable(torch.ones(2), requires_grad=True)
    assert v.requires_grad and isinstance(v, Variable) and not v.data.requires_grad
    v.data.add_(1)
    assert v.tolist() == [2, 2]


def test_two_threads_run_ops():
    results = {}

    def work(i):
        x = torch.full((200, 200), float(i), requires_grad=True)
        (x @ x).sum().backward()
        results[i] = x.grad[0, 0].item()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {i: 400.0 * i for i in range(1, 5)}


def test_a_forked_child_works():
    import os
    torch.randn(300, 300) @ torch.randn(300, 300)
    pid = os.fork()
    if pid == 0:
        ok = torch.equal(torch.ones(300, 300) @ torch.ones(300, 300), torch.full((300, 300), 300.0))
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
