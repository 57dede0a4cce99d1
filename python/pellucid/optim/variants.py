"""Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop: a step of each is one op a parameter. The common ones are in algorithms.py."""
from .. import _C
from .optimizer import Optimizer, check, zeros_like

_F = _C.functions


def _check_all(**values):
    for name, value in values.items():
        check(name.replace("_", " ") if name == "learning_rate" else f"{name} value", value)


def _check_betas(betas):
    check("beta parameter at index 0", betas[0], 0.0, 1.0)
    check("beta parameter at index 1", betas[1], 0.0, 1.0)


def _number(value):
    """A number that a step keeps, as PyTorch keeps it: a tensor of one float, wide where the program computes in float64."""
    return _C._make_tensor(float(value), _C.float64 if _C.get_default_dtype() == _C.float64 else _C.float32)


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
            state.update(step=_number(0), square_avg=zeros_like(param), acc_delta=zeros_like(param))
        _F["adadelta_step"](param, grad, state["square_avg"], state["acc_delta"], state["step"], lr, rho=group["rho"],
                            eps=group["eps"], weight_decay=group["weight_decay"])


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
            state.update(step=_number(0), exp_avg=zeros_like(param), exp_inf=zeros_like(param))
        beta1, beta2 = group["betas"]
        _F["adamax_step"](param, grad, state["exp_avg"], state["exp_inf"], state["step"], lr, beta1=beta1, beta2=beta2,
                          eps=group["eps"], weight_decay=group["weight_decay"])


class NAdam(Optimizer):
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
            state.update(step=_number(0), mu_product=_number(1), exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
        beta1, beta2 = group["betas"]
        _F["nadam_step"](param, grad, state["exp_avg"], state["exp_avg_sq"], state["mu_product"], state["step"], lr, beta1=beta1,
                         beta2=beta2, eps=group["eps"], weight_decay=group["weight_decay"],
                         decoupled=group["decoupled_weight_decay"], momentum_decay=group["momentum_decay"])


class RAdam(Optimizer):
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
            state.update(step=_number(0), exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
        beta1, beta2 = group["betas"]
        _F["radam_step"](param, grad, state["exp_avg"], state["exp_avg_sq"], state["step"], lr, beta1=beta1, beta2=beta2,
                         eps=group["eps"], weight_decay=group["weight_decay"], decoupled=group["decoupled_weight_decay"])


class ASGD(Optimizer):
    """Stochastic gradient descent that also keeps the average of the parameters ("ax" of the state)."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        _check_all(learning_rate=lr, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=_number(0), eta=_number(group["lr"]), mu=_number(1), ax=zeros_like(param))
        _F["asgd_step"](param, grad, state["ax"], state["eta"], state["mu"], state["step"], lr, lambd=group["lambd"],
                        alpha=group["alpha"], t0=group["t0"], weight_decay=group["weight_decay"])


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
            state.update(step=_number(0), prev=zeros_like(param), step_size=_F["full_like"](param, float(group["lr"])).detach())
        (low, high), (least, most) = group["etas"], group["step_sizes"]
        _F["rprop_step"](param, grad, state["prev"], state["step_size"], state["step"], eta_minus=low, eta_plus=high,
                         step_min=least, step_max=most)
