"""Optimizer: parameter groups, state by parameter, steps by op records."""
from collections import defaultdict
from copy import deepcopy

from .. import _C
from .._tensor import RemovableHandle, Tensor
from ..autograd.forward_modes import enable_grad

_F = _C.functions


class Optimizer:
    """The base of the optimisers. A subclass gives its defaults and `_update(param, grad, state, group, lr)`."""

    def __init__(self, params, defaults):
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{type(params)}")
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        self._hooks = {"pre": {}, "post": {}}
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def add_param_group(self, param_group):
        """Adds parameters with options of their own."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        seen = {id(p) for g in self.param_groups for p in g["params"]}
        if seen & {id(p) for p in params}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append({**self.defaults, **param_group, "params": params})

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad = p.grad.detach().zero_()

    def step(self, closure=None):
        """Moves every parameter that has a gradient."""
        for hook in list(self._hooks["pre"].values()):
            hook(self, (closure,), {})
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        before = _C.is_grad_enabled()
        _C._set_grad_enabled(False)
        try:
            for group in self.param_groups:
                lr = group["lr"]
                if not isinstance(lr, Tensor):
                    lr = _F["full"]((), lr, dtype=_C.float64)
                for p in group["params"]:
                    grad = p.grad
                    if grad is not None:
                        self._update(p, -grad if group.get("maximize") else grad, self.state[p], group, lr)
        finally:
            _C._set_grad_enabled(before)
        for hook in list(self._hooks["post"].values()):
            hook(self, (closure,), {})
        return loss

    def _update(self, param, grad, state, group, lr):
        raise NotImplementedError

    def _register(self, kind, hook):
        key = object()
        self._hooks[kind][key] = hook
        return RemovableHandle(lambda: self._hooks[kind].pop(key, None))

    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before each step."""
        return self._register("pre", hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after each step."""
        return self._register("post", hook)

    def state_dict(self):
        """State by the parameters' numbers, and the groups' options."""
        numbers = {}
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
        groups = [{**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]}
                  for g in self.param_groups]
        return {"state": {numbers[id(p)]: dict(s) for p, s in self.state.items() if s}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict gave, for the same parameters."""
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(own["params"]) for g, own in zip(groups, self.param_groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        params = {}
        for given, own in zip(groups, self.param_groups):
            params.update(zip(given["params"], own["params"]))
            own.update({k: deepcopy(v) for k, v in given.items() if k != "params"})
        self.state = defaultdict(dict)
        for number, state in state_dict["state"].items():
            self.state[params[number]] = {k: v.clone() if isinstance(v, Tensor) else deepcopy(v) for k, v in state.items()}

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return text + ")"


def check(name, value, low=0.0, high=None):
    """Refuses an option outside its range."""
    number = value.item() if isinstance(value, Tensor) else value
    if not low <= number or (high is not None and not number < high):
        raise ValueError(f"Invalid {name}: {value}")


def zeros_like(param):
    return _F["zeros_like"](param, memory_format=_C.preserve_format)


def new_step():
    """The count of steps, which the records read and count up."""
    return _F["zeros"]((), dtype=_C.int64)
