"""Model analysis from Python: the worked figures of parameters and FLOPs, on modules, functions, objects and tensors."""
import pytest

import pellucid as torch
from pellucid.profiler import (AutogradSystemsProfiler, GraphExecutionProfiler, MemoryStats, Profiler, count_flops, count_parameters,
                               estimate, measure_memory, profile_backward_pass, profile_forward_pass, why_alive)


def test_worked_figures():
    layer = torch.nn.Linear(128, 64)
    assert count_parameters(layer) == 8_256
    assert count_flops(layer, (1, 128)) == 16_384 == count_flops(layer, torch.ones(32, 128))
    wide = torch.nn.Linear(768, 3072)
    assert count_parameters(wide) == 2_362_368
    assert profile_forward_pass(wide, (32, 768))["batch_flops"] == 151_093_248
    assert count_flops(torch.nn.Linear(1000, 500), (4, 1000)) == 1_000_000
    conv = torch.nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
    assert count_flops(conv, (1, 3, 224, 224)) == 236_027_904


def test_shared_weights_count_once():
    layer = torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(layer, layer)
    assert count_parameters(model) == 20


def test_other_models():
    class Plain:
        weight = torch.ones(3, 5)

    assert count_parameters(Plain()) == 15
    assert count_flops(Plain(), (2, 5)) == 30
    assert count_parameters(torch.ones(7)) == 0
    assert count_flops(torch.ones(7)) == 7
    assert count_flops(lambda x: torch.relu(x), (2, 10)) == 10
    with pytest.raises(TypeError, match="function of it"):
        measure_memory(torch.ones(7), (1, 7))
    with pytest.raises(TypeError, match="callable"):
        count_flops(3, (1, 2))
    with pytest.raises(TypeError, match="input"):
        count_flops(torch.nn.Linear(2, 2))


def test_profiles_have_their_keys():
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)), torch.randn(8, 64)
    forward = Profiler().profile_forward_pass(model, x)
    for key in ("parameters flops latency_ms parameter_memory_mb activation_memory_mb gradient_memory_mb peak_memory_mb "
                "memory_efficiency gflops_per_second memory_bandwidth_mbs computational_efficiency is_memory_bound "
                "is_compute_bound bottleneck").split():
        assert key in forward, key
    assert 0 <= forward["memory_efficiency"] <= 1 and 0 <= forward["computational_efficiency"] <= 1
    backward = profile_backward_pass(model, x, lambda y: y.square().sum())
    for key in ("forward_flops backward_flops total_flops forward_latency_ms backward_latency_ms total_latency_ms "
                "forward_memory_mb total_memory_mb total_gflops_per_second").split():
        assert backward[key] > 0, key
    parameters = backward["optimizer_memory_estimates"]["adam"] / 2
    assert parameters == pytest.approx(count_parameters(model) * 4 / 1e6)
    assert all(p.grad is None for p in model.parameters())
    assert measure_memory(model, x)["parameter_memory_mb"] == pytest.approx(count_parameters(model) * 4 / 1e6)


def test_why_alive():
    x = torch.ones(3, requires_grad=True)
    hidden = x.exp()
    loss = (hidden * 2).sum()
    text = why_alive(hidden, {"hidden": hidden, "loss": loss})
    assert "hidden -> ExpBackward0 -> saved result" in text
    assert "hidden" in why_alive(hidden)


def three_deep(x):
    for _ in range(3):
        x = torch.relu(x @ x)
    return x


def test_graph_execution_profiler():
    profiler = GraphExecutionProfiler()
    for n in (100, 200, 400):
        y = profiler.profile_execution(three_deep, torch.randn(n, n, requires_grad=True))
        assert y.shape == (n, n)
    assert [r.graph_nodes for r in profiler.records] == [7, 7, 7]  # three products, three relus, the leaf
    last = profiler.records[-1]
    assert last.after.peak - last.before.allocated >= 3 * 400 * 400 * 4 and last.seconds > 0
    assert len(profiler.report().splitlines()) == 5 and "cached MB" in profiler.report()
    stats = GraphExecutionProfiler.measure_memory()
    assert isinstance(stats, MemoryStats) and stats._fields[:3] == ("allocated", "cached", "reserved")
    assert stats.cached == stats.reserved - stats.allocated
    assert profiler.profile_execution(lambda a, b=1: a + b, 2, b=3) == 5  # whatever it returns
    with pytest.raises(ZeroDivisionError):
        profiler.profile_execution(lambda: 1 // 0)
    assert len(profiler.records) == 4
    profiler.clear()
    assert profiler.records == []


def test_autograd_systems_profiler():
    profiler = AutogradSystemsProfiler()
    depth = profiler.profile_computational_graph_depth(max_depth=3, operations_per_level=5, width=32, repeats=3)
    assert [r["operations"] for r in depth["detailed_results"]] == [5, 10, 15]
    assert [r["nodes"] for r in depth["detailed_results"]] == [7, 12, 17]
    assert depth["scaling_metrics"]["memory_scaling"] == pytest.approx(1, rel=0.2)
    assert depth["primary_bottleneck"] in ("backward_pass", "memory", "balanced") and depth["strategies"]
    trade = profiler.analyze_memory_checkpointing_trade_offs([1, 3], layers=6, width=32, batch=64, repeats=3)
    assert [r["frequency"] for r in trade["detailed_results"]] == [0, 1, 3]
    assert all(r["same_gradients"] for r in trade["detailed_results"]) and trade["detailed_results"][2]["memory_saved"] > 0
    assert trade["best_frequency"] in (0, 1, 3)
    with pytest.raises(ValueError, match="positive"):
        profiler.analyze_memory_checkpointing_trade_offs([0], layers=2, width=8, batch=8, repeats=1)


def test_estimate_a_training_step_without_its_memory():
    with estimate() as cost:
        model = torch.nn.Sequential(torch.nn.Linear(100_000, 50_000), torch.nn.ReLU(), torch.nn.Linear(50_000, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        cost.phase("forward")
        loss = model(torch.randn(64, 100_000)).square().sum()
        cost.phase("backward")
        loss.backward()
        cost.phase("step")
        optimizer.step()
        with pytest.raises(NotImplementedError, match="values are needed"):
            loss.item()
    setup, forward, backward, step = cost.phases
    assert [p["name"] for p in cost.phases] == ["setup", "forward", "backward", "step"]
    parameters = 100_000 * 50_000 + 50_000 + 50_000 * 10 + 10
    assert setup["end_bytes"] == pytest.approx(4 * parameters, rel=1e-6)
    assert forward["contraction_flops"] == 2 * 64 * (100_000 * 50_000 + 50_000 * 10)
    assert backward["contraction_flops"] == forward["contraction_flops"] + 2 * 64 * 50_000 * 10  # the first input wants none
    assert backward["end_bytes_by_category"]["gradient"] == 4 * parameters
    assert step["calls"] >= 4 and torch.ones(2).sum().item() == 2  # four parameters move; outside, values are back
    with pytest.raises(ValueError, match="inside"):
        cost.phase("late")
