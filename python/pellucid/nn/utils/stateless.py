"""torch.nn.utils.stateless: functional_call under its old name."""
from ...func import functional_call  # noqa: F401
