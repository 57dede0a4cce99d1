"""Schedules of the learning rate. Most are functions of the epoch, so that a resumed run has the same numbers; where a rate
was changed in between, by hand or by another schedule, they multiply it by what they would have changed it by."""
import math
from bisect import bisect_right
from collections import Counter

from .optimizer import Optimizer


class LRScheduler:
    """The base: a subclass gives get_lr() from base_lrs and last_epoch."""

    _chains = False  # whether a step multiplies a rate that something else has changed meanwhile, instead of overwriting it

    def __init__(self, optimizer, last_epoch=-1, verbose=None):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", group["lr"])
        elif any("initial_lr" not in g for g in optimizer.param_groups):
            raise KeyError("param 'initial_lr' is not specified in param_groups when resuming an optimizer")
        self.base_lrs = [g["initial_lr"] for g in optimizer.param_groups]
        self.last_epoch, self._step_count = last_epoch, 0
        self._own = list(self.base_lrs) if last_epoch == -1 else None  # what it would have set without the others
        self.step()

    def get_lr(self):
        raise NotImplementedError

    def get_last_lr(self):
        return self._last_lr

    def step(self, epoch=None):
        """Goes on to the next epoch, or to the given one."""
        self._step_count += 1
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = self.get_lr()
        if self._chains:
            own, self._own = self._own, rates
            if epoch is None and own is not None:
                rates = [new if lr == old or not old else lr * (new / old) for lr, old, new in zip(self._current(), own, rates)]
        self._set(rates)

    def _set(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def _current(self):
        return [g["lr"] for g in self.optimizer.param_groups]

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas", "_schedulers", "_scale_fn")}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


def _check_count(name, value):
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def _for_each_group(name, optimizer, value):
    """A value for each group of parameters, from one for all or a list of them."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
                         f"param_groups has {count}.")
    return list(value)


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1, verbose=None):
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(LambdaLR):
    """The last rate times a function of the epoch."""

    def get_lr(self):
        if self.last_epoch <= 0:
            return self._current()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._current())]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""
    _chains = True

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1, verbose=None):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""
    _chains = True

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1, verbose=None):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """A factor for the first epochs."""
    _chains = True

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1, verbose=None):
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * (self.factor if self.last_epoch < self.total_iters else 1) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From one factor to another over the first epochs."""
    _chains = True

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1, verbose=None):
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        done = min(self.last_epoch, self.total_iters) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * done) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""
    _chains = True

    def __init__(self, optimizer, gamma, last_epoch=-1, verbose=None):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Down to zero by a power of what is left."""
    _chains = True

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1, verbose=None):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        left = 1 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to eta_min."""
    _chains = True

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1, verbose=None):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        half = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines, each T_mult times as long as the one before."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1, verbose=None):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        at, length = self.last_epoch, self.T_0
        if not 0 <= at < math.inf:
            raise ValueError(f"Expected non-negative epoch, but got {at}")
        if self.T_mult == 1:
            at %= length
        while at >= length:
            at, length = at - length, length * self.T_mult
        half = (1 + math.cos(math.pi * at / length)) / 2
        return [self.eta_min + (base - self.eta_min) * half for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up to max_lr and down again, once; momentum the other way round."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1, verbose=None):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if total_steps is None:
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        else:
            _check_count("total_steps", total_steps)
        self.total_steps = total_steps
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        n = self.total_steps
        up = float(pct_start * n) - 1
        ends = [up, 2 * up, n - 1] if three_phase else [up, n - 1]
        self._phases = list(zip([0.0, *ends], ends))
        self._names = (["initial_lr", "max_lr", "initial_lr", "min_lr"] if three_phase else ["initial_lr", "max_lr", "min_lr"])
        self.anneal_strategy, self.cycle_momentum = anneal_strategy, cycle_momentum
        for group, high in zip(optimizer.param_groups, _for_each_group("max_lr", optimizer, max_lr)):
            group["initial_lr"], group["max_lr"] = high / div_factor, high
            group["min_lr"] = group["initial_lr"] / final_div_factor
            if cycle_momentum:
                group["max_momentum"], group["base_momentum"] = max_momentum, base_momentum
        super().__init__(optimizer, last_epoch)

    def _between(self, a, b, done):
        if self.anneal_strategy == "linear":
            return a + (b - a) * done
        return b + (a - b) / 2 * (1 + math.cos(math.pi * done))

    def get_lr(self):
        if self.last_epoch >= self.total_steps + 1:
            raise ValueError(f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            for i, (start, end) in enumerate(self._phases):
                if self.last_epoch <= end or i == len(self._phases) - 1:
                    done = (self.last_epoch - start) / (end - start)
                    rates.append(self._between(group[self._names[i]], group[self._names[i + 1]], done))
                    if self.cycle_momentum:
                        self._set_momentum(group, i, done)
                    break
        return rates

    def _set_momentum(self, group, phase, done):
        names = ["max_momentum", "base_momentum", "max_momentum", "max_momentum"]
        value = self._between(group[names[phase]], group[names[phase + 1]], done)
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        elif "momentum" in group:
            group["momentum"] = value


class SequentialLR(LRScheduler):
    """One schedule after another."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1, verbose=None):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                             f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones "
                             f"to be equal to {len(milestones)}")
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for s in schedulers:
            s.last_epoch -= 1
        schedulers[0].step(0)
        self._last_lr = schedulers[0].get_last_lr()

    def step(self):
        self.last_epoch += 1
        which = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[which]
        if which and self._milestones[which - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "_last_lr": self._last_lr, "_milestones": self._milestones,
                "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for s, own in zip(state.pop("_schedulers"), self._schedulers):
            own.load_state_dict(s)
        self.__dict__.update(state)


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a measure has not improved for `patience` epochs."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0,
                 min_lr=0, eps=1e-8, verbose=None):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"mode {mode} or threshold mode {threshold_mode} is unknown!")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = _for_each_group("min_lr", optimizer, min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = self._current()

    def is_better(self, a, best):
        margin = abs(best) * self.threshold if self.threshold_mode == "rel" and math.isfinite(best) else self.threshold
        return a < best - margin if self.mode == "min" else a > best + margin

    def step(self, metrics, epoch=None):
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, low in zip(self.optimizer.param_groups, self.min_lrs):
                new = max(group["lr"] * self.factor, low)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()


class ChainedScheduler(LRScheduler):
    """Several schedules at once, each applied to what the one before left."""

    def __init__(self, schedulers, optimizer=None):
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self.optimizer, self._schedulers = optimizer or schedulers[0].optimizer, list(schedulers)
        self._last_lr = self._current()

    def step(self):
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()

    def state_dict(self):
        return {"_last_lr": self._last_lr, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict):
        for s, own in zip(state_dict["_schedulers"], self._schedulers):
            own.load_state_dict(s)
        self._last_lr = state_dict["_last_lr"]


class CyclicLR(LRScheduler):
    """Up and down between two rates; momentum the other way round."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular", gamma=1.0,
                 scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8, max_momentum=0.9, last_epoch=-1):
        spread = lambda name, value: _for_each_group(name, optimizer, value)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.max_lrs, self.cycle_momentum = spread("max_lr", max_lr), cycle_momentum
        if cycle_momentum and not any(k in optimizer.defaults for k in ("momentum", "betas")):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.base_momentums = spread("base_momentum", base_momentum)
        self.max_momentums = spread("max_momentum", max_momentum)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, spread("base_lr", base_lr)):
                group["lr"] = group["initial_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _scale(self, at):
        if self._scale_fn is not None:
            return self._scale_fn(at)
        return {"triangular": 1.0, "triangular2": 1 / 2.0 ** (at - 1), "exp_range": self.gamma ** at}[self.mode]

    def get_lr(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1 + self.last_epoch / self.total_size - cycle
        height = place / self.step_ratio if place <= self.step_ratio else (place - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                value = high - (high - low) * height
                if "betas" in group:
                    group["betas"] = (value, *group["betas"][1:])
                else:
                    group["momentum"] = value
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs)]
