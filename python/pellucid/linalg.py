"""torch.linalg: norms, products and decompositions; the latter are the records linalg_*."""
from . import _C

_F = _C.functions


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
    a, b = _F["broadcast_tensors"]([input, other])
    return (a.roll(-1, dim) * b.roll(1, dim)) - (a.roll(1, dim) * b.roll(-1, dim))


def svdvals(A, *, driver=None, out=None):
    """The singular values of matrices, in falling order."""
    return _F["linalg_svd"](A, False)[1]


def __getattr__(name):
    # A record named linalg_NAME is enough to have a function here.
    if "linalg_" + name in _F:
        return _F["linalg_" + name]
    raise AttributeError(f"module 'torch.linalg' has no attribute '{name}' in pellucid")
