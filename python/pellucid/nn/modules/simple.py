"""Layers that only hold the arguments of a function: activations, dropout, pooling, padding, distances.

Each is one line: name, function, constructor's arguments with defaults, which of them its text shows.
"""
from ... import _C
from .. import functional as F
from ..parameter import Parameter
from .module import Module


def _layer(name, function, arguments="", shown=None, training=False, inputs="input", base=Module, check=None):
    """A Module class whose forward is function(input, *arguments). `arguments` is the text of a signature; check(self) refuses
    values outside their domain."""
    pairs = [a.strip() for a in arguments.split(",") if a.strip()]
    names = [p.split("=")[0].strip() for p in pairs]
    positional = ", ".join(["self", *pairs])
    stored = "".join(f"\n    self.{n} = {n}" for n in names) + ("\n    check(self)" if check else "")
    passed = ", ".join([inputs, *(f"{n}=self.{n}" for n in names), *(["training=self.training"] if training else [])])
    body = (f"def __init__({positional}):\n    super(cls, self).__init__(){stored}\n"
            f"def forward(self, {inputs}):\n    return function({passed})\n")
    space = {"function": function, "check": check}
    exec(compile(body, __file__, "exec"), space)  # our file's name: profiles charge the line that calls it
    shown = names if shown is None else shown.split()

    def extra_repr(self):
        parts = []
        for n in shown:
            value = getattr(self, n)
            if n == "inplace":
                parts += ["inplace=True"] if value else []
            elif n == "lambd":
                parts.append(f"{value}")
            else:
                parts.append(f"{n}={value!r}")
        return ", ".join(parts)

    made = type(name, (base,), {"__init__": space["__init__"], "forward": space["forward"], "extra_repr": extra_repr,
                                "__doc__": (function.__doc__ or name), "__module__": __name__})
    space["cls"] = made
    return made


def _rising(self):
    if not self.max_val > self.min_val:
        raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")


# Activations
ReLU = _layer("ReLU", F.relu, "inplace=False")
ReLU6 = _layer("ReLU6", F.relu6, "inplace=False")
ELU = _layer("ELU", F.elu, "alpha=1.0, inplace=False")
SELU = _layer("SELU", F.selu, "inplace=False")
CELU = _layer("CELU", F.celu, "alpha=1.0, inplace=False")
GELU = _layer("GELU", F.gelu, "approximate='none'")
SiLU = _layer("SiLU", F.silu, "inplace=False")
Mish = _layer("Mish", F.mish, "inplace=False")
Hardswish = _layer("Hardswish", F.hardswish, "inplace=False")
Hardsigmoid = _layer("Hardsigmoid", F.hardsigmoid, "inplace=False")
LeakyReLU = _layer("LeakyReLU", F.leaky_relu, "negative_slope=0.01, inplace=False")
Hardtanh = _layer("Hardtanh", F.hardtanh, "min_val=-1.0, max_val=1.0, inplace=False", check=_rising)
Hardshrink = _layer("Hardshrink", F.hardshrink, "lambd=0.5")
Softshrink = _layer("Softshrink", F.softshrink, "lambd=0.5")
Softplus = _layer("Softplus", F.softplus, "beta=1.0, threshold=20.0")
Threshold = _layer("Threshold", F.threshold, "threshold, value, inplace=False")
RReLU = _layer("RReLU", F.rrelu, "lower=1.0/8, upper=1.0/3, inplace=False", training=True)
GLU = _layer("GLU", F.glu, "dim=-1")
Sigmoid = _layer("Sigmoid", F.sigmoid)
Tanh = _layer("Tanh", F.tanh)
Softsign = _layer("Softsign", F.softsign)
Tanhshrink = _layer("Tanhshrink", F.tanhshrink)
LogSigmoid = _layer("LogSigmoid", F.logsigmoid)
Softmax = _layer("Softmax", F.softmax, "dim=None")
LogSoftmax = _layer("LogSoftmax", F.log_softmax, "dim=None")
Softmin = _layer("Softmin", F.softmin, "dim=None")


class Softmax2d(Module):
    """The softmax over channels of images."""

    def forward(self, input):
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)


