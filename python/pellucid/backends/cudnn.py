"""torch.backends.cudnn: the switches that programs set; there is nothing behind them."""
enabled = benchmark = False
deterministic = True


def is_available():
    """False: pellucid runs on the CPU."""
    return False


def version():
    """None: it is not there."""
    return None
