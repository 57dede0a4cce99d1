"""torch.nn.functional: the layers without state. Ops do the work. A name that is not defined here is that of an op; here are
PyTorch's signatures and words where they differ."""
from .. import _C, _promises
from .functional_ctc import ctc_loss  # noqa: F401
from .functional_image import *  # noqa: F403
from .functional_loss import *  # noqa: F403
from .functional_pool import *  # noqa: F403

_F = _C.functions


# Activations

def _with_inplace(name):
    """An activation with the argument inplace: its op, or the form in place."""
    plain, in_place = _F[name], _F[name + "_"]
    options = list(plain.__signature__.parameters.values())[1:]
    names = "".join(f", {o.name}={o.default!r}" for o in options)
    passed = "".join(f", {o.name}" for o in options)
    source = (f"def {name}(input{names}, inplace=False):\n"
              f"    return in_place(input{passed}) if inplace else plain(input{passed})\n")
    space = {"plain": plain, "in_place": in_place, "inf": float("inf")}
    # Real signatures, so that wrong calls fail as Python's own do; our file's name, so that profiles skip the frame.
    exec(compile(source, __file__, "exec"), space)
    space[name].__doc__ = plain.__doc__
    space[name].__module__ = __name__
    return space[name]


sigmoid, tanh = _F["sigmoid"], _F["tanh"]  # without inplace, as in PyTorch


def elu(input, alpha=1.0, inplace=False):
    """alpha * (exp(x) - 1) below 0."""
    return _F["elu_" if inplace else "elu"](input, alpha)


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


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a random slope for each element while training."""
    return _F["rrelu_" if inplace else "rrelu"](input, lower, upper, training)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples from a softmax that gradients pass through."""
    noise = -_F["empty_like"](logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    return _F["zeros_like"](soft).scatter_(dim, index, 1.0) - soft.detach() + soft


# Dropout

def _dropout(name, op, training_default=True):
    def dropout(input, p=0.5, training=training_default, inplace=False):
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        return _F[op + "_" if inplace else op](input, p, training)
    dropout.__name__, dropout.__doc__ = name, _F[op].__doc__
    return dropout


dropout, alpha_dropout = _dropout("dropout", "dropout"), _dropout("alpha_dropout", "alpha_dropout", False)
dropout2d = _dropout("dropout2d", "feature_dropout")


def _channel_dropout(name, unbatched):
    """dropout2d for other inputs; those of `unbatched` dims have no batch."""
    def dropout(input, p=0.5, training=True, inplace=False):
        if input.ndim == unbatched:
            return dropout2d(input.unsqueeze(0), p, training, inplace).squeeze(0)
        return dropout2d(input, p, training, inplace)
    dropout.__name__, dropout.__doc__ = name, dropout2d.__doc__
    return dropout


dropout1d, dropout3d = _channel_dropout("dropout1d", 2), _channel_dropout("dropout3d", 4)
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
    if sparse:
        _promises.not_kept("embedding(sparse=True)", "there are no sparse tensors; the gradient is dense, with the same values.")
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
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
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


def __dir__():
    return sorted({*globals(), *(name for name in _F if not name.startswith("_"))})


def __getattr__(name):
    """The op of that name; activations that have a form in place take inplace."""
    if name.startswith("_") or name not in _F:
        raise AttributeError(f"module 'torch.nn.functional' has no attribute '{name}' in pellucid")
    globals()[name] = found = _with_inplace(name) if _F[name].activation and name + "_" in _F else _F[name]
    return found
