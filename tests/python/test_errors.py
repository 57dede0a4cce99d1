"""Exceptions: each class of the library arrives in Python as itself, under the names by which programs for PyTorch catch it."""
import pathlib
import re

import pytest

import pellucid as torch
from pellucid import _C

HEADER = pathlib.Path(__file__).parents[2] / "include" / "pellucid" / "error.h"


def read_while_counted():
    with torch.profiler.estimate():
        torch.ones(1).item()


# For each class of the library something that raises it, and the builtin that it also is.
RAISES = {
    "ShapeError": (lambda: torch.ones(2) + torch.ones(3), RuntimeError),
    "TypeError": (lambda: torch.ones(2) << 1, TypeError),
    "IndexError": (lambda: torch.ones(2)[torch.tensor([2])], IndexError),
    "ValueError": (lambda: torch.tensor([-1]).bincount(), ValueError),
    "LinAlgError": (lambda: torch.linalg.cholesky(-torch.eye(2)), RuntimeError),
    "OutOfMemoryError": (lambda: torch.ones(10**14), MemoryError),
    "NotImplementedError": (read_while_counted, NotImplementedError),
    "IoError": (lambda: torch.load(__file__), OSError),
    "AutogradError": (lambda: torch.ones(2).sum().backward(), RuntimeError),
}


def test_every_class_of_the_library_arrives_as_itself():
    assert set(RAISES) == set(re.findall(r"class PELLUCID_API (\w+) : public Error", HEADER.read_text()))
    for name, (f, builtin) in RAISES.items():
        with pytest.raises(getattr(_C, name)) as caught:
            f()
        assert type(caught.value) is getattr(_C, name), name
        assert isinstance(caught.value, (torch.Error, builtin)) and isinstance(caught.value, builtin)


def test_names_of_pytorch():
    assert torch.linalg.LinAlgError is torch.LinAlgError and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert not issubclass(torch.LinAlgError, ValueError)


@pytest.mark.parametrize("f", [
    torch.linalg.cholesky, torch.linalg.inv, lambda a: torch.linalg.solve(a, a), torch.inverse,
    lambda a: torch.linalg.eigh(a / 0), lambda a: torch.linalg.svd(a / 0)])
def test_matrices_without_a_factor(f):
    with pytest.raises(torch.linalg.LinAlgError):
        f(torch.zeros(2, 2))
