"""torch.distributions: densities against their formulas or PyTorch 2.13's numbers, moments against samples, divergences, checks."""
import math

import pytest

import pellucid as torch
from pellucid import distributions as D

V = torch.tensor([0.2, 0.7])


@pytest.mark.parametrize("made, log_prob, entropy", [
    (lambda: D.Normal(0.0, 2.0), [-1.6171, -1.6733], 2.1121),
    (lambda: D.Laplace(1.0, 2.0), [-1.7863, -1.5363], 2.3863),
    (lambda: D.Beta(2.0, 3.0), [0.4292, -0.2797], -0.2349),
    (lambda: D.Gamma(2.0, 3.0), [-0.0122, -0.2595], 0.4786),
    (lambda: D.Exponential(2.0), [math.log(2) - 0.4, math.log(2) - 1.4], 1 - math.log(2)),
    (lambda: D.Uniform(0.0, 2.0), [-math.log(2)] * 2, math.log(2)),
    (lambda: D.LogNormal(0.0, 1.0), [-0.6046, -0.6259], 1.4189),
    (lambda: D.StudentT(3.0), [-1.0274, -1.3035], 1.7735),
])
def test_densities(made, log_prob, entropy):
    d = made()
    assert d.log_prob(V).tolist() == pytest.approx(log_prob, abs=2e-4)
    assert d.entropy().item() == pytest.approx(entropy, abs=2e-4)


@pytest.mark.parametrize("d", [D.Normal(1.0, 2.0), D.Laplace(1.0, 0.5), D.Gumbel(0.0, 1.0), D.Exponential(2.0), D.Beta(2.0, 3.0),
                               D.Gamma(0.5, 2.0), D.Gamma(4.0, 1.0), D.HalfNormal(1.0), D.Uniform(-1.0, 2.0), D.Bernoulli(0.3),
                               D.Geometric(0.4), D.Poisson(3.0), D.Binomial(5, 0.3), D.NegativeBinomial(3.0, 0.4),
                               D.Chi2(3.0), D.LogNormal(0.0, 0.5)], ids=lambda d: type(d).__name__)
def test_samples_have_the_moments(d):
    x = d.sample((20000,))
    spread = d.variance.item() ** 0.5
    assert x.mean().item() == pytest.approx(d.mean.item(), abs=0.06 * spread)
    assert x.var().item() == pytest.approx(d.variance.item(), rel=0.2)
    assert math.isfinite(d.log_prob(x).mean().item())


def test_probabilities_sum_to_one():
    numbers = torch.arange(60.0)
    for d in (D.Poisson(4.0), D.Geometric(0.3), D.NegativeBinomial(3.0, 0.4)):
        assert d.log_prob(numbers).exp().sum().item() == pytest.approx(1, abs=1e-4)
    assert D.Binomial(7, 0.2).log_prob(torch.arange(8.0)).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_cdf_and_its_inverse():
    q = torch.tensor([0.1, 0.5, 0.9])
    for d in (D.Normal(1.0, 2.0), D.Laplace(0.0, 2.0), D.Cauchy(0.0, 1.0), D.Exponential(3.0), D.Uniform(1.0, 4.0),
              D.LogNormal(0.0, 1.0), D.HalfNormal(2.0)):
        assert torch.allclose(d.cdf(d.icdf(q)), q, atol=1e-5), d


def test_categorical():
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], requires_grad=True)
    d = D.Categorical(logits=logits)
    d.log_prob(torch.tensor([2, 0])).sum().backward()
    assert torch.allclose(logits.grad[0], torch.tensor([0.0, 0.0, 1.0]) - torch.softmax(logits[0], 0).detach())
    assert d.entropy()[1].item() == pytest.approx(math.log(3), abs=1e-6)
    assert d.sample((4,)).shape == (4, 2) and d.mode[0].item() == 2
    assert D.Categorical(torch.tensor([0.0, 1.0])).sample((50,)).sum() == 50
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(torch.tensor([3, 0]))
    one = D.OneHotCategorical(probs=torch.tensor([0.2, 0.8]))
    assert one.log_prob(torch.tensor([0.0, 1.0])).item() == pytest.approx(math.log(0.8), abs=1e-6)
    assert one.sample((3,)).sum(-1).tolist() == [1, 1, 1]


