"""torch.func: derivatives as functions, vmap, modules with other parameters; nested data."""
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from pellucid.utils._pytree import tree_flatten, tree_map, tree_unflatten

X = torch.tensor([0.5, -1.0, 2.0])


def test_derivatives_nest():
    assert torch.allclose(grad(lambda x: (x ** 3).sum())(X), 3 * X ** 2)
    third = grad(grad(grad(lambda x: x ** 3)))
    assert third(torch.tensor(2.0)).item() == pytest.approx(6)
    assert torch.allclose(hessian(lambda x: (x ** 3).sum())(X), torch.diag(6 * X))
    assert torch.allclose(jacrev(torch.sin)(X), torch.diag(X.cos())) and torch.allclose(jacfwd(torch.sin)(X), torch.diag(X.cos()))


def test_results_have_no_history_of_their_own():
    assert not grad(lambda x: (x ** 2).sum())(X).requires_grad
    weight = torch.tensor(2.0, requires_grad=True)
    found = grad(lambda x: (weight * x ** 2).sum())(X)
    found.sum().backward()  # what the function closes over is still reached
    assert weight.grad.item() == pytest.approx(2 * X.sum().item())


def test_arguments_and_aux():
    (a, b), aux = grad(lambda x, y: ((x * y).sum(), x + y), argnums=(0, 1), has_aux=True)(X, 2 * X)
    assert torch.equal(a, 2 * X) and torch.equal(b, X) and torch.equal(aux, 3 * X)
    gradient, value = grad_and_value(lambda x: x.sum())(X)
    assert value.item() == pytest.approx(1.5) and gradient.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="without dims"):
        grad(torch.sin)(X)
    with pytest.raises(RuntimeError, match="out of bounds"):
        grad(lambda x: x.sum(), argnums=1)(X)


def test_products():
    out, pull = vjp(torch.sin, X)
    assert torch.allclose(pull(torch.ones(3))[0], X.cos()) and torch.allclose(out, X.sin())
    out, push = jvp(lambda x, y: x * y, (X, X), (torch.ones(3), torch.zeros(3)))
    assert torch.allclose(push, X) and not push.requires_grad


def test_vmap():
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    assert torch.allclose(vmap(torch.dot)(a, b), (a * b).sum(1))
    assert torch.allclose(vmap(lambda m, v: m @ v, in_dims=(None, 0))(torch.eye(3), a), a)
    assert vmap(lambda t: {"twice": t * 2}, in_dims=1)(a)["twice"].shape == (3, 4)
    assert vmap(lambda t: t * 2, out_dims=1)(a).shape == (3, 4)
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        vmap(torch.add)(a, torch.ones(5))
    with pytest.raises(ValueError, match="at least one input"):
        vmap(lambda x: x)(3)


def test_per_example_gradients():
    model = nn.Linear(3, 2)
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    x, y = torch.randn(5, 3), torch.randint(0, 2, (5,))

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(functional_call(model, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    nn.functional.cross_entropy(model(x), y).backward()
    assert each["weight"].shape == (5, 2, 3) and torch.allclose(each["weight"].mean(0), model.weight.grad, atol=1e-6)


def test_functional_call_leaves_the_module_as_it_was():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = model[0].weight
    out = functional_call(model, {"0.weight": torch.zeros(2, 2), "0.bias": torch.zeros(2)}, torch.ones(3, 2))
    assert model[0].weight is before and torch.allclose(out, torch.zeros(3, 2), atol=1e-5)
    with pytest.raises(RuntimeError, match="unexpected keys"):
        functional_call(model, {"nothing": torch.ones(1)}, torch.ones(3, 2), strict=True)


def test_ensembles():
    models = [nn.Linear(3, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, torch.ones(4, 3))
    assert torch.allclose(out, torch.stack([m(torch.ones(4, 3)) for m in models]))


def test_nested_data():
    data = {"a": [1, (2, 3)], "b": 4}
    leaves, spec = tree_flatten(data)
    assert leaves == [1, 2, 3, 4] and tree_unflatten(leaves, spec) == data
    assert tree_map(lambda v: v + 1, data) == {"a": [2, (3, 4)], "b": 5}
    with pytest.raises(ValueError, match="4 leaves but 1"):
        tree_unflatten([1], spec)
