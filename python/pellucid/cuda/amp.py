"""torch.cuda.amp: the older names of torch.amp."""
from ..amp import autocast, custom_bwd, custom_fwd, GradScaler  # noqa: F401