def test_parameters_are_checked():
    with pytest.raises(ValueError, match=r"parameter scale .* Normal\(loc: 0.0, scale: -1.0\).*GreaterThan"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Bernoulli()
    D.Normal(0.0, -1.0, validate_args=False)
    with pytest.raises(NotImplementedError, match="no gradient here"):
        D.Poisson(1.0).rsample()


def test_gradients_reach_the_parameters():
    mean, scale = torch.zeros(3, requires_grad=True), torch.ones(3, requires_grad=True)
    d = D.Normal(mean, scale)
    d.rsample().sum().backward()
    assert mean.grad.tolist() == [1, 1, 1] and d.sample().requires_grad is False
    a = torch.tensor(2.5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: D.Gamma(a, 2.0).log_prob(torch.tensor(0.7, dtype=torch.float64)), (a,))


def test_gradients_of_gamma_samples_are_those_of_their_means():
    torch.manual_seed(1)
    for concentration in (0.3, 2.5, 40.0):
        a, rate = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (concentration, 2.0))
        D.Gamma(a, rate).rsample((40000,)).mean().backward()  # the mean is a / rate
        assert a.grad.item() == pytest.approx(0.5, rel=0.05) and rate.grad.item() == pytest.approx(-concentration / 4, rel=0.05)
    a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (2.0, 3.0))
    D.Beta(a, b).rsample((40000,)).mean().backward()  # a / (a + b)
    assert a.grad.item() == pytest.approx(3 / 25, rel=0.05) and b.grad.item() == pytest.approx(-2 / 25, rel=0.05)
    shares = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    D.Dirichlet(shares).rsample((40000,))[:, 0].mean().backward()
    assert shares.grad.tolist() == pytest.approx([5 / 36, -1 / 36, -1 / 36], rel=0.08)
    df = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)
    D.StudentT(df).rsample((200000,)).square().mean().backward()  # df / (df - 2)
    assert df.grad.item() == pytest.approx(-2 / 9, rel=0.4)
    assert not D.Gamma(a, b).sample().requires_grad and D.Gamma(a, b).has_rsample


@pytest.mark.parametrize("p, q, expected", [
    (D.Normal(0.0, 1.0), D.Normal(1.0, 2.0), 0.4431),
    (D.Bernoulli(0.3), D.Bernoulli(0.6), 0.1837),
    (D.Gamma(2.0, 1.0), D.Gamma(3.0, 2.0), 0.1910),
    (D.Exponential(1.0), D.Exponential(2.0), 0.3069),
    (D.Laplace(0.0, 1.0), D.Laplace(1.0, 2.0), 0.3771),
])
def test_divergences(p, q, expected):
    assert D.kl_divergence(p, q).item() == pytest.approx(expected, abs=2e-4)
    x = p.sample((40000,))
    assert (p.log_prob(x) - q.log_prob(x)).mean().item() == pytest.approx(expected, abs=0.03)


def test_divergence_of_an_unknown_pair():
    with pytest.raises(NotImplementedError, match="Normal and q type Poisson"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))


def test_several_numbers():
    root = torch.tensor([[1.0, 0.0], [0.5, 2.0]])
    d = D.MultivariateNormal(torch.zeros(2), scale_tril=root)
    same = D.MultivariateNormal(torch.zeros(2), covariance_matrix=root @ root.T)
    x = torch.tensor([[1.0, 1.0], [0.0, -2.0]])
    z = torch.linalg.solve(root, x.T)
    expected = -math.log(2 * math.pi) - (z * z).sum(0) / 2 - math.log(2)
    assert torch.allclose(d.log_prob(x), expected, atol=1e-5) and torch.allclose(same.log_prob(x), expected, atol=1e-5)
    assert D.kl_divergence(d, same).item() == pytest.approx(0, abs=1e-5)
    rows = D.Independent(D.Normal(torch.zeros(3, 2), 1.0), 1)
    assert rows.log_prob(torch.zeros(3, 2)).tolist() == pytest.approx([-math.log(2 * math.pi)] * 3, abs=1e-6)
    mixed = D.MixtureSameFamily(D.Categorical(torch.tensor([0.3, 0.7])), D.Normal(torch.tensor([0.0, 1.0]), torch.ones(2)))
    assert mixed.mean.item() == pytest.approx(0.7) and mixed.sample((5,)).shape == (5,)


def test_transformed():
    squashed = D.TransformedDistribution(D.Normal(torch.zeros(2), torch.ones(2)),
                                         [D.TanhTransform(), D.AffineTransform(0.0, 2.0)])
    y = torch.tensor([0.5, -0.3])
    x = torch.atanh(y / 2)
    expected = D.Normal(0.0, 1.0).log_prob(x) - torch.log(2 * (1 - torch.tanh(x) ** 2))
    assert torch.allclose(squashed.log_prob(y), expected, atol=1e-5)
    assert squashed.rsample((7,)).abs().max() <= 2
