"""SGD, Adam, AdamW, RMSprop, Adagrad: a step of each is one op a parameter."""
from .. import _C
from .optimizer import Optimizer, check, new_step, zeros_like

_F = _C.functions


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False,
                 foreach=None, differentiable=False, fused=None):
        check("learning rate", lr)
        check("momentum value", momentum)
        check("weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach, differentiable=differentiable,
                                      fused=fused))

    def _update(self, param, grad, state, group, lr):
        buffer, first = state.get("momentum_buffer"), False
        if group["momentum"] and buffer is None:
            buffer, first = zeros_like(param), True
            state["momentum_buffer"] = buffer
        _F["sgd_step"](param, grad, buffer, lr, momentum=group["momentum"], dampening=group["dampening"],
                       weight_decay=group["weight_decay"], nesterov=group["nesterov"], first=first)


class Adam(Optimizer):
    """Adam: steps by the running mean of the gradient over the root of that of its square."""
    _decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        check("learning rate", lr)
        check("epsilon value", eps)
        check("beta parameter at index 0", betas[0], 0.0, 1.0)
        check("beta parameter at index 1", betas[1], 0.0, 1.0)
        check("weight_decay value", weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable,
                                      fused=fused, decoupled_weight_decay=decoupled_weight_decay or self._decoupled))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=new_step(), exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(param)
        beta1, beta2 = group["betas"]
        _F["adam_step"](param, grad, state["exp_avg"], state["exp_avg_sq"], state.get("max_exp_avg_sq"), state["step"], lr,
                        beta1=beta1, beta2=beta2, eps=group["eps"], weight_decay=group["weight_decay"],
                        decoupled=group["decoupled_weight_decay"])


class AdamW(Adam):
    """Adam with the weight decay apart from the gradient."""
    _decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False,
                 foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused)


class RMSprop(Optimizer):
    """Steps by the gradient over the root of the running mean of its square."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False,
                 foreach=None, maximize=False, differentiable=False):
        for name, value in (("learning rate", lr), ("epsilon value", eps), ("momentum value", momentum),
                            ("weight_decay value", weight_decay), ("alpha value", alpha)):
            check(name, value)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable))

    def _update(self, param, grad, state, group, lr):
        if not state:
            state.update(step=new_step(), square_avg=zeros_like(param))
            if group["momentum"]:
                state["momentum_buffer"] = zeros_like(param)
            if group["centered"]:
                state["grad_avg"] = zeros_like(param)
        _F["rmsprop_step"](param, grad, state["square_avg"], state.get("grad_avg"), state.get("momentum_buffer"),
                           state["step"], lr, alpha=group["alpha"], eps=group["eps"], weight_decay=group["weight_decay"],
                           momentum=group["momentum"])


class Adagrad(Optimizer):
    """Steps by the gradient over the root of the sum of its squares."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *,
                 maximize=False, differentiable=False, fused=None):
        for name, value in (("learning rate", lr), ("lr_decay value", lr_decay), ("weight_decay value", weight_decay),
                            ("initial_accumulator_value value", initial_accumulator_value), ("epsilon value", eps)):
            check(name, value)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, fused=fused))
        with _C._MemoryCategory("optimizer"):
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p] = {"step": new_step(),
                                     "sum": _F["full_like"](p, group["initial_accumulator_value"]).detach()}

    def _update(self, param, grad, state, group, lr):
        _F["adagrad_step"](param, grad, state["sum"], state["step"], lr, lr_decay=group["lr_decay"],
                           weight_decay=group["weight_decay"], eps=group["eps"])
