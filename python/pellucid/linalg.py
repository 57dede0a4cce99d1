"""torch.linalg: norms, products and decompositions; the latter are the records linalg_*."""
import math as _math

from . import _C
from ._types import named_results as _named_results

_F = _C.functions
LinAlgError = _C.ValueError
_Slogdet = _named_results("slogdet", "sign logabsdet")
_Lstsq = _named_results("lstsq", "solution residuals rank singular_values")


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of vectors along dims."""
    return _F["linalg_vector_norm"](x, ord, dim, keepdim, dtype=dtype)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of matrices."""
    return _F["linalg_matrix_norm"](A, ord, dim, keepdim, dtype=dtype)


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """The norm of vectors or matrices, by dim."""
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dim) not in (1, 2) and ord is not None:
            raise RuntimeError("linalg.norm: If dim is specified, it must be of length 1 or 2.")
    elif ord is not None and A.ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D.")
    if ord is not None and (len(dim) == 2 if dim is not None else A.ndim == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if dtype is not None:
        A = A.to(dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


def matmul(input, other, *, out=None):
    """The matrix product."""
    return _F["matmul"](input, other)


def matrix_power(A, n, *, out=None):
    """A multiplied n times."""
    return _F["matrix_power"](A, n)


def multi_dot(tensors, *, out=None):
    """The product of several matrices."""
    tensors = list(tensors)
    result = tensors[0]
    for t in tensors[1:]:
        result = result @ t
    return result


def vecdot(x, y, *, dim=-1, out=None):
    """The dot products along dim."""
    return (x * y).sum(dim)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonal of matrices."""
    return _F["diagonal"](A, offset, dim1, dim2)


def cross(input, other, *, dim=-1, out=None):
    """The cross product of vectors of three."""
    return _F["linalg_cross"](input, other, dim=dim)


def svdvals(A, *, driver=None, out=None):
    """The singular values of matrices, in falling order."""
    return _F["linalg_svd"](A, False)[1]


def eigvalsh(A, UPLO="L", *, out=None):
    """The eigenvalues of symmetric matrices, in rising order."""
    return _F["linalg_eigh"](A, UPLO)[0]


def slogdet(A, *, out=None):
    """The sign and the logarithm of the size of the determinant, from a QR decomposition."""
    q, r = _F["linalg_qr"](A)
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    with_sign = _F["linalg_det"](q.detach()).round() * diagonal.detach().sign().prod(-1)
    return _Slogdet(with_sign, diagonal.abs().log().sum(-1))


def _cut(s, A, rcond, atol=None):
    """Below which a singular value counts as 0."""
    if rcond is None:
        rcond = 0.0 if atol is not None else max(A.shape[-2:]) * 2.0 ** {_C.float64: -52}.get(A.dtype, -23)
    return s.amax(-1, keepdim=True) * rcond if atol is None else (s.amax(-1, keepdim=True) * rcond).clamp(min=atol)


def pinv(A, *, atol=None, rtol=None, hermitian=False, rcond=None, out=None):
    """The pseudo-inverse of matrices."""
    u, s, vh = _F["linalg_svd"](A, False)
    keep = s > _cut(s, A, rtol if rtol is not None else rcond, atol)
    inverse = _F["where"](keep, 1.0 / _F["where"](keep, s, 1.0), 0.0).to(A.dtype)
    return (vh.mT * inverse.unsqueeze(-2)) @ u.mT


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """How many singular values are not 0."""
    s = svdvals(A)
    return (s > (tol if tol is not None else _cut(s, A, rtol, atol))).sum(-1)


def cond(A, p=None, *, out=None):
    """The norm of a matrix times that of its inverse."""
    if p is None or p == 2 or p == -2:
        s = svdvals(A)
        ratio = s[..., 0] / s[..., -1]
        return 1 / ratio if p == -2 else ratio
    return matrix_norm(A, p) * matrix_norm(_F["linalg_inv"](A), p)


def lstsq(A, B, rcond=None, *, driver=None):
    """The x of least |A x - B|."""
    vector = B.ndim == A.ndim - 1
    right = B.unsqueeze(-1) if vector else B
    solution = pinv(A, rcond=rcond) @ right
    rows, columns = A.shape[-2:]
    rank = matrix_rank(A)
    residuals = _F["empty"](0, dtype=A.dtype)
    if rows > columns and bool((rank == columns).all()):
        residuals = ((A @ solution - right) ** 2).sum(-2)
    return _Lstsq(solution.squeeze(-1) if vector else solution, residuals, rank, _F["empty"](0, dtype=A.dtype))


def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """x of A x = B (or x A = B) where only a triangle of A is read."""
    A = A.triu() if upper else A.tril()
    if unitriangular:
        A = A - _F["diag_embed"](A.diagonal(dim1=-2, dim2=-1)) + _F["eye"](A.shape[-1], dtype=A.dtype)
    return _F["linalg_solve"](A, B) if left else _F["linalg_solve"](A.mT, B.mT).mT


def matrix_exp(A):
    """The exponential of matrices: a power series of A / 2^k, squared k times."""
    if A.numel() == 0:
        return A.clone()
    size = matrix_norm(A.detach(), 1).max().item()
    if not _math.isfinite(size):
        return A * _math.nan
    halvings = max(0, _math.ceil(_math.log2(size / 0.5))) if size > 0 else 0
    x = A / 2.0 ** halvings
    term = total = _F["eye"](A.shape[-1], dtype=A.dtype).expand(A.shape)
    for k in range(1, 19):  # 0.5^18 / 18! is below float64's last digit
        term = term @ x / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


def vander(x, N=None):
    """Powers of x as columns, rising."""
    return x.unsqueeze(-1) ** _F["arange"](0, x.shape[-1] if N is None else N, 1)


def eig(A, *, out=None):
    """Not there: eigenvalues of a general matrix are complex. eigh is for symmetric ones."""
    raise NotImplementedError("linalg.eig: there are no complex tensors; linalg.eigh takes symmetric matrices.")


def eigvals(A, *, out=None):
    """Not there, as eig."""
    return eig(A)


def __dir__():
    return sorted({*globals(), *(name[len("linalg_"):] for name in _F if name.startswith("linalg_"))})


def __getattr__(name):
    # A record named linalg_NAME is enough to have a function here.
    if "linalg_" + name in _F:
        return _F["linalg_" + name]
    raise AttributeError(f"module 'torch.linalg' has no attribute '{name}' in pellucid")
