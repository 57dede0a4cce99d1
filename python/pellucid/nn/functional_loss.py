"""Losses of torch.nn.functional: words for the reduction, the old flags, and targets' forms."""
from .. import _C
from ._reduction import number as _number

_F = _C.functions


def _same_sizes(input, target):
    if input.shape != target.shape:
        import warnings
        warnings.warn(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
                      "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                      stacklevel=3)
        return _F["broadcast_tensors"]([input, target])
    return input, target


def _apply(loss, how):
    return loss if how == 0 else loss.mean() if how == 1 else loss.sum()


def _weighted(loss, weight, how):
    if weight is None:
        return _apply(loss, how)
    weighted = loss * weight
    return weighted if how == 0 else weighted.sum() if how == 2 else weighted.sum() / weight.expand_as(loss).sum()


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|."""
    how = _number(reduction, size_average, reduce)
    input, target = _same_sizes(input, target)
    if weight is not None:
        return _weighted(_F["l1_loss"](input, target, 0), weight, how)
    return _F["l1_loss"](input, target, how)


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2."""
    how = _number(reduction, size_average, reduce)
    input, target = _same_sizes(input, target)
    if weight is not None:
        return _weighted(_F["mse_loss"](input, target, 0), weight, how)
    return _F["mse_loss"](input, target, how)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Quadratic within beta of the target, linear beyond."""
    how = _number(reduction, size_average, reduce)
    input, target = _same_sizes(input, target)
    return _F["l1_loss"](input, target, how) if beta == 0 else _F["smooth_l1_loss"](input, target, how, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Quadratic within delta of the target, linear beyond, with slope delta."""
    input, target = _same_sizes(input, target)
    if weight is not None:
        return _weighted(_F["huber_loss"](input, target, 0, delta), weight, _number(reduction))
    return _F["huber_loss"](input, target, _number(reduction), delta)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """The negative log-likelihood of the softmax; targets are classes or probabilities."""
    return _F["cross_entropy_loss"](input, target, weight, _number(reduction, size_average, reduce), ignore_index,
                                    label_smoothing)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """The negative of the target's entry."""
    return _F["nll_loss_nd"](input, target, weight, _number(reduction, size_average, reduce), ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(t log x + (1 - t) log(1 - x))."""
    if input.shape != target.shape:
        raise ValueError(f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is "
                         "deprecated. Please ensure they have the same size.")
    if input.dtype != target.dtype:
        raise RuntimeError(f"binary_cross_entropy: found dtype {target.dtype} of the target but expected {input.dtype}")
    return _F["binary_cross_entropy"](input, target, weight, _number(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean",
                                     pos_weight=None):
    """binary_cross_entropy of the sigmoid, without overflow."""
    if input.shape != target.shape:
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    return _F["binary_cross_entropy_with_logits"](input, target, weight, pos_weight, _number(reduction, size_average, reduce))


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """t (log t - x), where x is a logarithm already."""
    if not (input.is_floating_point() and target.is_floating_point()):
        raise RuntimeError(f"kl_div: Integral inputs not supported, but got {input.dtype} and {target.dtype}")
    if reduction == "batchmean":
        total = _F["kl_div"](input, target, 2, log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    return _F["kl_div"](input, target, _number(reduction, size_average, reduce), log_target=log_target)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """The negative log-likelihood of a Poisson distribution."""
    return _F["poisson_nll_loss"](input, target, log_input, full, eps, _number(reduction, size_average, reduce))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log-likelihood of normal distributions."""
    if not isinstance(var, _C.Tensor):
        var = _F["full_like"](input, var)
    if var.shape != input.shape and input.shape[:-1] == var.shape:
        var = var.unsqueeze(-1)
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    return _F["gaussian_nll_loss"](input, target, var, full, eps, _number(reduction))


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-t x))."""
    return _F["soft_margin_loss"](input, target, _number(reduction, size_average, reduce))


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where t is 1, max(0, margin - x) where t is -1."""
    return _F["hinge_embedding_loss"](input, target, margin, _number(reduction, size_average, reduce))


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where t is 1, max(0, cos - margin) where t is -1."""
    return _F["cosine_embedding_loss"](input1, input2, target, margin, _number(reduction, size_average, reduce))


def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -t (x1 - x2) + margin)."""
    return _F["margin_ranking_loss"](input1, input2, target, margin, _number(reduction, size_average, reduce))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, d(a, p) - d(a, n) + margin)."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of dimensions, but "
                           f"got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs")
    return _F["triplet_margin_loss"](anchor, positive, negative, margin, p, eps, swap,
                                     _number(reduction, size_average, reduce))


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """The same with a distance of one's own."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or _F["pairwise_distance"]
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _F["minimum"](far, distance(positive, negative))
    # max(0, near - far + margin) is the ranking loss of a pair in this order.
    return _F["margin_ranking_loss"](far, near, _F["ones"]((), dtype=far.dtype), margin, _number(reduction))


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over wrong classes of max(0, margin - x[t] + x[i])^p."""
    return _F["multi_margin_loss"](input, target, p, margin, weight, _number(reduction, size_average, reduce))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of the binary cross entropy of the sigmoid."""
    return _F["multilabel_soft_margin_loss"](input, target, weight, _number(reduction, size_average, reduce))


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The sum over right classes j and wrong ones i of max(0, 1 - (x[j] - x[i])) / classes; targets end at the first -1."""
    return _F["multilabel_margin_loss"](input, target, _number(reduction, size_average, reduce))
