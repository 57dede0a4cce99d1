"""What programs written for PyTorch ask for beside ops: classes of nodes, bytes as another dtype, NumPy's numbers, hooks of
several tensors, old import paths, processes that are spawned."""
import os
import subprocess
import sys

import numpy as np
import pytest

import pellucid as torch
from pellucid import nn
from pellucid.autograd import graph
from pellucid.nn import functional as F


def test_contiguous_rows_whose_sizes_of_one_have_odd_strides():
    base = torch.randn(2, 4, 8)
    odd = base[:, -1].unsqueeze(0).permute(1, 0, 2)  # [2, 1, 8] with strides 32, 64, 1
    hidden = torch.randn(1, 3, 8).permute(1, 0, 2)   # contiguous, strides 8, 24, 1
    layer = nn.Linear(8, 5)
    for x in (odd, hidden):
        assert torch.equal(layer(x), layer(x.clone())) and torch.equal(x @ layer.weight.T, x.clone() @ layer.weight.T)
        a, b = x.detach().requires_grad_(), x.detach().clone().requires_grad_()
        for leaf in (a, b):
            layer.zero_grad()
            layer(leaf).square().sum().backward()
            leaf.weights = layer.weight.grad
        assert torch.equal(a.grad, b.grad) and torch.equal(a.weights, b.weights)


def test_nodes_have_classes_of_their_own_names():
    x = torch.tensor(2.0, requires_grad=True)
    names, at = [], (x ** 2).sin().grad_fn
    while at is not None:
        names.append(type(at).__name__)
        at = at.next_functions[0][0] if at.next_functions else None
    assert names == ["SinBackward0", "PowBackward0", "AccumulateGrad"]
    node = (x * 2).grad_fn
    assert isinstance(node, graph.Node) and type(node) is type((x * 3).grad_fn) and type(node) is not type(x.sin().grad_fn)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gradients):
        ctx.gradients = gradients
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return ctx.gradients(grad)


def test_a_backward_gives_one_gradient_an_argument():
    x = torch.ones(2, requires_grad=True)
    for wrong, found in ((lambda g: (g, None, g), 3), (lambda g: g, 1)):
        with pytest.raises(RuntimeError, match=f"WrongBackward: .*expected 2, got {found}"):
            Wrong.apply(x, wrong).sum().backward()
    Wrong.apply(x, lambda g: (g, None, None, None)).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_bytes_seen_as_another_dtype():
    x = torch.tensor([1.0, -2.0])
    bits = x.view(torch.int32)
    assert bits.tolist() == [0x3F800000, 0xC0000000 - 2**32] and bits.data_ptr() == x.data_ptr()
    bits[0] = 0x40000000
    assert x.tolist() == [2, -2]
    assert x.view(torch.uint8).shape == (8,) and torch.equal(x.view(torch.uint8).view(torch.float32), x)
    wide = torch.zeros(3, 4, dtype=torch.int16)[1:].view(torch.int64)
    assert wide.shape == (2, 1) and wide.stride() == (1, 1)
    leaf = torch.ones(2, requires_grad=True)
    assert not leaf.view(torch.int32).requires_grad and leaf.view(torch.float32).grad_fn is not None
    with pytest.raises(RuntimeError, match="whole elements of float64"):
        torch.ones(3).view(torch.float64)
    with pytest.raises(RuntimeError, match="contiguous"):
        torch.ones(2, 4).t().view(torch.uint8)


def test_numpy_numbers_keep_their_dtype():
    assert torch.tensor(np.float64(1.5)).dtype is torch.float64 and torch.tensor([np.float64(1), 2]).dtype is torch.float64
    assert torch.tensor(np.float32(1.5)).dtype is torch.float32 and torch.tensor([np.int32(1)]).dtype is torch.int32
    assert torch.tensor([np.bool_(True)]).dtype is torch.bool and torch.tensor([1.5]).dtype is torch.float32


def test_hooks_of_several_tensors():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    seen = []
    handle = graph.register_multi_grad_hook((x, y), lambda grads: seen.append([g.tolist() for g in grads]))
    first = graph.register_multi_grad_hook((x, y), lambda grad: seen.append("first"), mode="any")
    (x * y * 3).sum().backward()
    assert seen.count("first") == 1 and [[3, 3], [3, 3]] in seen and len(seen) == 2
    handle.remove()
    first.remove()
    (x * y).sum().backward()
    assert len(seen) == 2
    assert graph.get_gradient_edge(x).node.variable is x


def test_scopes_of_saved_tensors():
    x = torch.ones(2, requires_grad=True)
    with graph.save_on_cpu():
        y = x * x
    with graph.allow_mutation_on_saved_tensors():
        z = x.clone()
        square = z ** 2
        z.zero_()
    (y + square).sum().backward()
    assert x.grad.tolist() == [4, 4]
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        graph.save_on_cpu().__enter__()


def test_modules_change_types_and_parts():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    assert net.type(torch.float64)[0].weight.dtype is torch.float64
    assert net.type("torch.FloatTensor")[0].bias.dtype is torch.float32
    net.set_submodule("1.0", nn.Tanh())
    assert isinstance(net[1][0], nn.Tanh)
    with pytest.raises(AttributeError):
        net.set_submodule("1.7", nn.Tanh(), strict=True)
    net.compile()
    assert net.to_empty(device="cpu")[0].weight.shape == (2, 2)


