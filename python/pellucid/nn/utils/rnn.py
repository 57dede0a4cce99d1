"""Sequences of several lengths: as one padded tensor, or packed without the padding."""
from collections import namedtuple

from ... import _C
from ..._tensor import Tensor

_F = _C.functions

_Packed = namedtuple("PackedSequence",  # type: ignore[name-match]  # the name that is printed
                     ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Packed):
    """The steps of several sequences one after another, the longest sequence first: batch_sizes says how many sequences have
    a step t. Made by pack_padded_sequence and pack_sequence; recurrent layers take it."""
    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    @property
    def is_cuda(self):
        return False

    def to(self, *args, **kwargs):
        return PackedSequence(self.data.to(*args, **kwargs), *self[1:])


def invert_permutation(permutation):
    """The permutation that undoes the given one."""
    if permutation is None:
        return None
    return _F["argsort"](permutation)


def _lengths(lengths):
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs [T, B, …] (or [B, T, …]) without what lies beyond each length."""
    lengths = _lengths(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    if len(lengths) != input.shape[1]:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={input.shape[1]})")
    if not lengths or min(lengths) <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    if max(lengths) > input.shape[0]:
        raise RuntimeError(f"pack_padded_sequence: a length of {max(lengths)} is beyond the {input.shape[0]} steps of the input")
    order = None
    if enforce_sorted:
        if any(a < b for a, b in zip(lengths, lengths[1:])):
            raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                               "`enforce_sorted=False` to pack_padded_sequence to sidestep this requirement.")
    else:
        places = sorted(range(len(lengths)), key=lambda i: -lengths[i])
        order = _C._make_tensor(places, _C.int64)
        lengths = [lengths[i] for i in places]
        input = input.index_select(1, order)
    sizes = [sum(n > t for n in lengths) for t in range(lengths[0])]
    data = _F["cat"]([input[t, :size] for t, size in enumerate(sizes)])
    return PackedSequence(data, _C._make_tensor(sizes, _C.int64), order)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The reverse: the padded tensor in the order before packing, and the lengths."""
    padded, lengths = _padded(sequence, padding_value, total_length)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = [lengths[i] for i in sequence.unsorted_indices.tolist()]
    return (padded.transpose(0, 1) if batch_first else padded), _C._make_tensor(lengths, _C.int64)


def _padded(sequence, padding_value=0.0, total_length=None):
    """[T, B, …] in the packed order, and the lengths."""
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(f"Expected total_length to be at least the length of the longest sequence in input, but got "
                         f"total_length={total_length} and max sequence length being {len(sizes)}")
    rows = []
    for part in sequence.data.split(sizes):
        missing = sizes[0] - part.shape[0]
        fill = _F["full"]((missing, *part.shape[1:]), padding_value, dtype=part.dtype)
        rows.append(_F["cat"]([part, fill]) if missing else part)
    beyond = _F["full"]((sizes[0], *sequence.data.shape[1:]), padding_value, dtype=sequence.data.dtype)
    rows += [beyond] * (steps - len(sizes))
    return _F["stack"](rows), [sum(size > b for size in sizes) for b in range(sizes[0])]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of [T_i, …]."""
    return pack_padded_sequence(pad_sequence(sequences), [s.shape[0] for s in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list that pack_sequence took."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """[T_i, …] each to [T, B, …] (or [B, T, …]), filled up with padding_value."""
    sequences = list(sequences)
    longest = max(s.shape[0] for s in sequences)
    rows = []
    for s in sequences:
        fill = _F["full"]((longest - s.shape[0], *s.shape[1:]), padding_value, dtype=s.dtype)
        rows.append(_F["cat"]([fill, s] if padding_side == "left" else [s, fill]))
    return _F["stack"](rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The reverse of pad_sequence."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [s[:int(n)] for s, n in zip(padded_sequences, lengths)]
