"""The words for how a loss is summed up."""
_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def number(reduction, size_average=None, reduce=None):
    """0, 1 or 2 for the ops; the old flags win where they are given."""
    if size_average is not None or reduce is not None:
        reduction = legacy(size_average, reduce)
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy(size_average=None, reduce=None):
    """The word for PyTorch's old flags."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"
