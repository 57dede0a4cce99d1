"""Sequences of several lengths as one padded tensor."""
from ... import _C


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """[T_i, …] each to [T, B, …] (or [B, T, …]), filled up with padding_value."""
    sequences = list(sequences)
    longest = max(s.shape[0] for s in sequences)
    shape = (len(sequences), longest, *sequences[0].shape[1:])
    out = _C.functions["full"](shape, padding_value, dtype=sequences[0].dtype)
    for i, s in enumerate(sequences):
        start = longest - s.shape[0] if padding_side == "left" else 0
        out[i, start:start + s.shape[0]] = s
    return out if batch_first else out.transpose(0, 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The reverse of pad_sequence."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[:int(n)] for s, n in zip(padded_sequences, lengths)]


def pack_padded_sequence(*_, **__):
    """Not there: recurrent layers take padded batches."""
    raise NotImplementedError("pack_padded_sequence: recurrent layers take padded batches; mask what lies beyond each length.")
