"""Random numbers of Poisson, binomial, gamma and geometric distributions: frequencies against exact probabilities, moments from
small to huge parameters, one stream of numbers whatever the threads; parameters outside their domain are refused and never loop."""
import math

import pytest

import pellucid as torch
from pellucid import distributions

standard_gamma = torch._C.functions["_standard_gamma"]
MANY, NAN, INF = 20000, float("nan"), float("inf")


def chi_square_excess(values, log_probability):
    """The chi-square statistic over its degrees of freedom in standard deviations; cells that expect less than 10 are joined."""
    counts = {}
    for v in values.tolist():
        counts[v] = counts.get(v, 0) + 1
    statistic, cells, seen_left, expected_left = 0.0, 0, len(values), float(len(values))
    for k, seen in counts.items():
        expected = len(values) * math.exp(log_probability(k))
        if expected >= 10:
            statistic += (seen - expected) ** 2 / expected
            seen_left, expected_left, cells = seen_left - seen, expected_left - expected, cells + 1
    if expected_left > 1:
        statistic, cells = statistic + (seen_left - expected_left) ** 2 / expected_left, cells + 1
    freedom = max(cells - 1, 1)
    return (statistic - freedom) / math.sqrt(2 * freedom)


def check_moments(x, mean, variance):
    deviation = math.sqrt(variance)
    z = (x.double() - mean) / deviation
    assert abs(z.mean().item()) < 5 / math.sqrt(z.numel()) + 1e-9 * mean / deviation
    assert abs(z.square().mean().item() - 1) < 0.08


@pytest.mark.parametrize("rate", [0.1, 5.0, 9.99, 10.0, 300.0])
def test_poisson_frequencies(rate):
    values = torch.poisson(torch.full((MANY,), rate, dtype=torch.float64))
    assert chi_square_excess(values, lambda k: k * math.log(rate) - rate - math.lgamma(k + 1)) < 5


@pytest.mark.parametrize("rate", [0.5, 20.0, 1e6, 1e9, 1e15])
def test_poisson_moments(rate):
    check_moments(torch.poisson(torch.full((MANY,), rate, dtype=torch.float64)), rate, rate)


@pytest.mark.parametrize("n", [1, 7, 40, 1000])
@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.999])
def test_binomial_frequencies(n, p):
    values = torch.binomial(torch.full((MANY,), float(n), dtype=torch.float64), torch.full((MANY,), p, dtype=torch.float64))
    ways = lambda k: math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    assert chi_square_excess(values, lambda k: ways(k) + k * math.log(p) + (n - k) * math.log1p(-p)) < 5


@pytest.mark.parametrize("n", [100, 10**6, 10**9, 10**15])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
def test_binomial_moments(n, p):
    x = distributions.Binomial(n, torch.tensor(p, dtype=torch.float64)).sample((MANY,))
    check_moments(x, n * p, n * p * (1 - p))


@pytest.mark.parametrize("concentration", [0.05, 0.5, 2.5, 1e6, 1e12])
def test_gamma_moments(concentration):
    x = distributions.Gamma(torch.tensor(concentration, dtype=torch.float64), 1.0).sample((4 * MANY,))
    check_moments(x, concentration, concentration)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
def test_geometric_frequencies(p):
    values = torch.empty(MANY, dtype=torch.int64).geometric_(p)
    assert chi_square_excess(values, lambda k: math.log(p) + (k - 1) * math.log1p(-p)) < 5


def test_dirichlet_and_cauchy():
    shares = distributions.Dirichlet(torch.tensor([1.0, 2.0, 5.0])).sample((MANY,))
    assert torch.allclose(shares.sum(-1), torch.ones(MANY))
    assert torch.allclose(shares.mean(0), torch.tensor([0.125, 0.25, 0.625]), atol=0.01)
    x = torch.empty(MANY).cauchy_(3, 2)
    assert abs((x < 1).double().mean().item() - 0.25) < 0.02 and abs((x < 5).double().mean().item() - 0.75) < 0.02


def test_the_threads_change_no_bit():
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            rates = torch.rand(20000) * 100
            found.append([torch.poisson(rates), torch.binomial(rates.floor(), torch.rand(20000)), standard_gamma(rates),
                          torch.poisson(rates.view(100, 200).t()), torch.rand(3)])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


def test_gamma_samples_move_with_their_concentration():
    a = torch.full((MANY,), 3.0, dtype=torch.float64, requires_grad=True)
    distributions.Gamma(a, 1.0).rsample().mean().backward()
    assert abs(a.grad.sum().item() - 1) < 0.05


def test_a_generator_of_ones_own():
    draw = lambda: torch.poisson(torch.full((9,), 30.0), generator=torch.Generator().manual_seed(3))
    assert torch.equal(draw(), draw())


@pytest.mark.parametrize("call", [
    lambda: torch.poisson(torch.tensor([-1.0])), lambda: torch.poisson(torch.tensor([NAN])), lambda: torch.poisson(torch.tensor([INF])),
    lambda: torch.empty(3).geometric_(0.0), lambda: torch.empty(3).geometric_(NAN), lambda: torch.empty(3).cauchy_(0, 0),
    lambda: distributions.Gamma(NAN, 1.0), lambda: distributions.Binomial(5, torch.tensor(1.5)),
    lambda: torch.gcd(torch.tensor(NAN), torch.tensor(2.0)), lambda: torch.lcm(torch.tensor(1.0), torch.tensor(2.0)),
    lambda: torch.gcd(torch.tensor(True), torch.tensor(True)), lambda: list(torch.utils.data.RandomSampler([], num_samples=5)),
])
def test_what_has_no_distribution_is_refused(call):
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        call()


def test_what_is_not_refused_ends():
    counts, shares = torch.tensor([5.0, -5.0, 5.0, 5.0, NAN, 0.0]), torch.tensor([2.0, 0.5, -1.0, NAN, 0.5, 0.5])
    assert torch.binomial(counts, shares).nan_to_num(-1).tolist() == [5, 0, 0, -1, -1, 0]
    made = standard_gamma(torch.tensor([NAN, -1.0, INF, 1e-30])).tolist()
    assert math.isnan(made[0]) and math.isnan(made[1]) and made[2] == INF and made[3] > 0
    assert distributions.Gamma(NAN, 1.0, validate_args=False).sample().isnan()
    far = torch.polygamma(2, torch.tensor([-1e10 + 0.5, NAN], dtype=torch.float64))  # the terms of its sum are not counted one by one
    assert abs(far[0].item()) < 1e-6 and far[1].isnan()
    assert torch.gcd(torch.tensor([12, -18, 0]), torch.tensor([18, 0, 0])).tolist() == [6, 18, 0]
    assert torch.lcm(torch.tensor([-4, 0]), torch.tensor([6, 5])).tolist() == [12, 0]
