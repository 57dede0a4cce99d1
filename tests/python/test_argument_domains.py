"""Arguments outside their domain are refused where PyTorch refuses them: nothing is silently accepted. Values are compared too."""
import warnings

import pytest

import pellucid
import pellucid.distributions
import pellucid.linalg
import pellucid.nn.utils.rnn
import pellucid.optim.swa_utils
import pellucid.special
import pellucid.utils.data

import argument_domains

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
pytest.importorskip("torch.distributions")
pytest.importorskip("torch.optim.swa_utils")

# Names that are not there raise too, and so say nothing about the domain.
MISSING = ("has no attribute", "not there")


def names(library):
    """What the expressions use, with the same values in both libraries."""
    x = library.arange(12, dtype=library.float32).reshape(4, 3).mul(0.37).sin()
    a = library.arange(60, dtype=library.float32).reshape(4, 3, 5).mul(0.61).cos()
    q = library.ones(2, requires_grad=True)
    q.grad = library.tensor([float("inf"), 1.0])
    return {"torch": library, "nn": library.nn, "F": library.nn.functional, "x": x, "a": a, "q": q,
            "p": library.ones(3, requires_grad=True)}


def attempt(expression, library):
    """(result, error)"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return eval(expression, names(library)), None
    except Exception as e:
        return None, e


@pytest.mark.parametrize("kind", ["LAYERS", "OPTIMISERS", "SCHEDULES", "DISTRIBUTIONS", "FUNCTIONS"])
def test_what_pytorch_refuses_is_refused(kind):
    accepted, refused = [], 0
    for expression in getattr(argument_domains, kind):
        _, theirs = attempt(expression, torch)
        _, ours = attempt(expression, pellucid)
        if theirs is None:
            continue
        refused += 1
        if ours is None:
            accepted.append(f"{expression}   # PyTorch: {type(theirs).__name__}: {str(theirs).splitlines()[0][:80] if str(theirs) else ''}")
    assert not accepted, f"{len(accepted)} of {refused} calls are accepted:\n" + "\n".join(accepted)
    assert refused > 20
