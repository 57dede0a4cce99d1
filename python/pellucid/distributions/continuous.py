"""Continuous distributions of one number: normal, uniform, exponential and those that transform them."""
import math

import pellucid as torch

from . import constraints, transforms
from .distribution import Distribution, broadcast_all, sum_rightmost

_LOG_2PI = math.log(2 * math.pi)


class _LocScale(Distribution):
    """A place and a width; a subclass gives _noise(shape) and the rest."""
    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def rsample(self, sample_shape=torch.Size()):
        return self.loc + self.scale * self._noise(self._extended_shape(sample_shape))

    def _standard(self, value):
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc


class Normal(_LocScale):
    """The bell curve of a mean and a standard deviation."""

    def _noise(self, shape):
        return torch.randn(shape, dtype=self.loc.dtype)

    @property
    def variance(self):
        return self.scale ** 2

    @property
    def stddev(self):
        return self.scale

    def log_prob(self, value):
        z = self._standard(value)
        return -z * z / 2 - self.scale.log() - _LOG_2PI / 2

    def cdf(self, value):
        return (1 + torch.erf(self._standard(value) / math.sqrt(2))) / 2

    def icdf(self, value):
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * _LOG_2PI + self.scale.log()


class Laplace(_LocScale):
    """Two exponentials back to back."""

    def _noise(self, shape):
        u = torch.rand(shape, dtype=self.loc.dtype) - 0.5
        return -u.sign() * torch.log1p(-2 * u.abs().clamp(max=0.5 - torch.finfo(u.dtype).eps / 4))

    @property
    def variance(self):
        return 2 * self.scale ** 2

    def log_prob(self, value):
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value):
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * torch.expm1(-z.abs())

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """The ratio of two normals: no mean, no variance."""

    def _noise(self, shape):
        return torch.tan(math.pi * (torch.rand(shape, dtype=self.loc.dtype) - 0.5))

    @property
    def mean(self):
        return torch.full_like(self.loc, math.nan)

    @property
    def variance(self):
        return torch.full_like(self.loc, math.inf)

    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - torch.log1p(self._standard(value) ** 2)

    def cdf(self, value):
        return torch.atan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value):
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    """The greatest of many."""

    def _noise(self, shape):
        tiny = torch.finfo(self.loc.dtype).tiny
        u = torch.rand(shape, dtype=self.loc.dtype).clamp(tiny, 1 - torch.finfo(self.loc.dtype).eps)
        return -(-u.log()).log()

    @property
    def mean(self):
        return self.loc + self.scale * 0.57721566490153286

    @property
    def variance(self):
        return (math.pi / math.sqrt(6) * self.scale) ** 2

    def log_prob(self, value):
        z = -self._standard(value)
        return z - z.exp() - self.scale.log()

    def cdf(self, value):
        return torch.exp(-torch.exp(-self._standard(value)))

    def entropy(self):
        return self.scale.log() + 1 + 0.57721566490153286


class Uniform(Distribution):
    """Every value from low up to high alike."""
    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not (self.low < self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def variance(self):
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape=torch.Size()):
        return self.low + torch.rand(self._extended_shape(sample_shape), dtype=self.low.dtype) * (self.high - self.low)

    def log_prob(self, value):
        self._validate_sample(value)
        inside = ((self.low <= value) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value):
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return (self.high - self.low).log()


class Exponential(Distribution):
    """The time to an event that comes at a rate."""
    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate.reciprocal()

    @property
    def variance(self):
        return self.rate ** -2

    @property
    def stddev(self):
        return self.rate.reciprocal()

    def rsample(self, sample_shape=torch.Size()):
        return -torch.log1p(-torch.rand(self._extended_shape(sample_shape), dtype=self.rate.dtype)) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value):
        return -torch.log1p(-value) / self.rate

    def entropy(self):
        return 1 - self.rate.log()


class _Half(Distribution):
    """The absolute value of a symmetric variable around 0."""
    has_rsample = True
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale, validate_args=None):
        self.scale, = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    def _whole(self):
        return self._base(torch.zeros_like(self.scale), self.scale, validate_args=False)

    def rsample(self, sample_shape=torch.Size()):
        return self._whole().rsample(sample_shape).abs()

    def log_prob(self, value):
        self._validate_sample(value)
        return torch.where(value >= 0, self._whole().log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        return 2 * self._whole().cdf(value) - 1

    def icdf(self, value):
        return self._whole().icdf((value + 1) / 2)

    def entropy(self):
        return self._whole().entropy() - math.log(2)


class HalfNormal(_Half):
    """|Normal(0, scale)|."""
    _base = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale ** 2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|Cauchy(0, scale)|."""
    _base = Cauchy

    @property
    def mean(self):
        return torch.full_like(self.scale, math.inf)

    variance = mean


class TransformedDistribution(Distribution):
    """A variable after a transformation that can be undone, or several."""
    has_rsample = True

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.base_dist = base_distribution
        self.transforms = list(transforms) if isinstance(transforms, (list, tuple)) else [transforms]
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        # A transformation of whole vectors makes the last dim of a batch a part of the event.
        self._event_dim = max([len(event), *(t.event_dim for t in self.transforms)])
        shape = batch + event
        cut = len(shape) - self._event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def support(self):
        return constraints.dependent

    def expand(self, batch_shape, _instance=None):
        return type(self)(self.base_dist.expand(batch_shape), self.transforms) if type(self) is TransformedDistribution \
            else super().expand(batch_shape)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape=torch.Size()):
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value):
        total, y = 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), self._event_dim - t.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), self._event_dim - len(self.base_dist.event_shape))

    def _monotone(self):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        return self._flip(self.base_dist.cdf(value))

    def icdf(self, value):
        value = self.base_dist.icdf(self._flip(value))
        for t in self.transforms:
            value = t(value)
        return value

    def _flip(self, value):
        sign = self._monotone()
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def __repr__(self):
        return f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """The exponential of a normal variable."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), transforms.ExpTransform(), validate_args)

    @property
    def loc(self):
        return self.base_dist.loc

    @property
    def scale(self):
        return self.base_dist.scale

    @property
    def mean(self):
        return (self.loc + self.scale ** 2 / 2).exp()

    @property
    def variance(self):
        square = self.scale ** 2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """scale times the exponential of an exponential variable."""
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args),
                         [transforms.ExpTransform(), transforms.AffineTransform(0, self.scale)], validate_args)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    def entropy(self):
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Weibull(TransformedDistribution):
    """A power of an exponential variable."""
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(Exponential(torch.ones_like(self.scale), validate_args=validate_args),
                         [transforms.PowerTransform(self.concentration.reciprocal()),
                          transforms.AffineTransform(0, self.scale)], validate_args)

    @property
    def mean(self):
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration.reciprocal()))
