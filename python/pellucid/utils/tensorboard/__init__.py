"""torch.utils.tensorboard: SummaryWriter, whose files TensorBoard reads. Neither TensorBoard nor protobuf is needed."""
from .writer import SummaryWriter  # noqa: F401
