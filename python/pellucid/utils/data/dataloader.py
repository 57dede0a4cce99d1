"""torch.utils.data.dataloader: the loader under PyTorch's own file name."""
from .loader import DataLoader, default_collate, default_convert, get_worker_info  # noqa: F401
