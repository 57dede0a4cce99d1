"""DistributedSampler: each of several processes gets its own part of the numbers."""
import math

from ... import _C
from ...random import Generator
from .sampler import Sampler

_F = _C.functions


class DistributedSampler(Sampler):
    """The numbers of one of num_replicas processes, the same count for each; set_epoch changes the order."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.num_replicas, self.rank, self.epoch = num_replicas or 1, rank or 0, 0  # one process unless told otherwise
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        share = len(dataset) / self.num_replicas
        self.num_samples = int(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            order = _F["randperm"](n, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            order = list(range(n))
        while len(order) < self.total_size:  # the first ones again, so that every process has as many
            order += order[:self.total_size - len(order)]
        return iter(order[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Another order for another epoch."""
        self.epoch = epoch
