"""torch.nn.functional: the layers without state. Records do the work; here are PyTorch's signatures and words."""
from .. import _C
from .._more import pdist  # noqa: F401
from .functional_ctc import ctc_loss  # noqa: F401
from .functional_image import *  # noqa: F401,F403
from .functional_loss import *  # noqa: F401,F403
from .functional_pool import *  # noqa: F401,F403

_F = _C.functions


# Activations

def _activation(name, *options):
    """record(input, *options), in place if asked."""
    plain, in_place = _F[name], _F.get(name + "_")
    names = ", ".join(f"{o}={d!r}" for o, d in options)
    passed = "".join(f", {o}" for o, _ in options)
    source = (f"def {name}(input{', ' + names if names else ''}, inplace=False):\n"
              f"    return in_place(input{passed}) if inplace else plain(input{passed})\n")
    space = {"plain": plain, "in_place": in_place, "inf": float("inf")}
    exec(source, space)  # real signatures, so that wrong calls fail as Python's own do
    space[name].__doc__ = plain.__doc__
    space[name].__module__ = __name__
    return space[name]


relu = _activation("relu")
relu6 = _activation("relu6")
elu = _activation("elu", ("alpha", 1.0))
selu = _activation("selu")
celu = _activation("celu", ("alpha", 1.0))
leaky_relu = _activation("leaky_relu", ("negative_slope", 0.01))
silu = _activation("silu")
mish = _activation("mish")
hardswish = _activation("hardswish")
hardsigmoid = _activation("hardsigmoid")
relu_, elu_, leaky_relu_, hardtanh_, selu_, celu_ = (
    _F[n] for n in ("relu_", "elu_", "leaky_relu_", "hardtanh_", "selu_", "celu_"))
logsigmoid, softsign, tanhshrink, hardshrink, softshrink, softplus, prelu = (
    _F[n] for n in ("logsigmoid", "softsign", "tanhshrink", "hardshrink", "softshrink", "softplus", "prelu"))
threshold_ = _F["threshold_"]
linear, bilinear, one_hot = (_F[n] for n in ("linear", "bilinear", "one_hot"))
conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _F[n] for n in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"))
scaled_dot_product_attention, pairwise_distance, cosine_similarity = (
    _F[n] for n in ("scaled_dot_product_attention", "pairwise_distance", "cosine_similarity"))
sigmoid, tanh = _F["sigmoid"], _F["tanh"]


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """min(max(x, min_val), max_val)."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _F["hardtanh_" if inplace else "hardtanh"](input, min_val, max_val)


def gelu(input, *, approximate="none"):
    """x times the normal distribution's cdf at x; 'tanh' for the usual approximation."""
    return _F["gelu"](input, approximate=approximate)


def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, else value."""
    return _F["threshold_" if inplace else "threshold"](input, threshold, value)


def _default_dim(ndim):
    return 0 if ndim in (0, 1, 3) else 1


def _softmax(name):
    def softmax(input, dim=None, _stacklevel=3, dtype=None):
        return _F[name](input, _default_dim(input.ndim) if dim is None else dim, dtype=dtype)
    softmax.__name__, softmax.__doc__ = name, _F[name].__doc__
    return softmax


softmax, log_softmax, softmin = _softmax("softmax"), _softmax("log_softmax"), _softmax("softmin")


def glu(input, dim=-1):
    """The first half along dim times the sigmoid of the second."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a random slope for each element while training."""
    slope = _F["empty_like"](input).uniform_(lower, upper) if training else (lower + upper) / 2
    result = _F["where"](input >= 0, input, input * slope)
    return input.copy_(result) if inplace else result


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples from a softmax that gradients pass through."""
    noise = -_F["empty_like"](logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    return _F["zeros_like"](soft).scatter_(dim, index, 1.0) - soft.detach() + soft


# Dropout

def _dropout(name, record, training_default=True):
    def dropout(input, p=0.5, training=training_default, inplace=False):
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        return _F[record + "_" if inplace else record](input, p, training)
    dropout.__name__, dropout.__doc__ = name, _F[record].__doc__
    return dropout


dropout, alpha_dropout = _dropout("dropout", "dropout"), _dropout("alpha_dropout", "alpha_dropout", False)
dropout1d = dropout2d = dropout3d = _dropout("dropout2d", "feature_dropout")
feature_alpha_dropout = _dropout("feature_alpha_dropout", "feature_alpha_dropout", False)


# Embeddings and shapes

def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight by index."""
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += weight.shape[0]
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    return _F["embedding"](weight, input, padding_idx, scale_grad_by_freq, sparse)