def test_texts_as_pytorch_writes_them():
    assert repr(nn.Softshrink()) == "Softshrink(0.5)" and repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"
    assert repr(nn.ConstantPad1d(1, 3.0)) == "ConstantPad1d(padding=(1, 1), value=3.0)"
    assert repr(torch.tensor([1, 1]).mode()) == "torch.return_types.mode(\nvalues=tensor(1),\nindices=tensor(1))"
    text = repr(torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1))
    assert "foreach: None" in text and "fused: None" in text


def test_devices_as_scopes_and_accelerators():
    with torch.device("cpu"):
        assert torch.ones(1).device == torch.device("cpu")
    with pytest.raises(RuntimeError, match="runs on the CPU"):
        torch.device("cuda").__enter__()
    assert not torch.accelerator.is_available() and not torch.xpu.is_available() and torch.Generator().device.type == "cpu"


def test_inference_tensors_say_so():
    x = torch.ones(2)
    with torch.inference_mode():
        assert (x + 1).is_inference() and not x.is_inference()


def test_bessel_windows_and_pairs():
    x = torch.tensor([0.0, 1.0, -3.0, 20.0], dtype=torch.float64, requires_grad=True)
    assert np.allclose(torch.i0(x).detach(), np.i0(x.detach().numpy()), rtol=1e-12)
    assert torch.autograd.gradcheck(torch.i0, (x[:3].detach().requires_grad_(),))
    inf, nan = float("inf"), float("nan")
    assert torch.i0(torch.tensor([inf, -inf, 1e6])).tolist() == [inf] * 3 and torch.i0(torch.tensor(nan)).isnan()
    assert torch.angle(torch.tensor([inf, -inf, 0.0, 2.0])).tolist() == pytest.approx([0.0, np.pi, 0.0, 0.0])
    assert torch.angle(torch.tensor(nan)).isnan()
    assert np.allclose(torch.kaiser_window(7, False, 8.0), np.kaiser(7, 8.0), atol=1e-6)
    assert np.allclose(torch.bartlett_window(6, False), np.bartlett(6), atol=1e-6)
    points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert F.pdist(points).tolist() == pytest.approx([5, 1, 18 ** 0.5])


def test_parts_of_a_data_set_for_several_processes():
    from pellucid.utils.data import DistributedSampler
    assert torch.utils.data.DataLoader[int] is torch.utils.data.DataLoader  # in annotations
    parts = [list(DistributedSampler(range(7), 3, rank, shuffle=False)) for rank in range(3)]
    assert parts == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    sampler = DistributedSampler(range(20), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert len(sampler) == 10 and first != list(sampler) and not set(first) & set(DistributedSampler(range(20), 2, 1))


def run(code, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(code)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run([sys.executable, "-m", "pellucid", str(script)], capture_output=True, text=True, env=environment,
                          timeout=300)


def test_old_import_paths(tmp_path):
    done = run("import torch\n"
               "from torch.nn.modules.pooling import MaxPool2d\n"
               "from torch.nn.modules.dropout import Dropout\n"
               "from torch.nn.utils.clip_grad import clip_grad_norm_\n"
               "from torch.optim.adam import Adam\n"
               "import torch.nn.modules.padding, torch.functional\n"
               "assert MaxPool2d is torch.nn.MaxPool2d and Adam is torch.optim.Adam and torch.nn.__name__ == 'pellucid.nn'\n"
               "try:\n    import torch.onnx\nexcept ImportError as e:\n    print(e)\n", tmp_path)
    assert done.returncode == 0 and done.stdout == "No module named 'torch.onnx' in pellucid\n", done.stderr


def test_spawned_processes_of_a_program_for_pytorch(tmp_path):
    done = run("import torch\n"
               "import torch.multiprocessing as mp\n"
               "from torchviz import make_dot\n"
               "def work(rank, layer):\n"
               "    layer(torch.ones(1, 3)).sum().backward()\n"
               "    assert layer.weight.grad is not None\n"
               "if __name__ == '__main__':\n"
               "    mp.spawn(work, args=(torch.nn.Linear(3, 2),), nprocs=2)\n"
               "    print('both')\n", tmp_path)
    assert done.returncode == 0 and done.stdout == "both\n", done.stderr


class Focal(nn.modules.loss._WeightedLoss):
    def __init__(self, weight=None, gamma=2.0, reduction="mean"):
        super().__init__(weight, reduction=reduction)
        self.gamma = gamma

    def forward(self, input, target):
        each = F.cross_entropy(input, target, self.weight, reduction="none")
        each = (1 - (-each).exp()) ** self.gamma * each
        return each.mean() if self.reduction == "mean" else each.sum()


def test_bases_that_programs_derive_from_and_ask_for():
    from pellucid.nn.common_types import _size_2_t
    assert list(Focal(torch.ones(3)).state_dict()) == ["weight"] and Focal(reduction="sum").reduction == "sum"
    assert Focal(gamma=0.0)(torch.zeros(2, 3), torch.tensor([0, 1])).item() == pytest.approx(np.log(3))
    assert nn.modules.loss._Loss(None, None, "sum").reduction == "sum" and nn.MSELoss(size_average=False).reduction == "sum"
    assert isinstance(nn.Conv2d(1, 1, 1), nn.modules.conv._ConvNd) and isinstance(nn.MSELoss(), nn.modules.loss._Loss)
    assert _size_2_t is not None
