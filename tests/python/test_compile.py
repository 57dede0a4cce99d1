"""torch.compile: the same results, functions, methods, modules and steps; what explain and report tell."""
import copy
import warnings

import pytest

import pellucid as torch
from pellucid import nn
from pellucid.nn import functional as F


def norm_of_gelu(x, scale=100):
    return F.layer_norm(F.gelu(x * scale + 10) + x, (x.shape[-1],))


def test_the_same_bits_in_every_call():
    x = torch.randn(64, 128)
    expected = norm_of_gelu(x)
    for f in (torch.compile(norm_of_gelu), torch.compile(norm_of_gelu, mode="max-autotune", fullgraph=True, dynamic=False)):
        for _ in range(12):
            assert torch.equal(f(x), expected)
            assert torch.equal(f(x, scale=3), norm_of_gelu(x, 3))
        assert f.__name__ == "norm_of_gelu"
        assert "calls; " in f.report()


def test_sizes_that_change_with_every_call_are_right_and_warned_of_once():
    def changing(x):
        return norm_of_gelu(x).sum()

    f = torch.compile(changing, mode="max-autotune")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(100):  # one size
            f(torch.ones(3, 5))
        for _ in range(4):  # a few sizes, which come back
            for n in range(1, 31):
                f(torch.ones(n, 4))
        assert not seen
        for n in range(1, 301):
            x = torch.full((n, 7), 0.25)
            assert torch.equal(f(x), changing(x))
    assert len(seen) == 1
    text = str(seen[0].message)
    assert "changing (" in text and "test_compile.py:" in text and "64 calls in a row" in text
    assert seen[0].filename == __file__


def test_explain_tells_the_groups():
    f = torch.compile(norm_of_gelu)
    with torch.no_grad():
        e = f.explain(torch.randn(64, 128))
    assert [p.ops for p in e.parts] == [["mul", "add", "gelu", "add", "layer_norm"]]
    assert e.calls == e.fused == 5 and e.parts[0].results_without_memory == 4 and e.parts[0].bytes_not_made == 4 * 64 * 128 * 4
    assert str(e).startswith("group 1  mul, add, gelu, add, layer_norm  float32[64, 128]")


def test_decorators_methods_and_containers():
    @torch.compile
    def swap(pair, *, extra=None):
        a, b = pair["a"], pair["b"]
        return {"a": b + 1, "b": [a * 2, None if extra is None else extra + 1]}

    class Scaled:
        def __init__(self, by):
            self.by = by

        @torch.compile(mode="reduce-overhead")
        def of(self, x):
            return x * self.by

    for _ in range(11):
        out = swap({"a": torch.ones(2), "b": torch.zeros(2)}, extra=torch.ones(1))
        assert out["a"].tolist() == [1, 1] and out["b"][0].tolist() == [2, 2] and out["b"][1].item() == 2
        assert swap({"a": torch.ones(2), "b": torch.zeros(2)})["b"][1] is None
        assert Scaled(3).of(torch.ones(2)).tolist() == [3, 3]


def test_modules_are_wrapped_as_pytorch_wraps_them():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16))
    fast = torch.compile(net)
    assert isinstance(fast, nn.Module) and fast._orig_mod is net and fast.append == net.append
    assert list(fast.state_dict())[0] == "_orig_mod.0.weight" and len(list(fast.parameters())) == 4
    x = torch.randn(32, 8)
    for _ in range(12):
        assert torch.equal(fast(x), net(x))
    fast.eval()
    assert not net.training and not fast.training
    assert torch.equal(copy.deepcopy(fast)(x), net(x))
    assert torch.compile(fast) is fast
    loss = fast(x).sum()
    loss.backward()
    assert net[0].weight.grad is not None


def test_modules_compile_in_place():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4)
    expected = net(x)
    net.compile()
    for _ in range(12):
        assert torch.equal(net(x), expected)
    assert list(net.state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(copy.deepcopy(net)(x), expected)


def test_a_whole_training_step():
    def train(wrap):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 3))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        x, y = torch.randn(16, 10), torch.randn(16, 3)

        @wrap
        def step(x, y):
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss
        return [step(x, y).item() for _ in range(14)] + [p.sum().item() for p in net.parameters()]
    assert train(torch.compile(mode="max-autotune")) == train(torch.compile) == train(lambda f: f)


def test_values_that_are_asked_for_and_exceptions():
    @torch.compile(mode="max-autotune")
    def f(x):
        y = x * 2
        if y.sum().item() > 0:
            return y + 1
        x.add_(1)
        raise ValueError("negative")
    lazy = torch.is_lazy()  # with PELLUCID_LAZY=1
    assert f(torch.ones(2)).tolist() == [3, 3]
    x = -torch.ones(2)
    with pytest.raises(ValueError, match="negative"):
        f(x)
    assert x.tolist() == [0, 0] and torch.is_lazy() == lazy


