"""ctc_loss with PyTorch's lengths: tensors, lists or numbers."""
from .. import _C
from ._reduction import number

_F = _C.functions


def _lengths(value):
    values = value.tolist() if isinstance(value, _C.Tensor) else value
    return list(values) if isinstance(values, (list, tuple)) else [values]


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The loss of log-probabilities [T, N, C] and targets [N, S] or one after another; lengths of both."""
    return _F["ctc_loss"](log_probs, targets, _lengths(input_lengths), _lengths(target_lengths), blank, number(reduction),
                          zero_infinity)
