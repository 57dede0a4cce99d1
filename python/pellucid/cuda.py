"""torch.cuda: there is none; programs that ask get that answer."""


def is_available():
    """False: pellucid runs on the CPU."""
    return False


def device_count():
    """0: pellucid runs on the CPU."""
    return 0


def manual_seed(seed):
    """Accepted: there are no devices to seed."""


manual_seed_all = manual_seed


def empty_cache():
    """Accepted: nothing is cached on devices."""


def synchronize(device=None):
    """Accepted: every op has finished when it returns."""


def __getattr__(name):
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}' in pellucid, which runs on the CPU")
