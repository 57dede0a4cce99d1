"""What programs and textbooks use beside ops: lazy layers, volumes, CTC, mixed precision, TensorBoard's files, storages, saving."""
import io
import math
import struct

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.nn import functional as F


def test_lazy_layers_become_ordinary_ones():
    net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
    assert repr(net[0].weight) == "<UninitializedParameter>" and isinstance(net[3], nn.Linear)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(2, 3, 8, 8)).sum().backward()
    before = net[3].weight.detach().clone()
    optimizer.step()  # the optimiser's parameters are those that got their sizes
    assert [type(m) for m in net] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert net[0].in_channels == 3 and net[3].weight.shape == (3, 144) and not torch.equal(net[3].weight, before)
    other = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
    other.load_state_dict(net.state_dict())
    assert torch.equal(other[3].weight, net[3].weight)


def test_volumes_are_pooled_as_by_hand():
    x = torch.randn(2, 3, 5, 6, 7)
    windows = x.unfold(2, 2, 2).unfold(3, 3, 3).unfold(4, 2, 2).flatten(-3)
    assert torch.equal(F.max_pool3d(x, (2, 3, 2)), windows.amax(-1))
    assert torch.allclose(F.avg_pool3d(x, (2, 3, 2)), windows.mean(-1), atol=1e-6)
    assert torch.allclose(F.adaptive_avg_pool3d(x, 1).flatten(), x.mean((2, 3, 4)).flatten(), atol=1e-6)
    padded = F.avg_pool3d(torch.ones(1, 1, 2, 2, 2), 2, 1, 1, count_include_pad=False)
    assert torch.allclose(padded, torch.ones_like(padded))
    y, places = F.max_pool2d(x[0], 2, return_indices=True)
    back = F.max_unpool2d(y, places, 2, output_size=x.shape[-2:])
    assert back.shape == x[0].shape and back.sum().item() == pytest.approx(y.sum().item(), abs=1e-4)


def alignments(log_probs, target, blank=0):
    """The sum over all paths, one by one."""
    import itertools
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        kept = [k for k, _ in itertools.groupby(path) if k != blank]
        if kept == target:
            total += math.exp(sum(log_probs[t, k].item() for t, k in enumerate(path)))
    return -math.log(total)


def test_ctc_sums_all_alignments():
    x = torch.randn(5, 3, 4, dtype=torch.float64)
    log_probs = F.log_softmax(x, 2)
    targets, lengths = torch.tensor([[1, 2], [3, 3], [2, 0]]), [2, 2, 1]
    found = F.ctc_loss(log_probs, targets, [5, 5, 4], lengths, reduction="none")
    for i, (steps, count) in enumerate(zip((5, 5, 4), lengths)):
        assert found[i].item() == pytest.approx(alignments(log_probs[:steps, i], targets[i, :count].tolist()), rel=1e-9)
    flat = F.ctc_loss(log_probs, torch.tensor([1, 2, 3, 3, 2]), [5, 5, 4], lengths, reduction="none")
    assert torch.allclose(flat, found)
    assert torch.autograd.gradcheck(lambda t: F.ctc_loss(F.log_softmax(t, 2), targets, [5, 5, 4], lengths), (x.requires_grad_(),))
    impossible = F.ctc_loss(log_probs[:2], torch.tensor([[1, 1]]).expand(3, 2), [2] * 3, [2] * 3, reduction="none")
    assert impossible.isinf().all()
    with pytest.raises(RuntimeError, match="at most 5"):
        F.ctc_loss(log_probs, targets, [6, 5, 4], lengths)


def test_multilabel_margin_loss():
    x, y = torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]])
    assert nn.MultiLabelMarginLoss()(x, y).item() == pytest.approx(0.85, abs=1e-6)


def test_replacing_a_part_keeps_its_place():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
    net = Net()
    for name, child in net.named_children():
        setattr(net, name, nn.Sequential(child))
    assert [n for n, _ in net.named_children()] == ["first", "second"] and list(net.state_dict())[0] == "first.0.weight"


def test_module_texts():
    assert repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).to(memory_format=torch.channels_last)
    assert images(torch.ones(1, 1, 4, 4)).shape == (1, 2, 2, 2)


def test_mixed_precision_is_accepted():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.ones(1, 2)).sum()
    scaler.scale(loss).backward()
    assert model.bias.grad.item() == 4
    before = model.bias.item()
    scaler.step(optimizer)
    scaler.update()
    assert model.bias.item() == pytest.approx(before - 0.1)
    model.bias.grad.fill_(math.inf)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2 and math.isfinite(model.bias.item())
    assert not torch.cuda.amp.GradScaler(enabled=False).is_enabled()
    with pytest.raises(RuntimeError, match="unsupported autocast device_type"):
        torch.autocast("tpu")


