"""Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop: written with ops, a few a parameter. The common ones are in algorithms.py."""
from .. import _C
from .optimizer import Optimizer, check, zeros_like

_F = _C.functions


def _check_all(**values):
    for name, value in values.items():
        check(name.replace("_", " ") if name == "learning_rate" else f"{name} value", value)


def _check_betas(betas):
    check("beta parameter at index 0", betas[0], 0.0, 1.0)
    check("beta parameter at index 1", betas[1], 0.0, 1.0)


def _count(state):
    """The number of this step; kept as PyTorch keeps it, a tensor of one float."""
    state["step"] += 1
    return state["step"].item()


def _new_count():
    return _F["zeros"]((), dtype=_C.float32)


def _decayed(param, grad, group):
    return grad.add(param, alpha=group["weight_decay"]) if group["weight_decay"] else grad


class Adadelta(Optimizer):
    """Steps by the gradient times the root of the running mean square of the last steps over that of the gradient."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False,
                 differentiable=False):
        _check_all(learning_rate=lr, epsilon=eps, weight_decay=weight_decay)
        check("rho value", rho, 0.0, 1.0 + 1e-300)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_new_count(), square_avg=zeros_like(param), acc_delta=zeros_like(param))
        _count(state)
        rho, eps = group["rho"], group["eps"]
        grad = _decayed(param, grad, group)
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-float(group["lr"]))


class Adamax(Optimizer):
    """Adam with the greatest recent gradient in place of the root of the mean square."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
                 differentiable=False, capturable=False):
        _check_all(learning_rate=lr, epsilon=eps, weight_decay=weight_decay)
        _check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_new_count(), exp_avg=zeros_like(param), exp_inf=zeros_like(param))
        step, (beta1, beta2) = _count(state), group["betas"]
        grad = _decayed(param, grad, group)
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_inf"].copy_(_F["maximum"](state["exp_inf"].mul_(beta2), grad.abs().add_(group["eps"])))
        param.addcdiv_(state["exp_avg"], state["exp_inf"], value=-float(group["lr"]) / (1 - beta1 ** step))


class _AdamLike(Optimizer):
    """What NAdam and RAdam share: the two running means, and a decay beside or within the gradient."""

    def _moments(self, param, grad, state, group):
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - float(group["lr"]) * group["weight_decay"])
            else:
                grad = grad.add(param, alpha=group["weight_decay"])
        state["exp_avg"].lerp_(grad, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        return grad


class NAdam(_AdamLike):
    """Adam with Nesterov's momentum."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False, capturable=False, differentiable=False):
        _check_all(learning_rate=lr, epsilon=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        _check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_new_count(), mu_product=_F["ones"]((), dtype=_C.float32), exp_avg=zeros_like(param),
                         exp_avg_sq=zeros_like(param))
        step, (beta1, beta2), rate = _count(state), group["betas"], float(group["lr"])
        grad = self._moments(param, grad, state, group)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        next_mu = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
        state["mu_product"] *= mu
        product = state["mu_product"].item()
        below = state["exp_avg_sq"].div(1 - beta2 ** step).sqrt_().add_(group["eps"])
        param.addcdiv_(grad, below, value=-rate * (1 - mu) / (1 - product))
        param.addcdiv_(state["exp_avg"], below, value=-rate * next_mu / (1 - product * next_mu))


class RAdam(_AdamLike):
    """Adam whose first steps, while the mean square is not to be trusted, go without it."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        _check_all(learning_rate=lr, epsilon=eps, weight_decay=weight_decay)
        _check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_new_count(), exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
        step, (beta1, beta2), rate = _count(state), group["betas"], float(group["lr"])
        self._moments(param, grad, state, group)
        left = 1 - beta2 ** step
        most = 2 / (1 - beta2) - 1
        length = most - 2 * step * (beta2 ** step) / left
        scaled = state["exp_avg"].div(1 - beta1 ** step)
        if length <= 5:
            param.add_(scaled, alpha=-rate)
            return
        rectified = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) ** 0.5
        param.addcdiv_(scaled, state["exp_avg_sq"].sqrt().add_(group["eps"]), value=-rate * rectified * left ** 0.5)


class ASGD(Optimizer):
    """Stochastic gradient descent that also keeps the average of the parameters ("ax" of the state)."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _check_all(learning_rate=lr, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        rate = float(group["lr"])
        if not state:
            state.update(step=_new_count(), eta=_C._make_tensor(rate), mu=_F["ones"]((), dtype=_C.float32),
                         ax=zeros_like(param))
        step = _count(state)
        grad = _decayed(param, grad, group)
        eta, mu = state["eta"].item(), state["mu"].item()
        param.mul_(1 - group["lambd"] * eta)
        param.add_(grad, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(param)
        else:
            state["ax"].add_(param.sub(state["ax"]).mul_(mu))
        state["eta"] = _C._make_tensor(rate / (1 + group["lambd"] * rate * step) ** group["alpha"])
        state["mu"] = _C._make_tensor(1 / max(1.0, step - group["t0"]))


class Rprop(Optimizer):
    """Steps by the gradient's sign alone, larger while it keeps its sign, smaller when it changes."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        _check_all(learning_rate=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_new_count(), prev=zeros_like(param), step_size=_F["full_like"](param, float(group["lr"])).detach())
        _count(state)
        (low, high), (least, most) = group["etas"], group["step_sizes"]
        turned = grad * state["prev"]
        factor = _F["where"](turned > 0, high, _F["where"](turned < 0, low, 1.0)).to(param.dtype)
        state["step_size"].mul_(factor).clamp_(least, most)
        grad = grad.masked_fill(turned < 0, 0)
        param.addcmul_(grad.sign(), state["step_size"], value=-1)
        state["prev"].copy_(grad)
