"""Transformations that can be undone, with the logarithm of how much they stretch."""
import math

import pellucid as torch


class Transform:
    """y = t(x), x = t.inv(y), and log |dy/dx|."""
    bijective = True
    sign = 1
    event_dim = 0

    def __init__(self, cache_size=0):
        pass

    def __call__(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log |dy/dx| at x."""
        raise NotImplementedError

    @property
    def inv(self):
        """The way back."""
        return _Inverse(self)

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, forward):
        self._forward, self.sign, self.event_dim = forward, forward.sign, forward.event_dim

    def __call__(self, y):
        return self._forward._inverse(y)

    def _inverse(self, x):
        return self._forward(x)

    def log_abs_det_jacobian(self, y, x):
        return -self._forward.log_abs_det_jacobian(x, y)

    @property
    def inv(self):
        return self._forward


class ExpTransform(Transform):
    """exp(x)."""

    def __call__(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self):
        return self.scale.sign() if isinstance(self.scale, torch.Tensor) else (1 if self.scale > 0 else -1)

    def __call__(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, torch.Tensor):
            one = self.scale.abs().log().expand(x.shape)
        else:
            one = torch.full_like(x, math.log(abs(self.scale)))
        return one.flatten(one.ndim - self.event_dim).sum(-1) if self.event_dim else one


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x))."""

    def __call__(self, x):
        info = torch.finfo(x.dtype)
        return torch.sigmoid(x).clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y):
        info = torch.finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - torch.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -torch.nn.functional.softplus(-x) - torch.nn.functional.softplus(x)


class TanhTransform(Transform):
    """tanh(x)."""

    def __call__(self, x):
        return x.tanh()

    def _inverse(self, y):
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        # log(1 - tanh(x)^2) without its cancellation
        return 2 * (math.log(2) - x - torch.nn.functional.softplus(-2 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    def __call__(self, x):
        return torch.nn.functional.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -torch.nn.functional.softplus(-x)


class PowerTransform(Transform):
    """x ** exponent of positive x."""

    def __init__(self, exponent, cache_size=0):
        self.exponent = exponent if isinstance(exponent, torch.Tensor) else torch.tensor(float(exponent))

    @property
    def sign(self):
        return self.exponent.sign()

    def __call__(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


class SoftmaxTransform(Transform):
    """softmax over the last dim: onto the simplex, not one-to-one."""
    bijective = False
    event_dim = 1

    def __call__(self, x):
        return torch.softmax(x, -1)

    def _inverse(self, y):
        return y.log()


class ComposeTransform(Transform):
    """One after another."""

    def __init__(self, parts, cache_size=0):
        self.parts = list(parts)
        self.event_dim = max((p.event_dim for p in self.parts), default=0)

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        from .distribution import sum_rightmost
        total = 0.0
        for part in self.parts:
            z = part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, z), self.event_dim - part.event_dim)
            x = z
        return total
