"""torch.linalg: the ops named linalg_NAME, and those whose arguments have another form in Python."""
from . import _C

_F = _C.functions
_PREFIX = "linalg_"
LinAlgError = _C.LinAlgError


def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """The norm of vectors or matrices, by dim; of matrices ord may be a word."""
    if dim is not None:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dim) not in (1, 2) and ord is not None:
            raise RuntimeError("linalg.norm: If dim is specified, it must be of length 1 or 2.")
    elif ord is not None and A.ndim not in (1, 2):
        raise RuntimeError("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D.")
    if ord is not None and (len(dim) == 2 if dim is not None else A.ndim == 2):
        return _F["linalg_matrix_norm"](A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return _F["linalg_vector_norm"](A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """The pseudo-inverse of matrices; rcond is an old name of rtol."""
    return _F["linalg_pinv"](A, atol=atol, rtol=rcond if rtol is None else rtol, hermitian=hermitian)


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """How many singular values are not 0; tol is the bound itself."""
    if tol is not None:
        atol, rtol = tol, 0.0
    return _F["linalg_matrix_rank"](A, atol=atol, rtol=rtol, hermitian=hermitian)


def eig(A, *, out=None):
    """Not there: eigenvalues of a general matrix are complex. eigh is for symmetric ones."""
    raise NotImplementedError("linalg.eig: there are no complex tensors; linalg.eigh takes symmetric matrices.")


def eigvals(A, *, out=None):
    """Not there, as eig."""
    return eig(A)


def __dir__():
    return sorted({*globals(), *(name[len(_PREFIX):] for name in _F if name.startswith(_PREFIX) and not name.endswith("_"))})


def __getattr__(name):
    if _PREFIX + name in _F:
        return _F[_PREFIX + name]
    raise AttributeError(f"module 'torch.linalg' has no attribute '{name}' in pellucid")
