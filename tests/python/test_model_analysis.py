"""Model analysis from Python: the worked figures of parameters and FLOPs, on modules, functions, objects and tensors."""
import pytest

import pellucid as torch
from pellucid.profiler import (Profiler, count_flops, count_parameters, measure_memory, profile_backward_pass, profile_forward_pass,
                               why_alive)


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
