"""torch.nn.utils.parametrize: a parameter of a module computed from other ones by modules, whenever it is read."""
from contextlib import contextmanager

from ..._tensor import Tensor
from ...autograd.forward_modes import no_grad
from ..modules.container import ModuleDict, ModuleList
from ..parameter import Parameter

_caching = 0
_cache: dict = {}


@contextmanager
def cached():
    """Within it a parametrized tensor is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, in order, and what they compute it from: original, or original0, original1…"""

    def __init__(self, modules, original):
        super().__init__(modules)
        value = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            self._keep("original", value, original)
        else:
            self.ntensors = len(value)
            for i, part in enumerate(value):
                self._keep(f"original{i}", part, original)

    def _keep(self, name, value, like):
        if isinstance(like, Parameter):
            value = like if value is like else Parameter(value.detach().clone(), like.requires_grad)
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Sets what it computes from, so that it computes this value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            for own, new in zip(self._originals(), [value] if self.is_tensor else value):
                own.detach().copy_(new)

    def forward(self):
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _read(name):
    def get(self):
        if not _caching:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]
    return get


def _parametrized(module):
    """Gives the module a class of its own, in which parametrized names are properties."""
    base = type(module)

    def __setattr__(self, name, value):
        if name in self.__dict__.get("_modules", {}).get("parametrizations", {}):
            self.parametrizations[name].right_inverse(value)
        else:
            base.__setattr__(self, name, value)

    module.__class__ = type(f"Parametrized{base.__name__}", (base,), {"__setattr__": __setattr__, "__module__": base.__module__})
    module.parametrizations = ModuleDict()


def is_parametrized(module, tensor_name=None):
    """Whether a tensor of the module, or any, is parametrized."""
    parts = module._modules.get("parametrizations")
    if parts is None or not hasattr(type(module), "__setattr__"):
        return False
    return len(parts) > 0 if tensor_name is None else tensor_name in parts


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on module.tensor_name is parametrization(original); several are applied in order."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parts = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        if not unsafe:
            _check(parametrization, before.detach(), tensor_name)
        if hasattr(parametrization, "right_inverse"):
            parts.right_inverse(parametrization.right_inverse(before.detach()))
        parts.append(parametrization)
        return module
    original = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if original is None:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    if not unsafe and not hasattr(parametrization, "right_inverse"):
        _check(parametrization, original.detach(), tensor_name)
    parts = ParametrizationList([parametrization], original)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _parametrized(module)
    module.parametrizations[tensor_name] = parts
    setattr(type(module), tensor_name, property(_read(tensor_name)))
    return module


def _check(parametrization, value, name):
    """A parametrization keeps sizes and dtype, so that the module goes on working."""
    with no_grad():
        made = parametrization(value)
    if not isinstance(made, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
    if made.shape != value.shape or made.dtype != value.dtype:
        raise ValueError(f"Registering a parametrization may not change the shape or dtype of the tensor unless unsafe=True: "
                         f"{name} has {list(value.shape)} {value.dtype}, the parametrization gave {list(made.shape)} "
                         f"{made.dtype}.")


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Back to a plain tensor: the computed value, or the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parts = module.parametrizations[tensor_name]
    originals = parts._originals()
    if not leave_parametrized and not parts.is_tensor:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
                         "sequence of tensors.")
    with no_grad():
        value = getattr(module, tensor_name).detach() if leave_parametrized else originals[0].detach()
    learnt = isinstance(originals[0], Parameter)
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module._modules["parametrizations"]
        module.__class__ = type(module).__bases__[0]
    if learnt:
        module.register_parameter(tensor_name, Parameter(value.clone(), originals[0].requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    return module


def type_before_parametrizations(module):
    """The module's class without parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
           "type_before_parametrizations"]