class PReLU(Module):
    """x where x > 0, else weight times x, with a weight to learn."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(_C.functions["full"]((num_parameters,), init, dtype=dtype or _C.get_default_dtype()))

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


# Dropout

class _Dropout(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input):
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


def _dropout(name, function):
    return type(name, (_Dropout,), {"_function": staticmethod(function), "__doc__": function.__doc__, "__module__": __name__})


Dropout, AlphaDropout = _dropout("Dropout", F.dropout), _dropout("AlphaDropout", F.alpha_dropout)
Dropout1d, Dropout2d = _dropout("Dropout1d", F.dropout1d), _dropout("Dropout2d", F.dropout2d)
Dropout3d = _dropout("Dropout3d", F.dropout3d)
FeatureAlphaDropout = _dropout("FeatureAlphaDropout", F.feature_alpha_dropout)

# Pooling
_max = "kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False"


def _own_stride(pool):
    """The text of a pool shows the stride that it uses."""
    first = pool.__init__

    def __init__(self, *args, **kwargs):
        first(self, *args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size
    pool.__init__ = __init__
    return pool


MaxPool1d = _own_stride(_layer("MaxPool1d", F.max_pool1d, _max, "kernel_size stride padding dilation ceil_mode"))
MaxPool2d = _own_stride(_layer("MaxPool2d", F.max_pool2d, _max, "kernel_size stride padding dilation ceil_mode"))
_average = "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True"
AvgPool1d = _own_stride(_layer("AvgPool1d", F.avg_pool1d, _average, "kernel_size stride padding"))
AvgPool2d = _own_stride(_layer("AvgPool2d", F.avg_pool2d, _average + ", divisor_override=None", "kernel_size stride padding"))
AdaptiveAvgPool1d = _layer("AdaptiveAvgPool1d", F.adaptive_avg_pool1d, "output_size")
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", F.adaptive_avg_pool2d, "output_size")
AdaptiveMaxPool1d = _layer("AdaptiveMaxPool1d", F.adaptive_max_pool1d, "output_size, return_indices=False", "output_size")
AdaptiveMaxPool2d = _layer("AdaptiveMaxPool2d", F.adaptive_max_pool2d, "output_size, return_indices=False", "output_size")
MaxPool3d = _own_stride(_layer("MaxPool3d", F.max_pool3d, _max, "kernel_size stride padding dilation ceil_mode"))
AvgPool3d = _own_stride(_layer("AvgPool3d", F.avg_pool3d, _average + ", divisor_override=None", "kernel_size stride padding"))
AdaptiveAvgPool3d = _layer("AdaptiveAvgPool3d", F.adaptive_avg_pool3d, "output_size")
AdaptiveMaxPool3d = _layer("AdaptiveMaxPool3d", F.adaptive_max_pool3d, "output_size, return_indices=False", "output_size")
LPPool1d = _layer("LPPool1d", F.lp_pool1d, "norm_type, kernel_size, stride=None, ceil_mode=False")
LPPool2d = _layer("LPPool2d", F.lp_pool2d, "norm_type, kernel_size, stride=None, ceil_mode=False")
LPPool3d = _layer("LPPool3d", F.lp_pool3d, "norm_type, kernel_size, stride=None, ceil_mode=False")


class _MaxUnpool(Module):
    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding

    def forward(self, input, indices, output_size=None):
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _unpool(dims, function):
    return type(f"MaxUnpool{dims}d", (_MaxUnpool,), {"_function": staticmethod(function), "__doc__": function.__doc__,
                                                     "__module__": __name__})


MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _unpool(1, F.max_unpool1d), _unpool(2, F.max_unpool2d), _unpool(3, F.max_unpool3d)


# Padding

class _Pad(Module):
    mode, dims = "constant", 1

    def __init__(self, padding, value=0.0):
        super().__init__()
        self.padding = (padding,) * (2 * self.dims) if isinstance(padding, int) else tuple(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, self.mode, self.value if self.mode == "constant" else None)

    def extra_repr(self):
        constant = type(self).__name__.startswith("Constant")
        return f"padding={self.padding}, value={self.value}" if constant else f"{self.padding}"


def _pad(name, mode, dims):
    return type(name, (_Pad,), {"mode": mode, "dims": dims, "__doc__": f"Padding ({mode}) over {dims} dims.",
                                "__module__": __name__})


ZeroPad1d, ZeroPad2d = _pad("ZeroPad1d", "constant", 1), _pad("ZeroPad2d", "constant", 2)
ReflectionPad1d, ReflectionPad2d = _pad("ReflectionPad1d", "reflect", 1), _pad("ReflectionPad2d", "reflect", 2)
ReplicationPad1d, ReplicationPad2d = _pad("ReplicationPad1d", "replicate", 1), _pad("ReplicationPad2d", "replicate", 2)
CircularPad1d, CircularPad2d = _pad("CircularPad1d", "circular", 1), _pad("CircularPad2d", "circular", 2)
ConstantPad1d, ConstantPad2d = _pad("ConstantPad1d", "constant", 1), _pad("ConstantPad2d", "constant", 2)

ZeroPad3d, ReflectionPad3d = _pad("ZeroPad3d", "constant", 3), _pad("ReflectionPad3d", "reflect", 3)
ReplicationPad3d, CircularPad3d = _pad("ReplicationPad3d", "replicate", 3), _pad("CircularPad3d", "circular", 3)
ConstantPad3d = _pad("ConstantPad3d", "constant", 3)

# Shapes and distances
PixelShuffle = _layer("PixelShuffle", F.pixel_shuffle, "upscale_factor")
PixelUnshuffle = _layer("PixelUnshuffle", F.pixel_unshuffle, "downscale_factor")
ChannelShuffle = _layer("ChannelShuffle", F.channel_shuffle, "groups")
CosineSimilarity = _layer("CosineSimilarity", F.cosine_similarity, "dim=1, eps=1e-8", "", inputs="x1, x2")
PairwiseDistance = _layer("PairwiseDistance", F.pairwise_distance, "p=2.0, eps=1e-6, keepdim=False", "", inputs="x1, x2")


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels."""

    def __init__(self, size, alpha=0.0001, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class Upsample(Module):
    """Resizes images."""

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor = (tuple(map(float, scale_factor)) if isinstance(scale_factor, (list, tuple)) else
                             float(scale_factor) if scale_factor else None)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self):
        first = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        return f"{first}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by the nearest pixel."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by lines between the pixels; corners stay corners."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)
