"""torch.accelerator, and torch.mps and torch.xpu: there is none; programs that ask get that answer."""


def is_available():
    """False: pellucid runs on the CPU."""
    return False


def device_count():
    """0: pellucid runs on the CPU."""
    return 0


def current_accelerator(check_available=False):
    """None: pellucid runs on the CPU."""
    return None


def synchronize(device=None):
    """Accepted: ops have run when they return."""


def empty_cache():
    """Accepted: there is no memory of a device."""


def manual_seed(seed):
    """Accepted: torch.manual_seed seeds all there is."""


def __getattr__(name):
    raise AttributeError(f"pellucid has no accelerator, so no '{name}'")
