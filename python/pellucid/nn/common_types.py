"""torch.nn.common_types: types of sizes, for annotations."""
from typing import Union

_size_any_t = Union[int, tuple[int, ...]]
_size_1_t = Union[int, tuple[int]]
_size_2_t = Union[int, tuple[int, int]]
_size_3_t = Union[int, tuple[int, int, int]]
_ratio_2_t = Union[float, tuple[float, float]]
_ratio_3_t = Union[float, tuple[float, float, float]]
