"""Optimizer: parameter groups, state by parameter, steps by ops."""
import functools
from collections import defaultdict
from copy import deepcopy

from .. import _C
from .._tensor import RemovableHandle, Tensor
from ..autograd.forward_modes import enable_grad

_F = _C.functions
_OPTIMIZER = 5  # EventKind::Optimizer


class _Step:
    """A step in profiles: its time is the optimiser's, and so is the memory that it takes."""

    def __init__(self, optimizer):
        self._name = f"Optimizer.step#{type(optimizer).__name__}.step"
        self._category = _C._MemoryCategory("optimizer")

    def __enter__(self):
        self._recorded = _C._profile_recording()
        if self._recorded:
            _C._profile_begin(_OPTIMIZER, self._name)
        self._category.__enter__()

    def __exit__(self, kind, value, traceback):
        self._category.__exit__(kind, value, traceback)
        if self._recorded:
            _C._profile_end(kind is not None)


def _as_step(function):
    """A step that a subclass wrote itself. What its closure makes is not the optimiser's."""
    @functools.wraps(function)
    def step(self, *args, **kwargs):
        if getattr(self, "_stepping", False):  # called by a subclass's own
            return function(self, *args, **kwargs)

        def outside(value):
            if not callable(value):
                return value

            @functools.wraps(value)
            def closure(*inner, **named):
                with _C._MemoryCategory("other"):
                    return value(*inner, **named)
            return closure

        self._stepping = True
        try:
            with _Step(self):
                return function(self, *map(outside, args), **{k: outside(v) for k, v in kwargs.items()})
        finally:
            self._stepping = False
    return step


class Optimizer:
    """The base of the optimisers. A subclass gives its defaults and `_update(param, grad, state, group, lr)`."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if callable(cls.__dict__.get("step")):
            cls.step = _as_step(cls.__dict__["step"])

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
        if param_group.get("differentiable", self.defaults.get("differentiable")):
            raise _C.NotImplementedError(f"{type(self).__name__}: differentiable=True is not there: a step is one op that keeps no "
                                         "history. Write the update with ops on tensors, or use torch.func.")
        if isinstance(params, (set, frozenset)):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                            "sets will change between runs. Please use a list instead.")
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
            with _Step(self):
                self._update_all()
        finally:
            _C._set_grad_enabled(before)
        for hook in list(self._hooks["post"].values()):
            hook(self, (closure,), {})
        return loss

    def _options(self):
        """What a sealed step was made for. It reads the rates anew: numbers, and what a tensor holds."""
        found = [id(hook) for hooks in self._hooks.values() for hook in hooks.values()]
        for group in self.param_groups:
            lr = group["lr"]
            found += [len(group["params"]), id(lr) if isinstance(lr, Tensor) else None]
            for name, value in group.items():
                if name not in ("params", "lr", "initial_lr"):
                    found.append(value if type(value) in (float, int, bool, tuple, type(None)) else repr(value))
        return tuple(found)

    def _update_all(self):
        sealing = _C._is_sealing()
        if sealing:
            _C._assume(self._options)
        for i, group in enumerate(self.param_groups):
            lr = group["lr"]
            if not isinstance(lr, Tensor):
                lr = _C._live_number(lambda i=i: float(self.param_groups[i]["lr"])) if sealing else _F["full"]((), lr, dtype=_C.float64)
            for p in group["params"]:
                grad = p.grad
                if grad is not None:
                    self._update(p, -grad if group.get("maximize") else grad, self.state[p], group, lr)

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
        with _C._MemoryCategory("optimizer"):
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
    """The count of steps, which the ops read and count up."""
    return _F["zeros"]((), dtype=_C.int64)
