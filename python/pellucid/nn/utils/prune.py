"""torch.nn.utils.prune: parameters with a mask of zeros and ones. NAME becomes NAME_orig times the buffer NAME_mask."""
from ... import _C

_F = _C.functions


def _count(amount, size):
    """How many of `size` an amount means: a share or a number."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0.0, 1.0] or a non-negative integer")
    if isinstance(amount, int) and amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return round(amount * size) if isinstance(amount, float) else amount


class BasePruningMethod:
    """A way to choose what goes. A subclass gives compute_mask(t, default_mask) and PRUNING_TYPE."""
    PRUNING_TYPE = "unstructured"
    _tensor_name = None

    def compute_mask(self, t, default_mask):
        raise NotImplementedError

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module):
        """The original times the mask."""
        return getattr(module, self._tensor_name + "_mask") * getattr(module, self._tensor_name + "_orig")

    def prune(self, t, default_mask=None, importance_scores=None):
        """t with what goes set to 0."""
        mask = _F["ones_like"](t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes module.NAME; what was pruned before stays so."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = module._parameters.get(name + "_orig")
        if original is None:
            if name not in module._parameters:
                raise AttributeError(f"prune: {type(module).__name__} has no parameter '{name}'.")
            original = module._parameters[name]
            delattr(module, name)
            module.register_parameter(name + "_orig", original)
            module.register_buffer(name + "_mask", _F["ones_like"](original).detach())
            handle = module.register_forward_pre_hook(method)
            module.__dict__.setdefault("_pruned", {})[name] = handle
        before = module._buffers[name + "_mask"]
        scores = original.detach() if importance_scores is None else importance_scores
        module._buffers[name + "_mask"] = method._joint_mask(scores, before).to(original.dtype)
        method(module, None)
        return method

    def _joint_mask(self, scores, before):
        """The mask of what is still there, by this method, and what went already."""
        if self.PRUNING_TYPE == "unstructured":
            left = before == 1
            mask = before.clone()
            mask[left] = self.compute_mask(scores[left], before[left])
            return mask
        if self.PRUNING_TYPE == "structured":
            dims = [d for d in range(scores.ndim) if d != self.dim % scores.ndim]
            left = before.sum(dims) != 0
            mask = before.clone().movedim(self.dim, 0)
            kept = scores.movedim(self.dim, 0)[left].movedim(0, self.dim)
            ones = mask[left].movedim(0, self.dim)
            mask[left] = self.compute_mask(kept, ones).movedim(self.dim, 0)
            return mask.movedim(0, self.dim)
        return self.compute_mask(scores, before) * before


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t, default_mask):
        return default_mask.clone()


class _Unstructured(BasePruningMethod):
    def __init__(self, amount):
        self.amount = amount
        _count(amount, 1 << 62)

    def compute_mask(self, t, default_mask):
        mask, goes = default_mask.clone(), _count(self.amount, t.numel())
        if goes:
            mask.reshape(-1)[self._which(t.detach(), goes)] = 0
        return mask


class L1Unstructured(_Unstructured):
    """The entries of least size go."""

    def _which(self, t, count):
        return t.abs().reshape(-1).topk(count, largest=False)[1]


class RandomUnstructured(_Unstructured):
    """Random entries go."""

    def _which(self, t, count):
        return _F["randperm"](t.numel())[:count]


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        size = t.shape[self.dim]
        goes = _count(self.amount, size)
        mask = _F["ones"]((size,), dtype=default_mask.dtype)
        if goes:
            mask[self._which(t.detach(), goes)] = 0
        shape = [1] * t.ndim
        shape[self.dim] = size
        return default_mask * mask.view(shape)


class LnStructured(_Structured):
    """The slices of least n-norm go."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _which(self, t, count):
        dims = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        norms = _F["linalg_vector_norm"](t, float(self.n), dims)
        return norms.topk(count, largest=False)[1]


class RandomStructured(_Structured):
    """Random slices go."""

    def _which(self, t, count):
        return _F["randperm"](t.shape[self.dim])[:count]


class CustomFromMask(BasePruningMethod):
    """What a mask says goes."""
    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module, name):
    """Adds a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Random entries go: a share, or a number of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """The entries of least size go."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Random slices along dim go."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """The slices along dim of least n-norm go."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """What the mask says goes."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """One amount for several parameters [(module, name), …] together."""
    parameters, scores = list(parameters), importance_scores or {}
    values = [m._parameters.get(n + "_orig", m._parameters.get(n)).detach() for m, n in parameters]
    masks = [m._buffers.get(n + "_mask", _F["ones_like"](v)) for (m, n), v in zip(parameters, values)]
    used = [scores.get(p, v) for p, v in zip(parameters, values)]
    flat = lambda tensors: _F["cat"]([t.reshape(-1) for t in tensors])
    mask = pruning_method(**kwargs)._joint_mask(flat(used), flat(masks))
    at = 0
    for (module, name), value in zip(parameters, values):
        custom_from_mask(module, name, mask[at:at + value.numel()].view_as(value))
        at += value.numel()


def is_pruned(module):
    """Whether a parameter of it or of a part is pruned."""
    return any(m.__dict__.get("_pruned") for m in module.modules())


def remove(module, name):
    """Makes the zeros permanent: NAME is a plain parameter again."""
    handle = module.__dict__.get("_pruned", {}).pop(name, None)
    if handle is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    handle.remove()
    original, mask = module._parameters.pop(name + "_orig"), module._buffers.pop(name + "_mask")
    module.__dict__.pop(name, None)
    original.data = (original.detach() * mask)
    module.register_parameter(name, original)
    return module
