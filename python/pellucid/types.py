"""torch.types: names for annotations."""
from typing import Union

from ._tensor import Tensor
from ._types import device as _device

Number = Union[int, float, bool]
Device = Union[_device, str, int, None]
__all__ = ["Device", "Number", "Tensor"]