def records(path):
    """The messages of an event file, with their checksums compared."""
    from pellucid.utils.tensorboard.messages import crc32c
    masked = lambda data: ((crc32c(data) >> 15 | crc32c(data) << 17) + 0xA282EAD8) & 0xFFFFFFFF
    data, found = path.read_bytes(), []
    while data:
        length, check = struct.unpack("<QI", data[:12])
        assert check == masked(data[:8])
        found.append(data[12:12 + length])
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked(found[-1])
        data = data[16 + length:]
    return found


def test_tensorboard_files(tmp_path):
    from pellucid.utils.tensorboard import SummaryWriter
    from pellucid.utils.tensorboard.messages import crc32c
    assert crc32c(b"123456789") == 0xE3069283
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3)
        writer.add_histogram("weights", torch.arange(10.0), 1)
        writer.add_image("picture", torch.rand(3, 4, 5))
        writer.add_text("note", "hello")
        writer.add_scalars("both", {"a": 1, "b": 2}, 0)
        with pytest.raises(ValueError, match="no picture"):
            writer.add_image("picture", torch.rand(4))
    file, = tmp_path.glob("events.out.tfevents.*")
    version, scalar, histogram, picture, note = records(file)
    assert b"brain.Event:2" in version and b"loss" in scalar and struct.pack("<f", 0.5) in scalar and b"\x10\x03" in scalar
    assert b"weights" in histogram and b"\x89PNG" in picture and b"hello" in note
    assert len(list(tmp_path.glob("both_*/events*"))) == 2


def test_saving_what_programs_keep():
    import argparse
    kept = {"best": np.float64(0.5), "array": np.arange(3), "options": argparse.Namespace(lr=0.1), "names": {"a", "b"},
            "shape": torch.Size([2, 3]), "raw": b"\x00\xff", "device": torch.device("cpu"), "steps": range(3)}
    file = io.BytesIO()
    torch.save(kept, file)
    file.seek(0)
    found = torch.load(file)
    assert found["best"] == 0.5 and found["array"].tolist() == [0, 1, 2] and found["options"].lr == 0.1
    assert {k: found[k] for k in ("names", "shape", "raw", "device", "steps")} == {
        k: kept[k] for k in ("names", "shape", "raw", "device", "steps")}
    assert isinstance(found["shape"], torch.Size)
    with pytest.raises(TypeError, match="state_dict"):
        torch.save(nn.Linear(1, 1), io.BytesIO())


def test_arrays_and_tensors_together():
    assert (torch.ones(2) + np.ones(2)).dtype is torch.float64 and isinstance(np.sin(torch.zeros(2)), torch.Tensor)
    assert isinstance(torch.ones(2, 3).shape + (1,), torch.Size)


def test_storages():
    a = torch.arange(4.0)
    b = a.view(2, 2)[1]
    assert b.storage().data_ptr() == a.storage().data_ptr() and b.storage().tolist() == [0, 1, 2, 3]
    assert a.untyped_storage().nbytes() == 16 and len(a.storage()) == 4


def test_what_is_accepted_and_what_is_not():
    assert torch.jit.script(torch.sin) is torch.sin and not torch.jit.is_scripting()
    assert not torch.distributed.is_available() and torch.version.cuda is None
    with pytest.raises(AttributeError, match="'fft': there are no complex tensors"):
        torch.fft
    with pytest.raises(RuntimeError, match="one process"):
        torch.distributed.init_process_group("gloo")
    with pytest.raises(RuntimeError, match="runs on the CPU"):
        torch.ones(1).cuda()
    from pellucid.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.MATH):
        assert F.scaled_dot_product_attention(torch.ones(1, 2, 4), torch.ones(1, 2, 4), torch.ones(1, 2, 4)).shape == (1, 2, 4)
    assert nn.DataParallel(nn.Linear(2, 1))(torch.ones(1, 2)).shape == (1, 1)


def test_examples_without_batches_become_lists():
    from pellucid.utils.data import DataLoader
    assert next(iter(DataLoader([(np.ones(2), "a")], batch_size=None)))[0].tolist() == [1, 1]


def test_the_profiler_counts_the_step_before_it_reports():
    seen = []
    with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
                                on_trace_ready=lambda p: seen.append(p.step_num)) as p:
        for _ in range(4):
            torch.ones(2) + 1
            p.step()
    assert seen == [4]
