"""How tensors are copied, pickled and sent to other processes, with what they share kept: each storage travels once.

A pickle holds the bytes of a storage. What multiprocessing sends holds a descriptor instead: the storage moves into memory that
processes share, as in PyTorch, and the receiver maps the same memory. A memory file has no name, so nothing is left behind when
a process is killed.
"""
import os
import time
import weakref
from multiprocessing import reduction

from . import _C
from ._tensor import Tensor

# A storage up to this size is sent along with its descriptor, for a receiver that asks when the sender has ended.
_ALONG = 64 << 10
_PRIVATE = ("_accumulator",)  # attributes that belong to this process


class _Storage:
    """A storage while it is pickled. There is one for each storage at a time, so that pickle writes it once."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return _storage_from_bytes, (_C._storage_copy(self.data),)


class _SharedStorage(_Storage):
    """The same on its way to another process."""

    def __reduce__(self):
        size = self.data.numel()
        along = _C._storage_copy(self.data) if size <= _ALONG else None
        return _storage_from_descriptor, (_descriptor(_C._shared_file(self.data), along is not None), size, along)


_pickled: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_sent: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def _one(kind, known, tensor):
    key = tensor._storage_key()
    found = known.get(key)
    if found is None:
        found = known[key] = kind(_C._storage_bytes(tensor))
    return found


_waits_in = None  # the process that will wait for its receivers
_expected: set[int] = set()  # descriptors of large storages that are still to be asked for
_PATIENCE = 10.0  # seconds


def _wait_for_receivers():
    """Lets a child process live until what it has sent has arrived, as queues do with their bytes; not for ever, nor without a
    parent."""
    from multiprocessing import parent_process, resource_sharer
    waiting, end = resource_sharer._resource_sharer._cache, time.monotonic() + _PATIENCE
    while any(key in waiting for key in _expected) and time.monotonic() < end and parent_process().is_alive():
        time.sleep(0.002)
    if _expected:
        time.sleep(0.02)  # the last one is on its way


def _expect_receiver(descriptor):
    global _waits_in
    from multiprocessing import parent_process, resource_sharer, util
    if parent_process() is None:
        return
    if _waits_in != os.getpid():
        _waits_in = os.getpid()
        _expected.clear()
        # After the threads that feed queues (-5), and before the socket's name goes, which multiprocessing would remove first.
        util.Finalize(None, _wait_for_receivers, exitpriority=-50)
        listener = getattr(resource_sharer._resource_sharer._listener, "_listener", None)
        unlink = getattr(listener, "_unlink", None)
        if unlink is not None and unlink.still_active():
            unlink.cancel()
            util.Finalize(None, os.unlink, args=(listener._address,), exitpriority=-60)
    _expected.add(descriptor._id[1])


def _descriptor(file, along):
    from multiprocessing import context, resource_sharer
    starting = context.get_spawning_popen()
    # The fork server passes 256 descriptors at most; the rest are asked for by the child.
    if starting is not None and len(getattr(starting, "_fds", ())) < 200:
        return reduction.DupFd(file)
    descriptor = resource_sharer.DupFd(file)
    if not along:
        _expect_receiver(descriptor)
    return descriptor


def _storage_from_bytes(data):
    return _C._storage_from(data)


def _storage_from_descriptor(descriptor, size, along):
    try:
        file = descriptor.detach()
    except (OSError, EOFError) as e:
        if along is not None:  # nobody shares the memory any more
            return _storage_from_bytes(along)
        raise RuntimeError(f"a tensor of {size} bytes was not received: the process that sent it has ended. Let it live until "
                           "the tensor has arrived, or send a NumPy array.") from e
    return _C._open_shared(file, size)


def _rebuild(kind, storage, dtype, offset, size, stride, requires_grad, attributes):
    tensor = _C._storage_view(storage, dtype, offset, list(size), list(stride))
    made = Tensor.__new__(kind, tensor) if kind is not Tensor else tensor
    made.requires_grad_(requires_grad)
    made.__dict__.update(attributes)
    return made


def _attributes(tensor):
    return {k: v for k, v in tensor.__dict__.items() if k not in _PRIVATE}


def _parts(tensor, storage):
    return _rebuild, (type(tensor), storage, tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(),
                      tensor.requires_grad, _attributes(tensor))


def reduce_tensor(tensor, protocol=None):
    """Pickles a tensor: its storage once, and which part of it the tensor looks at."""
    return _parts(tensor, _one(_Storage, _pickled, tensor))


def send_tensor(tensor):
    """Pickles a tensor for another process: the memory is shared from now on."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                           "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                           "before serializing (e.g., putting it on the queue).")
    try:
        _C._share(tensor)
    except _C.ValueError:  # an array looks at the memory, so it has to stay where it is
        return reduce_tensor(tensor)
    return _parts(tensor, _one(_SharedStorage, _sent, tensor))


def deepcopy(self, memo):
    """Copies a tensor: tensors of one storage share the copy of it, as long as memo lives."""
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                           "moment; use detach() first.")
    if id(self) in memo:
        return memo[id(self)]
    import copy
    key = ("pellucid.storage", self._storage_key())
    if key not in memo:
        memo[key] = _C._storage_bytes(self).clone(), _C._storage_bytes(self)  # both live on with memo: no key comes twice
    new = _rebuild(type(self), memo[key][0], self.dtype, self.storage_offset(), self.shape, self.stride(), self.requires_grad, {})
    memo[id(self)] = new
    new.__dict__.update(copy.deepcopy(_attributes(self), memo))
    if self.grad is not None:
        new.grad = copy.deepcopy(self.grad.detach(), memo)
    return new


def share_memory_(self):
    """Moves the storage into memory that processes share; tensors that look at it follow."""
    _C._share(self)
    return self


def _register(kind, **_):
    own = "__reduce_ex__" in kind.__dict__ or "__reduce__" in kind.__dict__
    if not own:
        reduction.ForkingPickler.register(kind, send_tensor)


def install():
    """Adds what is here to the Tensor type and to multiprocessing."""
    Tensor.__reduce_ex__ = reduce_tensor
    Tensor.__deepcopy__ = deepcopy
    Tensor.share_memory_ = share_memory_
    Tensor.is_shared = lambda self: _C._is_shared(self)
    Tensor.__init_subclass__ = classmethod(_register)
    reduction.ForkingPickler.register(Tensor, send_tensor)
