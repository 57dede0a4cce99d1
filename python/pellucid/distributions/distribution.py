"""Distribution: the base of all, and what they share: parameters that broadcast, checks of values."""
import pellucid as torch

from . import constraints


def broadcast_all(*values):
    """The values as tensors of one size; numbers take the dtype of the tensors."""
    first = next((v for v in values if isinstance(v, torch.Tensor)), None)
    if any(not isinstance(v, (torch.Tensor, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")
    dtype = first.dtype if first is not None and first.is_floating_point() else torch.get_default_dtype()
    tensors = [v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype) for v in values]
    return list(torch.broadcast_tensors(*tensors))


def sum_rightmost(value, dims):
    """The sum over the last dims."""
    return value if dims == 0 else value.reshape((*value.shape[:value.ndim - dims], -1)).sum(-1)


class Distribution:
    """A random variable. Subclasses give parameters, sample or rsample, log_prob and moments."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict = {}
    support = constraints.real
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value):
        """Whether parameters and values are checked unless told otherwise."""
        Distribution._validate_args = bool(value)

    def __init__(self, batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None):
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)  # a parameter that is derived from another is not checked
            if value is None or constraint is constraints.dependent:
                continue
            if not constraint.check(value).all():
                raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                                 f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid "
                                 f"values:\n{value}")

    @property
    def batch_shape(self):
        """How many variables there are."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The sizes of one value."""
        return self._event_shape

    @property
    def mean(self):
        raise NotImplementedError(f"{type(self).__name__} has no mean here")

    @property
    def variance(self):
        raise NotImplementedError(f"{type(self).__name__} has no variance here")

    @property
    def stddev(self):
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape=torch.Size()):
        """Random values, without gradients."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        """Random values through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__}.rsample: its samples have no gradient here; use sample().")

    def sample_n(self, n):
        """sample((n,))."""
        return self.sample((n,))

    def log_prob(self, value):
        """The logarithm of the density or probability of a value."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of cdf."""
        raise NotImplementedError

    def entropy(self):
        """The expectation of -log_prob."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy here")

    def perplexity(self):
        """exp(entropy)."""
        return self.entropy().exp()

    def expand(self, batch_shape, _instance=None):
        """The same distribution with a larger batch."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        batch_shape = torch.Size(batch_shape)
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                own = value.shape[len(self._batch_shape):]
                made.__dict__[name] = value.expand((*batch_shape, *own))
        made._batch_shape = batch_shape
        return made

    def _extended_shape(self, sample_shape=torch.Size()):
        return torch.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value):
        if not self._validate_args:
            return
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        dims = len(self._event_shape)
        if value.shape[value.ndim - dims:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}.")
        for i, j in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                                 f"{self._batch_shape + self._event_shape}.")
        if not self.support.check(value).all():
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                             f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}")

    def __repr__(self):
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value.item() if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """For programs that ask: nothing is derived from it here."""