def _renormalize(weight, input, max_norm, norm_type):
    """Scales the rows that are used down to max_norm, in place."""
    rows = _F["unique"](input.flatten())[0]
    values = weight.detach()[rows]
    norms = _F["linalg_vector_norm"](values, norm_type, 1, True)
    weight.detach()[rows] = _F["where"](norms > max_norm, values * (max_norm / (norms + 1e-7)), values)


def pad(input, pad, mode="constant", value=None):
    """Adds elements at both ends of the last dims."""
    return _F["pad"](input, pad, mode, value)


def pixel_shuffle(input, upscale_factor):
    """[…, C r^2, H, W] to […, C, H r, W r]."""
    r = upscale_factor
    if input.ndim < 3 or input.shape[-3] % (r * r):
        raise RuntimeError(f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but input has sizes {list(input.shape)} and upscale_factor is {r}")
    *batch, c, h, w = input.shape
    x = input.reshape(*batch, c // (r * r), r, r, h, w)
    n = len(batch)
    return x.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*batch, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """The reverse of pixel_shuffle."""
    r = downscale_factor
    *batch, c, h, w = input.shape
    x = input.reshape(*batch, c, h // r, r, w // r, r)
    n = len(batch)
    return x.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(*batch, c * r * r, h // r, w // r)


def channel_shuffle(input, groups):
    """Mixes the channels of the groups."""
    b, c, *rest = input.shape
    return input.reshape(b, groups, c // groups, *rest).transpose(1, 2).reshape(input.shape)


# Normalisation

def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """(x - mean) / sqrt(var + eps) over the last dims, scaled and shifted."""
    return _F["layer_norm"](input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) over the last dims, scaled."""
    return _F["rms_norm"](input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalisation over groups of channels."""
    return _F["group_norm"](input, num_groups, weight, bias, eps)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    """Normalisation over the batch, or by running statistics."""
    if training and input.numel() and input.numel() // max(input.shape[1], 1) <= 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return _F["batch_norm"](input, weight, bias, running_mean, running_var, training, momentum, eps)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1,
                  eps=1e-05):
    """Normalisation over each channel of each example."""
    if use_input_stats and input.numel() // max(input.shape[0] * input.shape[1], 1) <= 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return _F["instance_norm"](input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by a power of the mean square of neighbouring channels."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    flat = (input * input).flatten(2).transpose(1, 2)  # channels last, to be averaged over
    batch, places, channels = flat.shape
    padded = _F["constant_pad_nd"](flat, [size // 2, (size - 1) // 2])
    mean = _F["avg_pool1d"](padded, size, 1).transpose(1, 2).reshape(input.shape)
    return input / (mean * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(norm, eps)."""
    return input / _F["linalg_vector_norm"](input, p, dim, True).clamp_min(eps).expand_as(input)


def multi_head_attention_forward(*_, **__):
    """Only nn.MultiheadAttention is there."""
    raise NotImplementedError("multi_head_attention_forward: use nn.MultiheadAttention or scaled_dot_product_attention.")


def has_torch_function(*_):
    """False: there are no overrides."""
    return False


def __getattr__(name):
    raise AttributeError(f"module 'torch.nn.functional' has no attribute '{name}' in pellucid")
