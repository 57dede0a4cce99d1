"""torch.utils.data: data sets, samplers, loaders."""
from .dataset import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset, Subset, TensorDataset,  # noqa: F401
                      random_split)
from .loader import DataLoader, default_collate, default_convert, get_worker_info  # noqa: F401
from . import dataloader, dataset, sampler  # noqa: F401
from .distributed import DistributedSampler  # noqa: F401
from .sampler import (BatchSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler,  # noqa: F401
                      WeightedRandomSampler)