def test_arguments_of_compile():
    net = nn.Linear(2, 2)
    assert torch.compile(net, disable=True) is net and torch.compile(net, backend="eager") is net
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(net, mode="fast")
    with pytest.raises(RuntimeError, match="both can't be specified"):
        torch.compile(net, mode="default", options={})
    with pytest.raises(RuntimeError, match="function or a module"):
        torch.compile(3)


def test_sealed_functions_replay():
    calls = []
    weight = torch.randn(6, 6)

    @torch.compile
    def f(x, more, scale=1):
        calls.append(1)
        return {"y": torch.tanh(x @ weight) * scale, "z": (more[0] + 1, None)}
    f.seal()
    for _ in range(8):
        x, b = torch.randn(6, 6), torch.randn(3)
        out = f(x, [b], scale=2)
        assert torch.equal(out["y"], torch.tanh(x @ weight) * 2) and torch.equal(out["z"][0], b + 1) and out["z"][1] is None
        with torch.no_grad():
            weight.mul_(0.9)
    assert len(calls) == 2
    with pytest.raises(ValueError, match="no tensor changed"):
        f(x, [b], scale=3)
    with pytest.raises(RuntimeError, match="sizes"):
        f(torch.randn(5, 6), [b], scale=2)


def test_a_sealed_step_trains_as_an_eager_one():
    def train(sealed):
        torch.manual_seed(4)
        net = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

        def step(x, y):
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()
        fast = torch.compile(step).seal() if sealed else step
        losses = []
        for _ in range(9):
            losses.append(fast(torch.randn(5, 7), torch.randn(5, 2)).item())
            schedule.step()
        return losses
    assert train(True) == train(False)


def test_traced_programs_run_by_name():
    both = torch.jit.trace(lambda a, b: (a + b, a * b), (torch.tensor(0.), torch.tensor(0.)))
    assert [t.item() for t in both.run(a=torch.tensor(2.), b=torch.tensor(3.))] == [5, 6]
    assert [t.item() for t in both(torch.tensor(4.), torch.tensor(5.))] == [9, 20]
    assert "add(in0, in1)" in str(both) and both.inputs == ["a", "b"]
    with pytest.raises(ValueError, match="the inputs are a, b"):
        both.run(a=torch.tensor(2.))
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    program = torch.jit.trace(net, torch.randn(3, 4))
    x = torch.randn(3, 4)
    assert torch.equal(program(x), net(x).detach())
    with pytest.raises(ValueError, match="asks for a value"):
        torch.jit.trace(lambda x: x * x.sum().item(), torch.ones(2))


def test_weights_that_were_kept_packed_are_never_stale():
    """Convolutions keep weights in another order between calls of inference, until anything changes them."""
    x = torch.randn(2, 32, 26, 26)
    other = torch.randn(64, 32, 3, 3)

    def through_numpy(w):
        w.numpy()[0] = 3

    kept = []  # so that the array outlives the change

    def through_an_array_from_before(w):
        kept.append(w.numpy())
        F.conv2d(x, w), F.conv2d(x, w), F.conv2d(x, w)
        kept[-1][1] = 5

    def through_dlpack(w):
        torch.from_dlpack(w)[2] = 7

    def through_data(w):
        w.data.add_(1)

    def through_a_new_tensor(w):
        w.data = other.clone()

    def through_set(w):
        w.set_(other.clone())

    def through_a_module(w):
        conv = nn.Conv2d(32, 64, 3, bias=False)
        conv.weight.data = w
        conv.load_state_dict({"weight": other})

    def through_an_optimizer(w):
        p = nn.Parameter(w)
        p.grad = other.clone()
        torch.optim.SGD([p], lr=0.5).step()

    def through_shared_memory(w):
        w.share_memory_()
        w.mul_(2)

    changes = [through_numpy, through_an_array_from_before, through_dlpack, through_data, through_a_new_tensor, through_set,
               through_a_module, through_an_optimizer, through_shared_memory]
    with torch.no_grad():
        for change in changes:
            w = torch.randn(64, 32, 3, 3)
            compiled = torch.compile(lambda x: F.conv2d(x, w).relu(), mode="max-autotune")
            for _ in range(4):
                compiled(x)
                F.conv2d(x, w)
            change(w)
            expected = F.conv2d(x, w.clone())
            for _ in range(4):
                assert torch.equal(F.conv2d(x, w), expected), change.__name__
                assert torch.equal(compiled(x), expected.relu()), change.__name__
