"""nn.utils.parametrize, parametrizations and prune."""
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.nn.utils import parametrizations, parametrize, prune


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Skew(nn.Module):
    def forward(self, x):
        return x.triu(1) - x.triu(1).mT

    def right_inverse(self, value):
        return value.triu(1)


def test_a_parametrized_weight():
    layer = nn.Linear(3, 3)
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.T) and layer.parametrizations.weight.original is before
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer(torch.ones(1, 3)).sum().backward()
    assert before.grad is not None and parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    with parametrize.cached():
        assert layer.weight is layer.weight
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and torch.equal(layer.weight, value) and isinstance(layer.weight, nn.Parameter)


def test_assignment_goes_through_the_inverse():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Skew())
    value = torch.randn(3, 3)
    layer.weight = value - value.T
    assert torch.allclose(layer.weight, value - value.T)
    other = nn.Linear(3, 3)
    parametrize.register_parametrization(other, "weight", Symmetric())
    with pytest.raises(RuntimeError, match="right_inverse"):
        other.weight = value


def test_what_cannot_be_parametrized():
    with pytest.raises(ValueError, match="'nothing'"):
        parametrize.register_parametrization(nn.Linear(2, 2), "nothing", Symmetric())

    class Larger(nn.Module):
        def forward(self, x):
            return torch.cat([x, x])
    with pytest.raises(ValueError, match=r"\[2, 2\].*\[4, 2\]"):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", Larger())


def test_norms_and_orthogonality():
    layer = nn.Linear(3, 2)
    expected, x = layer.weight.detach().clone(), torch.randn(4, 3)
    parametrizations.weight_norm(layer)
    assert torch.allclose(layer.weight, expected, atol=1e-6)
    assert layer.parametrizations.weight.original0.shape == (2, 1)
    spectral = parametrizations.spectral_norm(nn.Linear(3, 4))
    for _ in range(20):
        spectral(x)
    assert torch.linalg.matrix_norm(spectral.weight, 2).item() == pytest.approx(1, abs=1e-3)
    for sizes, chosen in (((3, 3), None), ((3, 3), "cayley"), ((2, 4), None), ((4, 2), None)):
        weight = parametrizations.orthogonal(nn.Linear(*sizes), orthogonal_map=chosen).weight
        small = weight.T @ weight if sizes[0] <= sizes[1] else weight @ weight.T
        assert torch.allclose(small, torch.eye(min(sizes)), atol=1e-5), (sizes, chosen)
    turned = parametrizations.orthogonal(nn.Linear(3, 3))
    torch.optim.SGD(turned.parameters(), lr=0.5).zero_grad()
    (turned(x) ** 3).sum().backward()
    torch.optim.SGD(turned.parameters(), lr=0.5).step()
    assert torch.allclose(turned.weight.T @ turned.weight, torch.eye(3), atol=1e-4)


def test_pruning_and_its_end():
    layer = nn.Linear(4, 4)
    weight = layer.weight.detach().clone()
    prune.l1_unstructured(layer, "weight", amount=0.5)
    zeros = layer.weight == 0
    assert zeros.sum() == 8 and weight[zeros].abs().max() <= weight[~zeros].abs().min()
    assert sorted(n for n, _ in layer.named_parameters()) == ["bias", "weight_orig"] and prune.is_pruned(layer)
    layer(torch.ones(1, 4)).sum().backward()
    assert (layer.weight_orig.grad[zeros] == 0).all()
    prune.random_unstructured(layer, "weight", amount=2)
    assert (layer.weight == 0).sum() == 10
    prune.remove(layer, "weight")
    assert (layer.weight == 0).sum() == 10 and isinstance(layer.weight, nn.Parameter) and not prune.is_pruned(layer)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer, "weight")


def test_pruning_of_rows_of_several_layers_and_of_ones_own():
    layer = nn.Linear(3, 4)
    layer.weight.data.copy_(torch.arange(1.0, 13.0).view(4, 3))
    prune.ln_structured(layer, "weight", amount=0.5, n=2, dim=0)
    assert (layer.weight == 0).all(1).tolist() == [True, True, False, False]
    a, b = nn.Linear(4, 4), nn.Linear(4, 2)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=0.5)
    assert (a.weight == 0).sum() + (b.weight == 0).sum() == 12

    class EverySecond(prune.BasePruningMethod):
        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask
    c = nn.Linear(2, 2)
    EverySecond.apply(c, "bias")
    assert c.bias_mask.tolist() == [0, 1]
    for amount, error in ((-1, ValueError), (1.5, ValueError), ("half", TypeError)):
        with pytest.raises(error):
            prune.l1_unstructured(nn.Linear(2, 2), "weight", amount=amount)
