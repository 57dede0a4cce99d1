"""DLPack capsules."""
from .._functions import from_dlpack, to_dlpack  # noqa: F401
