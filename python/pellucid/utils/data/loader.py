"""DataLoader: batches of a data set, made ahead by threads if asked. Ops release the GIL, so threads suffice."""
import collections.abc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

from ... import _C
from .dataset import IterableDataset, Subset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler

_F = _C.functions
_WAIT = 6  # EventKind::Wait
_worker = threading.local()


class WorkerInfo:
    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset


def get_worker_info():
    """Which worker runs this, or None in the main thread."""
    return getattr(_worker, "info", None)


def default_collate(batch):
    """Examples as one batch: tensors are stacked, numbers become tensors, containers go part by part."""
    first = batch[0]
    if isinstance(first, _C.Tensor):
        return _F["stack"](list(batch))
    if isinstance(first, (bool, int)):
        return _C._make_tensor(list(batch))
    if isinstance(first, float):
        return _C._make_tensor(list(batch), _C.float64)
    if isinstance(first, (str, bytes)):
        return batch
    if hasattr(first, "__array_interface__"):
        return _F["stack"]([_C._make_tensor(b) for b in batch])
    if isinstance(first, collections.abc.Mapping):
        return type(first)({k: default_collate([b[k] for b in batch]) for k in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(list(part)) for part in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(b) != len(first) for b in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(list(part)) for part in zip(*batch)]
    if hasattr(first, "dtype") and hasattr(first, "item"):
        return _C._make_tensor([b.item() for b in batch])
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}")


def default_convert(data):
    """Arrays in an example as tensors; tuples become lists."""
    if isinstance(data, (_C.Tensor, str, bytes)):
        return data
    if hasattr(data, "__array_interface__"):
        return _C._make_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return type(data)({k: default_convert(v) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    return list(map(default_convert, data)) if isinstance(data, collections.abc.Sequence) else data


class _Batches:
    """Hands the batches on; while a profile is recorded, taking the next one is waiting for data."""

    def __init__(self, batches):
        self._inner = iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        if not _C._profile_recording():
            return next(self._inner)
        _C._profile_begin(_WAIT, "DataLoader.next")
        try:
            return next(self._inner)
        finally:
            _C._profile_end(False)


class DataLoader:
    """Batches of a data set. Iterating again begins a new epoch."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None,
                 generator=None, *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("DataLoader with IterableDataset: expected unspecified shuffle, sampler and batch_sampler options")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.num_workers, self.generator, self.worker_init_fn = num_workers, generator, worker_init_fn
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.pin_memory, self.timeout = pin_memory, timeout
        if not self._iterable:
            self.sampler = sampler or (RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset))
            if batch_sampler is None and batch_size is not None:
                batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        # A plain data set of tensors gathers a whole batch by one index for each tensor.
        self._gathers = collate_fn is None and batch_sampler is not None and self._tensors_of(dataset) is not None
        self.collate_fn = collate_fn or (default_collate if batch_size is not None or batch_sampler is not None else default_convert)

    def __class_getitem__(cls, _):
        return cls

    @staticmethod
    def _tensors_of(dataset):
        while type(dataset) is Subset:
            dataset = dataset.dataset
        return dataset.tensors if type(dataset) is TensorDataset else None

    def _gather(self, numbers):
        dataset = self.dataset
        while type(dataset) is Subset:
            numbers, dataset = [dataset.indices[i] for i in numbers], dataset.dataset
        index = _C._make_tensor(numbers, _C.int64)
        return [_F["index_select"](t, 0, index) for t in dataset.tensors]

    def _batch(self, numbers):
        if self._gathers:
            return self._gather(numbers)
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[numbers])
        if hasattr(self.dataset, "__getitems__"):
            return self.collate_fn(self.dataset.__getitems__(numbers))
        return self.collate_fn([self.dataset[i] for i in numbers])

    def _stream(self):
        if self.batch_size is None:
            yield from map(self.collate_fn, self.dataset)
            return
        examples = iter(self.dataset)
        while batch := list(itertools.islice(examples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __iter__(self):
        return _Batches(self._batches())

    def _batches(self):
        if self._iterable:
            return self._stream()
        groups = self.batch_sampler if self.batch_sampler is not None else self.sampler
        seed = int(_F["randint"](2**62, (), generator=self.generator).item())  # drawn always: workers do not change the order
        return map(self._batch, groups) if self.num_workers == 0 else self._ahead(iter(groups), seed)

    def _ahead(self, groups, seed):
        """Batches made by threads, in order, a few ahead. Each has random numbers of its own, whichever thread makes it."""
        numbers = itertools.count()

        def start():
            number = next(numbers)
            _worker.info = WorkerInfo(number, self.num_workers, seed + number, self.dataset)
            if self.worker_init_fn is not None:
                self.worker_init_fn(number)

        def make(place, group):
            _C._own_generator(seed + place)
            return self._batch(group)

        with ThreadPoolExecutor(self.num_workers, "pellucid-loader", start) as pool:
            tasks = enumerate(groups)
            waiting = collections.deque(pool.submit(make, *task)
                                        for task in itertools.islice(tasks, self.num_workers * self.prefetch_factor))
            while waiting:
                batch = waiting.popleft().result(self.timeout or None)
                waiting.extend(pool.submit(make, *task) for task in itertools.islice(tasks, 1))
                yield batch

    def __len__(self):
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
