"""storage() and untyped_storage(): the memory behind a tensor and its views, to look at."""
from ._tensor import Tensor


def _elements(tensor):
    """All elements of the memory that the tensor views, as far as it and its base reach."""
    base = tensor._base if getattr(tensor, "_base", None) is not None else tensor
    base = base.detach()
    extent = 1 + sum((n - 1) * step for n, step in zip(base.shape, base.stride())) if base.numel() else 0
    return base.as_strided((base.storage_offset() + extent,), (1,), 0)


class UntypedStorage:
    """The bytes behind a tensor. Two tensors that share memory have the same data_ptr()."""
    def __init__(self, tensor):
        self._all = _elements(tensor)

    def data_ptr(self):
        return self._all.data_ptr()

    def nbytes(self):
        return self._all.numel() * self._all.element_size()

    def size(self):
        return self.nbytes()

    __len__ = size

    def tolist(self):
        return list(self._all.numpy().tobytes())

    def __getitem__(self, i):
        return self.tolist()[i]

    def __repr__(self):
        values = "".join(f" {b}\n" for b in self.tolist())
        return f"{values}[torch.storage.UntypedStorage(device=cpu) of size {self.size()}]"


class TypedStorage(UntypedStorage):
    """The elements behind a tensor."""

    @property
    def dtype(self):
        return self._all.dtype

    def size(self):
        return self._all.numel()

    __len__ = size

    def tolist(self):
        return self._all.tolist()

    def element_size(self):
        return self._all.element_size()

    def untyped(self):
        made = UntypedStorage.__new__(UntypedStorage)
        made._all = self._all
        return made

    def __getitem__(self, i):
        return self._all[i].item() if isinstance(i, int) else self._all[i].tolist()

    def __setitem__(self, i, value):
        self._all[i] = value

    def __repr__(self):
        values = "".join(f" {v}\n" for v in self.tolist())
        return f"{values}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"


def install():
    """Adds storage() and untyped_storage() to the Tensor type."""
    Tensor.storage = lambda self: TypedStorage(self)
    Tensor.untyped_storage = lambda self: UntypedStorage(self)
