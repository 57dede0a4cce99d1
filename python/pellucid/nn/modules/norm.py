"""Normalisation layers: batch, instance, layer, RMS, group."""
from ... import _C
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import options
from .module import Module

_empty, _zeros, _ones = (_C.functions[n] for n in ("empty", "zeros", "ones"))


class _RunningNorm(Module):
    """What batch and instance normalisation share: parameters and running statistics."""
    dims: tuple[int, ...] = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None,
                 bias=True):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = options(device, dtype)
        self.register_parameter("weight", Parameter(_ones(num_features, **made)) if affine else None)
        self.register_parameter("bias", Parameter(_zeros(num_features, **made)) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", _zeros(num_features, **made) if tracked else None)
        self.register_buffer("running_var", _ones(num_features, **made) if tracked else None)
        self.register_buffer("num_batches_tracked", _C._make_tensor(0) if tracked else None)

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.ndim not in self.dims:
            words = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(f"expected {words} input (got {input.ndim}D input)")

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class _BatchNorm(_RunningNorm):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                factor = 1.0 / self.num_batches_tracked.item()
        by_batch = self.training or self.running_mean is None
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, self.running_mean if keep else None, self.running_var if keep else None, self.weight,
                            self.bias, by_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Normalisation of [N, C] or [N, C, L] over the batch."""
    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalisation of [N, C, H, W] over the batch."""
    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalisation of [N, C, D, H, W] over the batch."""
    dims = (5,)


class _InstanceNorm(_RunningNorm):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None,
                 bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input):
        self._check_input_dim(input)
        single = input.ndim == self.dims[0]
        x = input.unsqueeze(0) if single else input
        y = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps)
        return y.squeeze(0) if single else y


class InstanceNorm1d(_InstanceNorm):
    """Normalisation of each channel of each example of [N, C, L]."""
    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalisation of each channel of each image of [N, C, H, W]."""
    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalisation of each channel of each volume of [N, C, D, H, W]."""
    dims = (4, 5)


class LayerNorm(Module):
    """Normalisation over the last dims of each example."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = options(device, dtype)
        self.register_parameter("weight", Parameter(_ones(self.normalized_shape, **made)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(_zeros(self.normalized_shape, **made)) if elementwise_affine and bias else None)

    def reset_parameters(self):
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return (f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
                f"bias={self.bias is not None}")


class RMSNorm(Module):
    """x / rms(x) over the last dims."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(_ones(self.normalized_shape, **options(device, dtype)))
                                if elementwise_affine else None)

    def reset_parameters(self):
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalisation over groups of channels."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, bias=True):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        made = options(device, dtype)
        self.register_parameter("weight", Parameter(_ones(num_channels, **made)) if affine else None)
        self.register_parameter("bias", Parameter(_zeros(num_channels, **made)) if affine and bias else None)

    def reset_parameters(self):
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
