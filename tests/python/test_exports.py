"""Memory that leaves the library outlives whatever happens to the tensor, and memory that comes in is kept: every exporter with
every mutation."""
import copy
import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn


EXPORTERS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "memoryview": lambda t: memoryview(t),
    "numpy of a view": lambda t: t.view(-1).numpy(),
    "numpy of a transposed": lambda t: t.t().numpy(),
    "numpy of data": lambda t: t.data.numpy(),
    "from_dlpack": np.from_dlpack,
    "own from_dlpack": lambda t: torch.from_dlpack(t),
    "capsule": lambda t: torch.utils.dlpack.to_dlpack(t),
    "untyped_storage": lambda t: t.untyped_storage(),
    "detach": lambda t: t.detach(),
    "row": lambda t: t[1].numpy(),
}


def shown(exported):
    """What an export shows now."""
    if isinstance(exported, torch.UntypedStorage):
        return exported.tolist()[:24]
    if type(exported).__name__ == "PyCapsule":
        return None  # read when it is consumed
    if isinstance(exported, torch.Tensor):
        return exported.tolist()
    return np.asarray(exported).tolist()


def _to_bfloat16(t):
    m = nn.Linear(2, 3)
    m.weight.data = t
    yield m.weight.detach()
    m.to(torch.bfloat16)
    m.to(torch.float64)
    yield


def _assign(t):
    m = nn.Linear(2, 3)
    m.weight.data = t
    yield m.weight.detach()
    m.load_state_dict({"weight": torch.zeros(3, 2), "bias": torch.zeros(3)}, assign=True)
    yield


def _simple(change):
    def run(t):
        yield t
        change(t)
        yield
    return run


def refused_or(change):
    """A change that may be refused: either way nothing that was exported is lost."""
    def run(t):
        try:
            change(t)
        except RuntimeError as e:
            assert "resizable" in str(e) or "looks at this memory" in str(e), e
    return run


def set_data(t):
    t.data = torch.full((5,), 7.0)


# Changes of the tensor after which the memory that was exported shows what it showed.
MUTATIONS = {
    "module.to": _to_bfloat16,
    "load_state_dict(assign=True)": _assign,
    "data": _simple(set_data),
    "data, other dtype": _simple(lambda t: setattr(t, "data", torch.ones(2, dtype=torch.float64))),
    "set_": _simple(lambda t: t.set_()),
    "set_(other)": _simple(lambda t: t.set_(torch.zeros(9))),
    "resize_ larger": _simple(refused_or(lambda t: t.resize_(1000, 1000))),
    "resize_ smaller": _simple(lambda t: t.resize_(1)),
    "resize_as_": _simple(refused_or(lambda t: t.resize_as_(torch.zeros(400, 400)))),
    "storage resize_": _simple(refused_or(lambda t: t.untyped_storage().resize_(1 << 20))),
    "share_memory_": _simple(refused_or(lambda t: t.share_memory_())),
    "transpose_": _simple(lambda t: t.transpose_(0, 1)),
    "t_": _simple(lambda t: t.t_()),
    "squeeze_": _simple(lambda t: t.squeeze_()),
    "unsqueeze_": _simple(lambda t: t.unsqueeze_(0)),
    "requires_grad_": _simple(lambda t: t.requires_grad_()),
    "to": _simple(lambda t: t.to(torch.float16)),
    "channels_last": _simple(lambda t: t.unsqueeze(0).unsqueeze(0).to(memory_format=torch.channels_last)),
    "deepcopy": _simple(lambda t: copy.deepcopy(t)),
    "swap": _simple(lambda t: setattr(t, "data", t.data.clone())),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("exporter", EXPORTERS)
def test_exports_outlive_mutations(exporter, mutation):
    steps = MUTATIONS[mutation](torch.arange(6.0).view(3, 2).clone())
    t = next(steps)
    exported = EXPORTERS[exporter](t)
    before = shown(exported)
    next(steps, None)
    if exporter != "detach":
        del t
    steps.close()
    del steps
    gc.collect()
    torch.cuda.empty_cache()
    others = [torch.full((3, 2), -1.0) for _ in range(100)]  # whatever was freed is used again
    if type(exported).__name__ == "PyCapsule":
        assert torch.from_dlpack(exported).tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        return
    assert shown(exported) == before
    if isinstance(exported, np.ndarray) and exported.flags.writeable:
        exported[...] = 9.0
        assert all((o == -1).all() for o in others)


def test_in_place_changes_are_seen_on_both_sides():
    t = torch.zeros(3)
    array, view, other = t.numpy(), memoryview(t), torch.from_dlpack(t)
    for change in (lambda: t.add_(1), lambda: t.fill_(5), lambda: t.copy_(torch.arange(3.0)), lambda: t.__setitem__(0, 9.0)):
        change()
        assert array.tolist() == list(view) == other.tolist() == t.tolist()
    array[1] = 42
    assert t[1] == other[1] == view[1] == 42


def test_what_was_exported_cannot_be_resized():
    for exporter in ("numpy", "asarray", "memoryview", "from_dlpack", "capsule"):
        t = torch.arange(6.0).view(3, 2)
        exported = EXPORTERS[exporter](t)
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            t.resize_(100)
        assert t.shape == (3, 2) and t.tolist() == [[0, 1], [2, 3], [4, 5]]
        del exported  # as in PyTorch, once exported is for ever
        with pytest.raises(RuntimeError, match="not resizable"):
            t.resize_(100)
        assert t.resize_(2).tolist() == [0, 1] and t.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]


