"""torch.optim.swa_utils: averages of a model's parameters over training, and the schedule that goes with them."""
from copy import deepcopy
import math

from .. import _C
from ..autograd.forward_modes import no_grad
from ..nn.modules.module import Module
from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "SWALR", "update_bn", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn"]


def get_ema_avg_fn(decay=0.999):
    """An average that forgets: decay * average + (1 - decay) * new."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(averaged, current, num_averaged):
        return decay * averaged + (1 - decay) * current
    return average


def get_swa_avg_fn():
    """The plain mean of all."""
    def average(averaged, current, num_averaged):
        return averaged + (current - averaged) / (num_averaged + 1)
    return average


def _of_lists(function):
    @no_grad()
    def average(averaged, current, num_averaged):
        for a, c in zip(averaged, current):
            a.copy_(function(a, c, num_averaged))
    return average


def get_ema_multi_avg_fn(decay=0.999):
    """get_ema_avg_fn for lists of parameters, in place."""
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn():
    """get_swa_avg_fn for lists of parameters, in place."""
    return _of_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages; update_parameters(model) takes in the present ones."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", _C._make_tensor(0, _C.int64))
        self._average = multi_avg_fn or _of_lists(avg_fn or get_swa_avg_fn())
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _values(self, model):
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    @no_grad()
    def update_parameters(self, model):
        """Takes the present parameters into the average; the first ones become it."""
        own, given = self._values(self.module), [t.detach() for t in self._values(model)]
        if self.n_averaged.item() == 0:
            for a, c in zip(own, given):
                a.detach().copy_(c)
        else:
            floating = [(a.detach(), c) for a, c in zip(own, given) if a.is_floating_point()]
            self._average([a for a, _ in floating], [c for _, c in floating], self.n_averaged)
            for a, c in zip(own, given):
                if not a.is_floating_point():
                    a.copy_(c)
        if not self.use_buffers:  # statistics are not averaged: the present ones
            for a, c in zip(self.module.buffers(), model.buffers()):
                a.detach().copy_(c.detach())
        self.n_averaged += 1


@no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of batch normalisation anew, over a loader."""
    norms = [m for m in model.modules() if hasattr(m, "running_mean") and hasattr(m, "momentum")]
    if not norms:
        return
    before, training = [m.momentum for m in norms], model.training
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # the plain mean of all batches
    model.train()
    for batch in loader:
        model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for m, momentum in zip(norms, before):
        m.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From the present rate to swa_lr within anneal_epochs."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self):
        # Other schedules may have moved the rate: the part that is already blended in is taken out first.
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            own = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + own * (1 - now))
        return rates
