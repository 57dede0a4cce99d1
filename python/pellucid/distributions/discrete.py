"""Distributions over whole numbers and classes."""
import math

import pellucid as torch
from pellucid.nn.functional import binary_cross_entropy_with_logits, softplus

from . import constraints
from .distribution import Distribution, broadcast_all


def _clamped(probs):
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


class _ProbsOrLogits(Distribution):
    """Parameters given as probabilities or as logits; the other is computed when asked for."""
    _categories = False  # whether the last dim of the parameters counts classes

    def _take(self, probs, logits):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            value = probs if self._categories else broadcast_all(probs)[0]
            if self._categories and value.ndim < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.__dict__["probs"] = value / value.sum(-1, keepdim=True) if self._categories else value
        else:
            value = logits if self._categories else broadcast_all(logits)[0]
            if self._categories and value.ndim < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.__dict__["logits"] = value - value.logsumexp(-1, keepdim=True) if self._categories else value
        self._param = self.__dict__["probs" if probs is not None else "logits"]

    def __getattr__(self, name):
        if name == "probs" and "logits" in self.__dict__:
            logits = self.__dict__["logits"]
            self.__dict__[name] = torch.softmax(logits, -1) if self._categories else torch.sigmoid(logits)
            return self.__dict__[name]
        if name == "logits" and "probs" in self.__dict__:
            probs = _clamped(self.__dict__["probs"])
            self.__dict__[name] = probs.log() if self._categories else probs.log() - torch.log1p(-probs)
            return self.__dict__[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def expand(self, batch_shape, _instance=None):
        made = super().expand(batch_shape)
        made._param = made.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return made

    @property
    def param_shape(self):
        return self._param.size()


class Bernoulli(_ProbsOrLogits):
    """1 with a probability, else 0."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = torch.broadcast_tensors(self.logits, value.to(self._param.dtype))
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = torch.arange(2, dtype=self._param.dtype).view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Categorical(_ProbsOrLogits):
    """A class by its number."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _categories = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    @property
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self):
        return torch.full(self._extended_shape(), math.nan, dtype=self._param.dtype)

    variance = mean

    @property
    def mode(self):
        return self.probs.argmax(-1)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            count = math.prod(sample_shape)
            rows = self.probs.reshape(-1, self._num_events)
            return torch.multinomial(rows, count, True).t().reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        shape = torch.broadcast_shapes(index.shape[:-1], self._batch_shape)
        return self.logits.expand((*shape, self._num_events)).gather(-1, index.expand((*shape, 1))).squeeze(-1)

    def entropy(self):
        logits = self.logits.clamp(min=torch.finfo(self._param.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = torch.arange(self._num_events).view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


class _OverCategorical(Distribution):
    """Vectors that count draws from a Categorical."""

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical._param.shape[-1:], validate_args=validate_args)

    @property
    def probs(self):
        return self._categorical.probs

    @property
    def logits(self):
        return self._categorical.logits


class OneHotCategorical(_OverCategorical):
    """A class as a vector with one 1."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def mean(self):
        return self.probs

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    @property
    def mode(self):
        return torch.nn.functional.one_hot(self.probs.argmax(-1), self.event_shape[0]).to(self.probs.dtype)

    def expand(self, batch_shape, _instance=None):
        made = super().expand(batch_shape)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    def sample(self, sample_shape=torch.Size()):
        index = self._categorical.sample(sample_shape)
        return torch.nn.functional.one_hot(index, self.event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with the gradient of the probabilities."""
    has_rsample = True

    def rsample(self, sample_shape=torch.Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())

    def sample(self, sample_shape=torch.Size()):
        return OneHotCategorical.sample(self, sample_shape)


class Geometric(_ProbsOrLogits):
    """How many failures before the first success."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.shape, validate_args=validate_args)
        if self._validate_args and not (self.probs > 0).all():
            raise ValueError(f"Expected parameter probs of distribution {self!r} to be positive but found invalid values:\n"
                             f"{self.probs}")

    @property
    def mean(self):
        return 1 / self.probs - 1

    @property
    def variance(self):
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            u = torch.rand(self._extended_shape(sample_shape), dtype=self._param.dtype).clamp(
                min=torch.finfo(self._param.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._validate_sample(value)
        return value * (-self.probs).log1p() + self.probs.log()

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Poisson(Distribution):
    """How many events come at a rate."""
    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return torch.xlogy(value, rate) - rate - torch.lgamma(value + 1)


class Binomial(_ProbsOrLogits):
    """How many of total_count tries succeed."""
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, self._param)
        self.total_count = self.total_count.type_as(self._param)
        self.__dict__["probs" if probs is not None else "logits"] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            shape = self._extended_shape(sample_shape)
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        return ways + value * logits - n * softplus(logits)


class NegativeBinomial(_ProbsOrLogits):
    """How many successes before total_count failures."""
    arg_constraints = {"total_count": constraints.nonnegative, "probs": constraints.half_open_unit_interval,
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        self.total_count, self._param = broadcast_all(total_count, self._param)
        self.total_count = self.total_count.type_as(self._param)
        self.__dict__["probs" if probs is not None else "logits"] = self._param
        super().__init__(self._param.shape, validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def variance(self):
        return self.mean / torch.sigmoid(-self.logits)

    def sample(self, sample_shape=torch.Size()):
        from .gamma import Gamma
        with torch.no_grad():
            rate = Gamma(self.total_count, torch.exp(-self.logits), validate_args=False).sample(sample_shape)
            return torch.poisson(rate)

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        plain = n * -softplus(self.logits) + value * -softplus(-self.logits)
        return plain + torch.lgamma(n + value) - torch.lgamma(1 + value) - torch.lgamma(n)


class Multinomial(_OverCategorical):
    """How often each class came in total_count draws."""
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.dependent

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        if total_count < 0:
            raise ValueError(f"Expected parameter total_count of distribution Multinomial to be at least 0, but got {total_count}")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=torch.Size()):
        draws = self._categorical.sample((self.total_count, *sample_shape))
        return torch.nn.functional.one_hot(draws, self.event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        return torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1) + torch.xlogy(value, logits.exp()).sum(-1)
