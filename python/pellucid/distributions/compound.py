"""Distributions of several numbers: Independent, MultivariateNormal, mixtures, relaxed classes."""
import math

import pellucid as torch

from . import constraints
from .continuous import TransformedDistribution
from .discrete import _clamped
from .distribution import Distribution, broadcast_all, sum_rightmost
from .transforms import ExpTransform, SigmoidTransform


class Independent(Distribution):
    """A distribution whose last batch dims count as one value."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                             f"{reinterpreted_batch_ndims} vs {len(batch)}")
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + event, validate_args=validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def support(self):
        return constraints.dependent

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def sample(self, sample_shape=torch.Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def expand(self, batch_shape, _instance=None):
        own = self.event_shape[:self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand((*batch_shape, *own)), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MultivariateNormal(Distribution):
    """Normal variables that depend on one another."""
    has_rsample = True
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: m for name, m in given.items() if m is not None}
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, matrix), = given.items()
        if matrix.ndim < 2:
            raise ValueError(f"{name} matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self.__dict__[name] = matrix.expand((*batch, *matrix.shape[-2:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "covariance_matrix":
            self._root = torch.linalg.cholesky(matrix)
        elif name == "precision_matrix":
            self._root = torch.linalg.cholesky(torch.linalg.inv(matrix))
        else:
            self._root = matrix

    def __getattr__(self, name):
        if name == "scale_tril" and "_root" in self.__dict__:
            return self._root.expand((*self._batch_shape, *self._root.shape[-2:]))
        if name == "covariance_matrix" and "_root" in self.__dict__:
            return self.scale_tril @ self.scale_tril.mT
        if name == "precision_matrix" and "_root" in self.__dict__:
            return torch.linalg.inv(self.covariance_matrix)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return (self._root ** 2).sum(-1).expand(self.loc.shape)

    def rsample(self, sample_shape=torch.Size()):
        noise = torch.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._root @ noise.unsqueeze(-1)).squeeze(-1)

    def _log_root(self):
        return self._root.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        difference = (value - self.loc).unsqueeze(-1)
        root = self._root.expand((*difference.shape[:-2], *self._root.shape[-2:]))
        z = torch.linalg.solve(root, difference).squeeze(-1)
        return -0.5 * (self.event_shape[0] * math.log(2 * math.pi) + (z * z).sum(-1)) - self._log_root()

    def entropy(self):
        entropy = 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_root()
        return entropy.expand(self._batch_shape)


class MixtureSameFamily(Distribution):
    """One of several distributions of a kind, chosen by a Categorical."""

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        from .discrete import Categorical
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        if len(component_distribution.batch_shape) == 0 or (
                mixture_distribution.param_shape[-1] != component_distribution.batch_shape[-1]):
            raise ValueError(f"`mixture_distribution` has {mixture_distribution.param_shape[-1]} components, but the batch of "
                             f"`component_distribution` is {tuple(component_distribution.batch_shape)}")
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape,
                         validate_args=validate_args)

    @property
    def support(self):
        return constraints.dependent

    def _weights(self):
        return self.mixture_distribution.probs.reshape((*self.mixture_distribution.probs.shape, *[1] * len(self._event_shape)))

    def _dim(self):
        return -1 - len(self._event_shape)

    @property
    def mean(self):
        return (self._weights() * self.component_distribution.mean).sum(self._dim())

    @property
    def variance(self):
        weights, parts = self._weights(), self.component_distribution
        within = (weights * parts.variance).sum(self._dim())
        return within + (weights * (parts.mean - self.mean.unsqueeze(self._dim())) ** 2).sum(self._dim())

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            which = self.mixture_distribution.sample(sample_shape)
            parts = self.component_distribution.sample(sample_shape)
            events = len(self._event_shape)
            index = which.reshape((*which.shape, *[1] * (events + 1))).expand((*which.shape, 1, *self._event_shape))
            return parts.gather(which.ndim, index).squeeze(which.ndim)

    def log_prob(self, value):
        parts = self.component_distribution.log_prob(value.unsqueeze(self._dim()))
        return torch.logsumexp(parts + torch.log_softmax(self.mixture_distribution.logits, -1), -1)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


class _LogitBernoulli(Distribution):
    """The logit of a relaxed Bernoulli variable."""
    has_rsample = True

    def __init__(self, temperature, logits):
        self.temperature, self.logits = temperature, logits
        super().__init__(logits.shape, validate_args=False)

    def rsample(self, sample_shape=torch.Size()):
        u = _clamped(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value):
        difference = self.logits - value * self.temperature
        return torch.log(torch.as_tensor(self.temperature)) + difference \
            - 2 * torch.nn.functional.softplus(difference)


class _Relaxed(TransformedDistribution):
    """A variable near those of `hard`, whose parameters it has."""

    def __init__(self, temperature, hard, base_distribution, transform, validate_args):
        self.temperature, self._hard = temperature, hard
        super().__init__(base_distribution, transform, validate_args)

    @property
    def probs(self):
        return self._hard.probs

    @property
    def logits(self):
        return self._hard.logits


class RelaxedBernoulli(_Relaxed):
    """A number near 0 or 1 through which gradients flow."""

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        from .discrete import Bernoulli
        hard = Bernoulli(probs, logits, validate_args=validate_args)
        super().__init__(temperature, hard, _LogitBernoulli(temperature, hard.logits), SigmoidTransform(), validate_args)


class _LogCategorical(Distribution):
    """The logarithm of a relaxed one-hot vector: Gumbel's softmax."""
    has_rsample = True

    def __init__(self, temperature, logits):
        self.temperature, self.logits = torch.as_tensor(temperature), logits
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=False)

    def rsample(self, sample_shape=torch.Size()):
        u = _clamped(torch.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        return torch.log_softmax((self.logits - (-u.log()).log()) / self.temperature, -1)

    def log_prob(self, value):
        k = self.event_shape[0]
        logits, value = broadcast_all(self.logits, value)
        scale = math.lgamma(k) + (k - 1) * self.temperature.log()
        return torch.log_softmax(logits - value * self.temperature, -1).sum(-1) + scale


class RelaxedOneHotCategorical(_Relaxed):
    """A vector near one-hot through which gradients flow."""

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        from .discrete import Categorical
        hard = Categorical(probs, logits, validate_args=validate_args)
        super().__init__(temperature, hard, _LogCategorical(temperature, hard.logits), ExpTransform(), validate_args)
