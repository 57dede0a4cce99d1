"""NumPy, DLPack and the buffer protocol: both ways, without copies, with right lifetimes."""
import gc
import weakref

import pytest

import pellucid as torch

np = pytest.importorskip("numpy")

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_both_ways_shares_memory(name):
    a = np.ones((2, 3), dtype=name)
    t = torch.from_numpy(a)
    assert str(t.dtype) == f"torch.{name}" and t.shape == (2, 3)
    a[0, 1] = 0
    assert t[0, 1].item() == 0
    b = t.numpy()
    b[1, 1] = 0
    assert t[1, 1].item() == 0 and b.dtype == a.dtype and a[1, 1] == 0


def test_strides_survive():
    a = np.arange(12.0).reshape(3, 4)
    t = torch.from_numpy(a[:, ::2])
    assert t.stride() == (4, 2) and t.tolist() == a[:, ::2].tolist()
    assert torch.arange(6).reshape(2, 3).t().numpy().strides == (8, 24)
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(a[::-1])
    with pytest.raises(TypeError):
        torch.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match="expected np.ndarray"):
        torch.from_numpy([1, 2])


def test_lifetimes():
    a = np.ones(1000)
    alive = weakref.ref(a)
    t = torch.from_numpy(a)
    del a
    gc.collect()
    assert alive() is not None and t.sum().item() == 1000
    del t
    gc.collect()
    assert alive() is None
    b = torch.ones(1000).numpy()
    gc.collect()
    assert b.sum() == 1000
    view = memoryview(torch.ones(5))
    gc.collect()
    assert view.tolist() == [1] * 5


def test_gradients_must_be_detached():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        x.numpy()
    assert x.detach().numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError):
        x.__dlpack__()


def test_dlpack_both_ways():
    t = torch.arange(6).reshape(2, 3)
    a = np.from_dlpack(t)
    assert a.tolist() == t.tolist()
    back = torch.from_dlpack(np.arange(4.0))
    assert back.tolist() == [0, 1, 2, 3] and back.dtype is torch.float64
    again = torch.from_dlpack(t.__dlpack__())
    again[0, 0] = 9
    assert t[0, 0].item() == 9
    capsule = t.__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(Exception):
        torch.from_dlpack(capsule)


def test_numpy_scalars_and_functions():
    x = torch.ones(2)
    assert (x * np.float32(2)).dtype is torch.float32 and (x + np.int64(1)).tolist() == [2, 2]
    assert np.asarray(x).tolist() == [1, 1] and np.array(torch.tensor(3)) == 3
    assert torch.tensor(np.arange(3)).dtype is torch.int64 and torch.as_tensor(np.zeros(2)).dtype is torch.float64
    assert x[np.array([0, 1])].tolist() == [1, 1] and torch.zeros(np.int64(2)).shape == (2,)
    assert torch.frombuffer(bytearray(8), dtype=torch.float32).tolist() == [0, 0]
