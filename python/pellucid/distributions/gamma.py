"""Distributions made from gamma variables: Gamma, Beta, Dirichlet, Chi2, Student's t, F."""
import math

import pellucid as torch

from .. import _C
from . import constraints
from .distribution import Distribution, broadcast_all


_standard_gamma, _sample_dirichlet = _C.functions["_standard_gamma"], _C.functions["_sample_dirichlet"]


class Gamma(Distribution):
    """The sum of `concentration` exponential variables of a rate."""
    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def variance(self):
        return self.concentration / self.rate ** 2

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    def rsample(self, sample_shape=torch.Size()):
        made = _standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        return made.clamp(min=torch.finfo(made.dtype).tiny)  # the quotient may underflow

    def log_prob(self, value):
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return torch.xlogy(a, rate) + torch.xlogy(a - 1, value) - rate * value - torch.lgamma(a)

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + torch.lgamma(a) + (1 - a) * torch.digamma(a)


class Chi2(Gamma):
    """The sum of df squares of normal variables."""
    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        self.df, = broadcast_all(df)
        super().__init__(0.5 * self.df, torch.full_like(self.df, 0.5), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return Chi2(self.df.expand(batch_shape))


class InverseGamma(Distribution):
    """1 / Gamma(concentration, rate)."""
    has_rsample = True
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    def rsample(self, sample_shape=torch.Size()):
        return Gamma(self.concentration, self.rate, validate_args=False).rsample(sample_shape).reciprocal()

    def log_prob(self, value):
        self._validate_sample(value)
        return Gamma(self.concentration, self.rate, validate_args=False).log_prob(value.reciprocal()) - 2 * value.log()

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + torch.lgamma(a) - (1 + a) * torch.digamma(a)


class Dirichlet(Distribution):
    """Shares that sum to 1."""
    has_rsample = True
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.simplex

    def __init__(self, concentration, validate_args=None):
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def rsample(self, sample_shape=torch.Size()):
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return torch.xlogy(a - 1, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)

    def entropy(self):
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (torch.lgamma(a).sum(-1) - torch.lgamma(total) - (k - total) * torch.digamma(total)
                - ((a - 1) * torch.digamma(a)).sum(-1))


class Beta(Distribution):
    """A share between 0 and 1."""
    has_rsample = True
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _dirichlet(self):
        return Dirichlet(torch.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total ** 2 * (total + 1))

    def rsample(self, sample_shape=torch.Size()):
        return self._dirichlet().rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._validate_sample(value)
        return self._dirichlet().log_prob(torch.stack([value, 1 - value], -1))

    def entropy(self):
        return self._dirichlet().entropy()


class StudentT(Distribution):
    """A normal variable over the root of a Chi2."""
    has_rsample = True
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self):
        finite = self.scale ** 2 * self.df / (self.df - 2)
        return torch.where(self.df > 2, finite, torch.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape=torch.Size()):
        z = Chi2(self.df, validate_args=False).rsample(sample_shape)
        normal = torch.randn(self._extended_shape(sample_shape), dtype=self.df.dtype)
        return self.loc + self.scale * normal * torch.rsqrt(z / self.df)

    def log_prob(self, value):
        self._validate_sample(value)
        y, df = (value - self.loc) / self.scale, self.df
        below = (self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * df)
                 - torch.lgamma(0.5 * (df + 1)))
        return -0.5 * (df + 1) * torch.log1p(y ** 2 / df) - below

    def entropy(self):
        half = 0.5 * (self.df + 1)
        beta = torch.lgamma(0.5 * self.df) + math.lgamma(0.5) - torch.lgamma(half)
        return self.scale.log() + half * (torch.digamma(half) - torch.digamma(0.5 * self.df)) + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two Chi2, each over its degrees of freedom."""
    has_rsample = True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self):
        return torch.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    def rsample(self, sample_shape=torch.Size()):
        one, two = (Gamma(df / 2, df / 2, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        return one / two

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        return (torch.lgamma(a + b) - torch.lgamma(a) - torch.lgamma(b) + a * ratio.log() + (a - 1) * value.log()
                - (a + b) * torch.log1p(ratio * value))
