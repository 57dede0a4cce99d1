"""PyTorch's own LBFGS source, run on pellucid's tensors, takes bit for bit the steps of pellucid's LBFGS, in float32 too: what
parts float32 runs of the two libraries is the rounding of their ops, not the algorithm."""
import inspect
import types

import pytest

import pellucid

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")


def pytorchs_lbfgs():
    source = inspect.getsource(inspect.getmodule(torch.optim.LBFGS))
    lines = [line for line in source.splitlines() if not line.startswith(("import torch", "from torch import", "from .optimizer"))]
    scope = types.ModuleType("pytorchs_lbfgs").__dict__
    scope.update(torch=pellucid, Tensor=pellucid.Tensor, Optimizer=pellucid.optim.Optimizer, ParamsT=object, _to_scalar=float)
    exec("\n".join(lines), scope)
    return scope["LBFGS"]


def path(lbfgs, dtype, **options):
    x = pellucid.tensor([-1.5, 2.0, 0.7], dtype=dtype, requires_grad=True)
    optimizer, seen = lbfgs([x], **options), []

    def closure():
        optimizer.zero_grad()
        loss = ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()
        loss.backward()
        seen.append((loss.item(), *x.tolist(), *x.grad.tolist()))
        return loss

    for _ in range(10):
        optimizer.step(closure)
    return seen


@pytest.mark.parametrize("dtype", [pellucid.float32, pellucid.float64])
@pytest.mark.parametrize("options", [dict(lr=0.01, max_iter=4), dict(lr=0.3, max_iter=6, history_size=3),
                                     dict(lr=0.01, line_search_fn="strong_wolfe"),
                                     dict(lr=1.0, max_iter=5, max_eval=6, line_search_fn="strong_wolfe")])
def test_pytorchs_lbfgs_on_our_tensors_takes_our_steps(options, dtype):
    assert path(pellucid.optim.LBFGS, dtype, **options) == path(pytorchs_lbfgs(), dtype, **options)
