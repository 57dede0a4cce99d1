"""Whole programs run with pellucid and with PyTorch: every output, loss and gradient is compared."""
import warnings

import pytest

import pellucid
import pellucid.autograd.functional
import pellucid.distributions
import pellucid.linalg
import pellucid.optim.swa_utils

import whole_programs
import whole_programs_numeric

torch = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
pytest.importorskip("torch.distributions")
pytest.importorskip("torch.optim.swa_utils")

PROGRAMS = [*whole_programs.PROGRAMS, *whole_programs_numeric.PROGRAMS]
# (default dtype, greatest relative and absolute difference): float32 programs drift apart by rounding over their steps.
# Programs whose branches depend on the last digits of the loss: with 24 bits two right libraries may part.
FLOAT64_ONLY = {"lbfgs_strong_wolfe", "lbfgs_unit_steps"}
DTYPES = {"float64": (1e-7, 1e-9), "float32": (2e-2, 2e-3)}


def run(program, library, dtype):
    before = library.get_default_dtype()
    library.set_default_dtype(getattr(library, dtype))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program(library)
    finally:
        library.set_default_dtype(before)


def plain(value):
    """Tensors as PyTorch's, whatever library they are of; containers as lists."""
    if isinstance(value, pellucid.Tensor):
        return torch.from_dlpack(value.detach().contiguous()).clone()
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def compare(name, found, expected, rtol, atol):
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), f"{name}: {len(found)} values, not {len(expected)}"
        for i, (a, b) in enumerate(zip(found, expected)):
            compare(f"{name}[{i}]", a, b, rtol, atol)
    elif isinstance(expected, torch.Tensor):
        exact = not expected.dtype.is_floating_point
        coarse = expected.dtype in (torch.float16, torch.bfloat16)
        torch.testing.assert_close(found, expected, rtol=0 if exact else max(rtol, 1e-2) if coarse else rtol,
                                   atol=0 if exact else max(atol, 5e-3) if coarse else atol, equal_nan=True,
                                   msg=lambda text: f"{name}: {text}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rtol, abs=atol, nan_ok=True), name
    else:
        assert found == expected, name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_program_computes_what_pytorch_computes(program, dtype):
    if dtype != "float64" and program.__name__ in FLOAT64_ONLY:
        pytest.skip("its branches depend on the last digits")
    expected, found = run(program, torch, dtype), run(program, pellucid, dtype)
    assert found.keys() == expected.keys()
    for name in expected:
        compare(name, plain(found[name]), plain(expected[name]), *DTYPES[dtype])
