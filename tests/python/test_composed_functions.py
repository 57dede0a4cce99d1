"""Functions that are others in a few lines: against NumPy or by hand, with the errors of bad arguments."""
import math

import numpy as np
import pytest

import pellucid as torch


def test_second_names():
    x = torch.tensor([0.5, -0.25])
    assert torch.equal(torch.arccos(x), torch.acos(x)) and torch.equal(x.arctan(), x.atan())
    assert x.clone().negative_().tolist() == [-0.5, 0.25] and torch.greater(x, 0).tolist() == [True, False]


@pytest.mark.parametrize("how", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(how):
    x = torch.randn(7, 5, dtype=torch.float64)
    q = [0.1, 0.5, 0.95]
    found = torch.quantile(x, torch.tensor(q, dtype=torch.float64), dim=1, interpolation=how)
    assert np.allclose(found.numpy(), np.quantile(x.numpy(), q, axis=1, method=how))
    assert torch.quantile(x, 0.5, dim=0, keepdim=True).shape == (1, 5)
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        torch.quantile(x, 2.0)


def test_quantiles_and_nan():
    x = torch.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 6.0]])
    assert math.isnan(x.quantile(0.5, dim=1)[0]) and x.nanquantile(0.5, dim=1).tolist() == [2, 5]
    assert x.nanmedian().item() == 4 and x.nanmedian(dim=1).values.tolist() == [1, 5]


def test_statistics():
    x = torch.randn(3, 20, dtype=torch.float64)
    assert np.allclose(torch.cov(x).numpy(), np.cov(x.numpy())) and np.allclose(torch.corrcoef(x).numpy(), np.corrcoef(x.numpy()))
    assert torch.mode(torch.tensor([[1, 2, 2, 1], [3, 3, 5, 3]])).values.tolist() == [1, 3]
    assert torch.mode(torch.tensor([1, 2, 2, 1])).indices.item() == 3
    y = x.flatten()
    assert torch.histc(y, 8, -2, 2).tolist() == np.histogram(y.numpy(), 8, (-2, 2))[0].tolist()
    counts, edges = torch.histogram(y, 5)
    assert counts.tolist() == np.histogram(y.numpy(), 5)[0].tolist() and edges.shape == (6,)


def test_differences_and_integrals():
    x = torch.tensor([1.0, 4.0, 9.0, 16.0])
    assert x.diff().tolist() == [3, 5, 7] and torch.diff(x, n=2).tolist() == [2, 2]
    assert np.allclose(torch.gradient(x)[0].numpy(), np.gradient(x.numpy()))
    assert np.allclose(torch.gradient(x, spacing=2.0, edge_order=2)[0].numpy(), np.gradient(x.numpy(), 2.0, edge_order=2))
    assert torch.trapezoid(x).item() == 21.5 and torch.cumulative_trapezoid(x).tolist() == [2.5, 9, 21.5]
    assert torch.trapezoid(x, torch.tensor([0.0, 2.0, 3.0, 5.0])).item() == pytest.approx(36.5)


def test_elements():
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert torch.heaviside(x, torch.tensor(0.5)).tolist() == [0, 0.5, 1]
    assert np.allclose(torch.sinc(x / 3).numpy(), np.sinc(x.numpy() / 3), atol=1e-6)
    assert torch.gcd(torch.tensor([12, 7, 0]), torch.tensor([18, 21, 5])).tolist() == [6, 7, 5]
    assert torch.lcm(torch.tensor([4, 0]), torch.tensor([6, 3])).tolist() == [12, 0]
    assert torch.isin(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 3])).tolist() == [[False, True], [True, False]]
    assert torch.combinations(torch.arange(3)).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert [t.item() for t in torch.unravel_index(torch.tensor(5), (2, 3))] == [1, 2]
    counts = torch.poisson(torch.full((4000,), 3.0))
    assert counts.mean().item() == pytest.approx(3, abs=0.15) and counts.var().item() == pytest.approx(3, abs=0.4)
    assert torch.hann_window(4).tolist() == pytest.approx([0, 0.5, 1, 0.5])


def test_gamma_functions():
    x = torch.tensor([0.5, 3.0, 10.0], dtype=torch.float64, requires_grad=True)
    assert torch.lgamma(x).tolist() == pytest.approx([math.lgamma(v) for v in x.tolist()], rel=1e-13)
    assert torch.autograd.gradcheck(torch.lgamma, (x,)) and torch.autograd.gradgradcheck(torch.lgamma, (x,))
    assert torch.polygamma(1, torch.tensor(1.0)).item() == pytest.approx(math.pi ** 2 / 6)
    assert torch.tensor(1.0).polygamma(2).item() == pytest.approx(-2.404114, rel=1e-5)
    assert torch.special.gammaln(torch.tensor(5.0)).item() == pytest.approx(math.log(24), rel=1e-6)


