"""weight_norm and spectral_norm: a module's weight computed anew from other parameters before every call."""
from ... import _C
from ...autograd.forward_modes import no_grad

_F = _C.functions


def _norm_except(v, dim):
    """The norm over all dims but one, shaped to divide v by it; over all for None."""
    if dim is None:
        return _F["linalg_vector_norm"](v, 2.0)
    dims = [d for d in range(v.ndim) if d != dim % v.ndim]
    return _F["linalg_vector_norm"](v, 2.0, dims, True) if dims else v.abs()


class WeightNorm:
    """weight = g * v / |v|: length and direction as two parameters."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute(self, module):
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / _norm_except(v, self.dim))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute(module))


class SpectralNorm:
    """weight / its largest singular value, which power iteration follows from call to call."""

    def __init__(self, name, n_power_iterations, dim, eps):
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def matrix(self, weight):
        return weight.transpose(0, self.dim).flatten(1) if self.dim else weight.flatten(1)

    def unit(self, x):
        return x / _F["linalg_vector_norm"](x, 2.0).clamp(min=self.eps)

    def compute(self, module, iterate):
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = self.matrix(weight)
        if iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(self.unit(matrix.t().mv(u)))
                    u.copy_(self.unit(matrix.mv(v)))
        return weight / u.clone().dot(matrix.mv(v.clone()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute(module, module.training))


def _hook_of(module, kind, name):
    for key, hook in module._forward_pre_hooks.items():
        found = hook[0] if isinstance(hook, tuple) else hook
        if isinstance(found, kind) and found.name == name:
            return key, found
    return None, None


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into name_g, its lengths along dim, and name_v, its direction."""
    from ..parameter import Parameter
    if _hook_of(module, WeightNorm, name)[1]:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    weight, hook = getattr(module, name), WeightNorm(name, dim)
    del module._parameters[name]
    with no_grad():
        module.register_parameter(f"{name}_g", Parameter(_norm_except(weight.detach(), dim)))
        module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the weight a parameter of its own again."""
    return _remove(module, WeightNorm, "weight_norm", name, (f"{name}_g", f"{name}_v"), lambda hook: hook.compute(module))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divides a parameter by its largest singular value before every call."""
    if _hook_of(module, SpectralNorm, name)[1]:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters[name]
    with no_grad():
        rows, columns = hook.matrix(weight).shape
        u, v = (hook.unit(_F["randn"]((n,), dtype=weight.dtype)) for n in (rows, columns))
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(f"{name}_u", u)
    module.register_buffer(f"{name}_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the divided weight a parameter of its own."""
    return _remove(module, SpectralNorm, "spectral_norm", name, (f"{name}_orig", f"{name}_u", f"{name}_v"),
                   lambda hook: hook.compute(module, False))


def _remove(module, kind, word, name, parts, compute):
    from ..parameter import Parameter
    key, hook = _hook_of(module, kind, name)
    if hook is None:
        raise ValueError(f"{word} of '{name}' not found in {module}")
    with no_grad():
        weight = compute(hook).detach()
    delattr(module, name)
    for part in parts:
        delattr(module, part)
    module.register_parameter(name, Parameter(weight))
    del module._forward_pre_hooks[key]
    return module
