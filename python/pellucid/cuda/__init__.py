"""torch.cuda: there is none; programs that ask get that answer, and what only tidies up does nothing."""
from .._C import OutOfMemoryError as OutOfMemoryError  # the error that allocations raise


def is_available():
    """False: pellucid runs on the CPU."""
    return False


is_initialized = is_bf16_supported = is_available


def device_count():
    """0: pellucid runs on the CPU."""
    return 0


def manual_seed(seed):
    """Accepted: there are no devices to seed."""


manual_seed_all = manual_seed


def empty_cache():
    """Accepted: nothing is cached on devices."""


ipc_collect = reset_peak_memory_stats = reset_max_memory_allocated = lambda device=None: None


def synchronize(device=None):
    """Accepted: every op has finished when it returns."""


def memory_allocated(device=None):
    """0: no device, no memory of its own. What tensors take is on the CPU."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def get_rng_state_all():
    """[]: there are no devices."""
    return []


def set_rng_state_all(new_states):
    """Accepted where there is nothing to set."""


def _none(*_, **__):
    raise RuntimeError("there is no CUDA device: pellucid runs on the CPU; ask torch.cuda.is_available() first.")


current_device = set_device = get_device_name = get_device_properties = get_device_capability = current_stream = _none
get_rng_state = set_rng_state = mem_get_info = memory_summary = _none


class Event:
    """Cannot be made: there is no device to time."""

    def __init__(self, *_, **__):
        _none()


class Stream(Event):
    """Cannot be made: there is no device to run on."""


def __getattr__(name):
    if name == "amp":
        import importlib
        return importlib.import_module(".amp", __name__)
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}' in pellucid, which runs on the CPU")
