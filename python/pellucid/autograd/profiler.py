"""torch.autograd.profiler: the older names of torch.profiler."""
from ..profiler import EventList, FunctionEventAvg, profile, record_function

__all__ = ["EventList", "FunctionEventAvg", "profile", "record_function"]
