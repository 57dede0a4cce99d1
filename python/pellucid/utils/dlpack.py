"""DLPack capsules."""
from .._functions import from_dlpack  # noqa: F401


def to_dlpack(tensor):
    """A capsule over the tensor's memory."""
    return tensor.__dlpack__()
