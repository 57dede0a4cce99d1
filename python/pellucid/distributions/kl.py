"""Kullback-Leibler divergences of pairs of distributions."""
import math

import pellucid as torch

from .continuous import Exponential, Laplace, Normal, Uniform
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import sum_rightmost
from .gamma import Beta, Dirichlet, Gamma
from .compound import Independent, MultivariateNormal

_PAIRS: dict = {}


def register_kl(type_p, type_q):
    """A decorator: the function computes the divergence of these types and their subclasses."""
    def register(function):
        _PAIRS[type_p, type_q] = function
        return function
    return register


def kl_divergence(p, q):
    """The expectation under p of log p - log q."""
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            if (kind_p, kind_q) in _PAIRS:
                return _PAIRS[kind_p, kind_q](p, q)
    raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * torch.exp(-apart / p.scale) - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    value = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), math.inf, value)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    return (b * (p.rate / q.rate).log() + torch.lgamma(b) - torch.lgamma(a) + (a - b) * torch.digamma(a)
            + (q.rate - p.rate) * (a / p.rate))


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    return (torch.lgamma(total) - torch.lgamma(b.sum(-1)) - (torch.lgamma(a) - torch.lgamma(b)).sum(-1)
            + ((a - b) * (torch.digamma(a) - torch.digamma(total).unsqueeze(-1))).sum(-1))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    softplus = torch.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    return one + (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    terms = torch.where((q.probs == 0).expand(terms.shape), math.inf, terms)
    return torch.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    half = q._log_root() - p._log_root()
    batch = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    n = p.event_shape[0]
    root_q, root_p = q._root.expand((*batch, n, n)), p._root.expand((*batch, n, n))
    trace = (torch.linalg.solve(root_q, root_p) ** 2).sum((-2, -1))
    apart = torch.linalg.solve(root_q, (q.loc - p.loc).expand((*batch, n)).unsqueeze(-1)).squeeze(-1)
    return half + 0.5 * (trace + (apart ** 2).sum(-1) - n)
