"""storage() and untyped_storage(): the memory behind a tensor and its views."""
from . import _C
from ._tensor import Tensor


class UntypedStorage:
    """The bytes behind a tensor, kept alive whatever the tensor becomes. Two tensors that share memory have the same data_ptr()."""

    def __init__(self, tensor):
        self._any = tensor.detach() if isinstance(tensor, Tensor) else _C.functions["empty"]((int(tensor),), dtype=_C.uint8)

    @property
    def _all(self):
        return _C._storage_bytes(self._any)

    def data_ptr(self):
        return self._all.data_ptr()

    def nbytes(self):
        return _C._storage_size(self._any)

    def size(self):
        return self.nbytes()

    def __len__(self):
        return self.size()

    def element_size(self):
        return self._all.element_size()

    def resize_(self, size):
        """Makes the storage larger; the memory that tensors look at is never taken away from them."""
        wanted = size * self.element_size()
        if wanted < self.nbytes():
            raise _C.NotImplementedError(f"resize_: a storage of {self.nbytes()} bytes cannot shrink to {wanted}: tensors may look "
                                         "at its end. Make a clone of the part that is needed.")
        _C._grow_storage(self._any, wanted)
        return self

    def share_memory_(self):
        """Moves the bytes into memory that processes share."""
        _C._share(self._any)
        return self

    def is_shared(self):
        return _C._is_shared(self._any)

    def fill_(self, value):
        self._all.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._all.copy_(source._all)
        return self

    def clone(self):
        return type(self)(self._all.clone())

    def tolist(self):
        return self._all.tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, i):
        return self._all[i].item() if isinstance(i, int) else self._all[i].tolist()

    def __setitem__(self, i, value):
        self._all[i] = value

    def __repr__(self):
        values = "".join(f" {b}\n" for b in self.tolist())
        return f"{values}[torch.storage.UntypedStorage(device=cpu) of size {self.size()}]"


class TypedStorage(UntypedStorage):
    """The elements behind a tensor."""

    @property
    def dtype(self):
        return self._any.dtype

    @property
    def _all(self):
        return _C._storage_view(self._any, self.dtype, 0, [self.nbytes() // self.dtype.itemsize], [1])

    def size(self):
        return self._all.numel()

    def untyped(self):
        return UntypedStorage(self._any)

    def __repr__(self):
        values = "".join(f" {v}\n" for v in self.tolist())
        return f"{values}[torch.storage.TypedStorage(dtype={self.dtype}, device=cpu) of size {self.size()}]"


def install():
    """Adds storage() and untyped_storage() to the Tensor type."""
    Tensor.storage = lambda self: TypedStorage(self)
    Tensor.untyped_storage = lambda self: UntypedStorage(self)