@pytest.mark.parametrize("how, expected", [("sum", [5, 4, 5]), ("mean", [5 / 3, 2, 2.5]), ("prod", [3, 6, 4]), ("amax", [3, 3, 4]),
                                           ("amin", [1, 1, 1])])
def test_scatter_reduce(how, expected):
    index, source = torch.tensor([0, 1, 0, 2]), torch.tensor([1.0, 3.0, 3.0, 4.0])
    start = torch.tensor([1.0, 2.0, 1.0]) if how == "prod" else torch.ones(3)
    found = start.scatter_reduce(0, index, source, how)
    assert found.tolist() == pytest.approx(expected)
    alone = torch.full((3,), 100.0).scatter_reduce(0, index, source, "amax", include_self=False)
    assert alone.tolist() == [3, 3, 4]
    with pytest.raises(RuntimeError, match="reduce argument"):
        start.scatter_reduce(0, index, source, "median")


def test_places():
    x = torch.zeros(2, 3)
    assert x.select_scatter(torch.ones(3), 0, 1).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert x.slice_scatter(torch.ones(2, 2), 1, 1).tolist() == [[0, 1, 1]] * 2 and x.sum() == 0
    assert torch.zeros(3, 3).fill_diagonal_(2.0).trace().item() == 6
    assert torch.arange(4.0).put_(torch.tensor([0, 3]), torch.tensor([9.0, 8.0])).tolist() == [9, 1, 2, 8]
    y = torch.arange(6.0).view(2, 3)
    assert y.resize_(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]] and y.resize_(2).tolist() == [0, 1]


def test_matrices():
    a = torch.randn(4, 4, dtype=torch.float64) + 3 * torch.eye(4, dtype=torch.float64)
    sign, size = torch.linalg.slogdet(a)
    assert (sign * size.exp()).item() == pytest.approx(torch.linalg.det(a).item())
    assert torch.allclose(torch.linalg.matrix_exp(torch.zeros(3, 3)), torch.eye(3))
    rotation = torch.linalg.matrix_exp(torch.tensor([[0.0, -20.0], [20.0, 0.0]], dtype=torch.float64))
    assert rotation[0, 0].item() == pytest.approx(math.cos(20.0), abs=1e-12)
    tall = torch.randn(6, 3, dtype=torch.float64)
    assert torch.allclose(torch.linalg.pinv(tall) @ tall, torch.eye(3, dtype=torch.float64))
    solved = torch.linalg.lstsq(tall, tall @ torch.ones(3, 1, dtype=torch.float64))
    assert torch.allclose(solved.solution, torch.ones(3, 1, dtype=torch.float64)) and torch.linalg.matrix_rank(tall) == 3
    assert torch.linalg.matrix_rank(torch.ones(3, 3)) == 1 and torch.linalg.cond(torch.diag(torch.tensor([4.0, 2.0]))) == 2
    upper = a.triu()
    assert torch.allclose(torch.linalg.solve_triangular(a, upper @ a, upper=True), a)
    assert torch.autograd.gradcheck(lambda m: torch.linalg.slogdet(m)[1], (a.clone().requires_grad_(),))
    assert torch.autograd.gradcheck(torch.linalg.matrix_exp, ((a / 4).requires_grad_(),))
    with pytest.raises(NotImplementedError, match="eigh"):
        torch.linalg.eig(a)


def test_out():
    out = torch.empty(2)
    same = torch.add(torch.ones(2), 1, out=out)
    assert same is out and out.tolist() == [2, 2]
    assert torch.mul(torch.ones(2, 2), 3, out=out).shape == (2, 2) and out.shape == (2, 2)
    values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(torch.tensor([[1.0, 5.0]]), 1, out=(values, places))
    assert values.tolist() == [5] and places.tolist() == [1]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.add(torch.ones(2, requires_grad=True), 1, out=out)
    with pytest.raises(TypeError, match="can't be cast"):
        torch.add(torch.ones(2), 1, out=torch.empty(2, dtype=torch.int64))
    with pytest.raises(TypeError):
        torch.add(torch.ones(2), "x", out=out)


def test_out_that_shares_memory():
    x = torch.arange(6.0)
    torch.add(x, 1, out=x)  # over exactly what was read
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    one = torch.tensor([1.0])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.mul(x[:3], 2, out=one.expand(3))
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.mul(x[:3], 2, out=x[1:4])
    with pytest.raises(RuntimeError, match="some elements of the input"):
        torch.cat([x[:2], x[2:4]], out=x)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        torch.gather(x, 0, torch.tensor([0]), out=torch.empty(1, dtype=torch.float64))
    assert x.tolist() == [1, 2, 3, 4, 5, 6] and one.tolist() == [1]
    torch.mul(x[:3], 2, out=x[3:])  # beside what was read
    assert x.tolist() == [1, 2, 3, 2, 4, 6]



def test_named_results_print_below_one_another():
    assert repr(torch.max(torch.tensor([[1, 3]]), 1)) == "torch.return_types.max(\nvalues=tensor([3]),\nindices=tensor([1]))"
