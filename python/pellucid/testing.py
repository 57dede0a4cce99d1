"""torch.testing: assert_close with PyTorch's tolerances."""
from . import _C

# rtol, atol by dtype
_TOLERANCES = {_C.float16: (1e-3, 1e-5), _C.bfloat16: (1.6e-2, 1e-5), _C.float32: (1.3e-6, 1e-5), _C.float64: (1e-7, 1e-7)}


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True, msg=None, **_):
    """Raises AssertionError with the worst difference where values are not close."""
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for a, e in zip(actual, expected):
            assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    a, e = (t if isinstance(t, _C.Tensor) else _C._make_tensor(t) for t in (actual, expected))
    if a.shape != e.shape:
        raise AssertionError(msg or f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.")
    if check_dtype and a.dtype is not e.dtype:
        raise AssertionError(msg or f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.")
    known = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (a, e)]
    rtol = max(k[0] for k in known) if rtol is None else rtol
    atol = max(k[1] for k in known) if atol is None else atol
    a, e = a.detach().to(_C.float64), e.detach().to(_C.float64)
    if a.allclose(e, rtol, atol, equal_nan):
        return
    bad = ~_C.functions["isclose"](a, e, rtol, atol, equal_nan)
    difference = (a - e).abs()
    relative = (difference / e.abs()).nan_to_num().max().item()
    raise AssertionError(msg or f"Tensor-likes are not close!\n\nMismatched elements: {int(bad.sum())} / {a.numel()}\n"
                         f"Greatest absolute difference: {difference.max().item()} (up to {atol} allowed)\n"
                         f"Greatest relative difference: {relative} (up to {rtol} allowed)")