def test_resize_changes_the_storage_that_views_look_at():
    t = torch.arange(6.0)
    view = t[2:4]
    view.resize_(10)
    assert view.storage_offset() == 2 and view[:4].tolist() == [2, 3, 4, 5] and t.untyped_storage().nbytes() == 48
    view.fill_(7)
    assert t.tolist() == [0, 1, 7, 7, 7, 7]
    with pytest.raises(RuntimeError, match="require grad"):
        torch.ones(2, requires_grad=True).resize_(3)
    with pytest.raises(RuntimeError):
        t.resize_(-1)
    with pytest.raises(RuntimeError):
        t.resize_(1 << 62)
    assert t.tolist() == [0, 1, 7, 7, 7, 7]


def test_results_are_written_into_the_storage_of_out():
    a = torch.ones(5)
    out = torch.empty(10)
    array = out.numpy()
    torch.add(a, a, out=out)
    assert out.shape == (5,) and array[:5].tolist() == [2] * 5
    exported = torch.empty(0)
    array = exported.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.add(a, a, out=exported)
    assert exported.shape == (0,)
    out = torch.empty(0)
    view = out.view(0)
    torch.add(a, a, out=out)
    assert out.tolist() == [2] * 5 and view.untyped_storage().nbytes() == 20


def test_hidden_layouts_are_exported_once():
    y = nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 8, 8)).detach()
    z = y.detach()
    first = y.numpy()
    values = first.copy()
    y.relu_()
    assert z.numpy().ctypes.data == first.ctypes.data
    first[0, 0, 0, 0] = 100
    assert y[0, 0, 0, 0] == 100 == z[0, 0, 0, 0]
    y.data = torch.zeros(1)
    assert first.shape == values.shape and first[0, 0, 0, 0] == 100


IMPORTERS = {
    "from_numpy": lambda a: torch.from_numpy(a),
    "as_tensor": lambda a: torch.as_tensor(a),
    "frombuffer": lambda a: torch.frombuffer(a, dtype=torch.float32),
    "from_dlpack": lambda a: torch.from_dlpack(a),
}


@pytest.mark.parametrize("importer", IMPORTERS)
def test_imports_keep_the_memory_they_look_at(importer):
    array = np.arange(6, dtype=np.float32)
    t = IMPORTERS[importer](array)
    array[0] = 5
    assert t[0] == 5
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100)
    view, array = t[1:], None
    gc.collect()
    others = [np.zeros(6, dtype=np.float32) for _ in range(100)]
    assert t.tolist() == [5, 1, 2, 3, 4, 5]
    t.set_()
    t = None
    gc.collect()
    assert view.tolist() == [1, 2, 3, 4, 5] and not any(o.any() for o in others)


def test_import_refuses_what_it_cannot_look_at():
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(np.arange(3.0)[::-1])
    assert torch.from_numpy(np.arange(6.0)[::2]).tolist() == [0, 2, 4]
    data = bytearray(8)
    t = torch.frombuffer(data, dtype=torch.uint8)
    with pytest.raises(BufferError):
        data.extend(b"more")
    t.fill_(1)
    assert bytes(data) == b"\1" * 8
    del t
    gc.collect()
    data.extend(b"more")
    with pytest.warns(UserWarning, match="not writable"):
        torch.from_numpy(np.frombuffer(b"1234", dtype=np.uint8))


def test_exports_after_the_interpreter_drops_everything():
    code = ("import pellucid as torch, numpy as np\n"
            "t = torch.ones(1000); a = t.numpy(); c = t.__dlpack__(); m = memoryview(t); b = torch.from_numpy(np.ones(9))\n"
            "t.data = torch.zeros(1)\n")
    assert subprocess.run([sys.executable, "-c", code], cwd=os.sep).returncode == 0
