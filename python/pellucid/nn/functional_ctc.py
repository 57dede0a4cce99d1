"""ctc_loss: the negative log-likelihood of target sequences under every alignment with the inputs, by ops, a few a time step."""
from .. import _C
from ._reduction import number

_F = _C.functions
_NEVER = -1e30  # log 0 that stays finite, so that gradients do too


def _targets(targets, lengths):
    """Targets as [N, S], also where they are one after another in a single row."""
    if targets.ndim == 2:
        return targets
    rows = _F["zeros"]((len(lengths), max([*lengths, 1])), dtype=_C.int64)
    at = 0
    for i, n in enumerate(lengths):
        rows[i, :n] = targets[at:at + n]
        at += n
    return rows


def _shifted(x, by):
    """x moved to the right along the last dim."""
    pad = _F["full"]((x.shape[0], by), _NEVER, dtype=x.dtype)
    return _F["cat"]([pad, x[:, :x.shape[1] - by]], 1)


def _lengths(value):
    return value.tolist() if isinstance(value, _C.Tensor) else list(value)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The loss of log-probabilities [T, N, C] and targets [N, S] or one after another; lengths of both."""
    alone = log_probs.ndim == 2
    if alone:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
        input_lengths, target_lengths = ([int(v)] if not isinstance(v, (list, tuple)) else v
                                         for v in (input_lengths, target_lengths))
    steps, batch, classes = log_probs.shape
    inputs, wanted = _lengths(input_lengths), _lengths(target_lengths)
    if len(inputs) != batch or len(wanted) != batch:
        raise RuntimeError(f"ctc_loss: the batch has {batch} sequences but {len(inputs)} input lengths and {len(wanted)} target "
                           "lengths were given.")
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), found {blank}.")
    if max(inputs) > steps:
        raise RuntimeError(f"ctc_loss: Expected input_lengths to have value at most {steps}, but got value {max(inputs)}.")
    targets = _targets(targets.long(), wanted)
    places = 2 * targets.shape[1] + 1
    labels = _F["full"]((batch, places), blank, dtype=_C.int64)
    labels[:, 1::2] = targets
    # From a place one can stay, go one on, or skip a blank between two different labels.
    skips = _F["zeros"]((batch, places), dtype=_C.bool)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    emitted = log_probs.gather(2, labels.unsqueeze(0).expand(steps, -1, -1))
    start = _F["arange"](0, places, 1) < 2
    alpha = _F["where"](start, emitted[0], _NEVER)
    lengths = _C._make_tensor(inputs, _C.int64).unsqueeze(1)
    for t in range(1, steps):
        skipped = _F["where"](skips, _shifted(alpha, 2), _NEVER)
        moved = _F["logsumexp"](_F["stack"]([alpha, _shifted(alpha, 1), skipped]), 0) + emitted[t]
        alpha = _F["where"](lengths > t, moved, alpha)
    ends = 2 * _C._make_tensor(wanted, _C.int64).unsqueeze(1)
    last = alpha.gather(1, ends)
    before = _F["where"](ends > 0, alpha.gather(1, (ends - 1).clamp(min=0)), _NEVER)
    loss = -_F["logsumexp"](_F["cat"]([last, before], 1), 1)
    impossible = loss > -_NEVER / 2
    loss = _F["where"](impossible, 0.0 if zero_infinity else float("inf"), loss).to(log_probs.dtype)
    if reduction == "mean":
        counts = _C._make_tensor(wanted, _C.int64).clamp(min=1).to(loss.dtype)
        return (loss / counts).mean()
    how = number(reduction)
    return loss.sum() if how == 2 else loss[0] if alone else loss
