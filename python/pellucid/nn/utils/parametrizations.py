"""torch.nn.utils.parametrizations: weight_norm, spectral_norm and orthogonal as parametrizations."""
from ... import _C
from ...autograd.forward_modes import no_grad
from ..modules.module import Module
from .parametrize import register_parametrization
from .reparameterize import _norm_except

_F = _C.functions


class _WeightNorm(Module):
    """g * v / |v|: length and direction apart."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = None if dim is None or dim == -1 else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight):
        return _norm_except(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """The parameter as length (original0) times direction (original1)."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """weight / its largest singular value, which power iteration follows from call to call."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        if weight.ndim > 1:
            matrix = self._matrix(weight)
            unit = lambda n: self._unit(_F["randn"]((n,), dtype=weight.dtype))
            self.register_buffer("_u", unit(matrix.shape[0]))
            self.register_buffer("_v", unit(matrix.shape[1]))
            self._iterate(matrix, 15)

    def _matrix(self, weight):
        return weight.movedim(self.dim, 0).flatten(1)

    def _unit(self, vector):
        return vector / vector.norm().clamp(min=self.eps)

    @no_grad()
    def _iterate(self, matrix, count):
        for _ in range(count):
            self._u = self._unit(matrix @ self._v)
            self._v = self._unit(matrix.t() @ self._u)

    def forward(self, weight):
        if weight.ndim == 1:
            return self._unit(weight)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        return weight / self._u.clone().dot(matrix @ self._v.clone())

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter over its largest singular value."""
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return register_parametrization(module, name, _SpectralNorm(weight.detach(), n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, where it is wide), by a map from any matrix."""

    def __init__(self, weight, orthogonal_map, use_trivialization):
        super().__init__()
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", self._nearest(weight))

    @staticmethod
    def _nearest(weight):
        tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
        q, r = _F["linalg_qr"](tall)
        q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        return q if weight.shape[-2] >= weight.shape[-1] else q.mT

    def forward(self, x):
        if self.orthogonal_map == "householder":
            return self._nearest(x)
        from ... import linalg
        lower = x.tril(-1)
        skew = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:
            eye = _F["eye"](x.shape[-1], dtype=x.dtype)
            q = _F["linalg_solve"](eye - skew / 2, eye + skew / 2)
        return self.base @ q if hasattr(self, "base") else q

    def right_inverse(self, value):
        if self.orthogonal_map == "householder":
            return value
        if not hasattr(self, "base"):
            raise NotImplementedError("right_inverse of matrix_exp and cayley needs use_trivialization=True.")
        self.base = self._nearest(value)
        return _F["zeros_like"](value)


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """The parameter as a matrix with orthonormal columns or rows."""
    weight = module._parameters.get(name)
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    square = weight.shape[-2] == weight.shape[-1]
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    if not square:
        orthogonal_map = "householder"  # the other maps turn square matrices alone
    made = _Orthogonal(weight.detach(), orthogonal_map, use_trivialization and square)
    return register_parametrization(module, name, made, unsafe=True)
