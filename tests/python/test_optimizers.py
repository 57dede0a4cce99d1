"""The rarer optimisers, averages of models and schedules that chain. Numbers are PyTorch 2.13's for the same steps."""
import pytest

import pellucid as torch
from pellucid import nn, optim
from pellucid.optim import lr_scheduler, swa_utils


def wave(*shape, k=1.0):
    count = 1
    for n in shape:
        count *= n
    return torch.cos(torch.arange(count, dtype=torch.float32) * 0.71 * k + k).view(*shape)


def fill(model):
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            p.copy_((torch.sin(torch.arange(p.numel(), dtype=torch.float32) * 0.37 + k) * 0.2).view(p.shape))
    return model


def run(make, steps):
    model = fill(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    optimizer, x, y = make(model.parameters()), wave(6, 3), wave(6, 1, k=2)

    def closure():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss

    for _ in range(steps):
        loss = optimizer.step(closure)
    return float(loss), model[0].weight.flatten()[:3].tolist(), optimizer


@pytest.mark.parametrize("name, options, steps, loss, weights", [
    ("Adadelta", dict(lr=1.0, weight_decay=0.01), 5, 0.55439, [0.016, 0.0565, 0.1189]),
    ("Adamax", dict(lr=0.05, weight_decay=0.01), 5, 0.45942, [0.2099, -0.09, -0.0433]),
    ("NAdam", dict(lr=0.05, weight_decay=0.01), 5, 0.44568, [0.1831, -0.0597, -0.0187]),
    ("RAdam", dict(lr=0.05, weight_decay=0.01), 12, 0.49844, [0.0199, 0.0497, 0.1028]),
    ("ASGD", dict(lr=0.1), 5, 0.49575, [0.0096, 0.0587, 0.1046]),
    ("Rprop", dict(lr=0.01), 5, 0.50931, [0.0744, -0.0021, 0.0604]),
    ("LBFGS", dict(lr=0.5, max_iter=4), 5, 0.38746, [0.1547, -0.1041, -0.2874]),
])
def test_steps_are_those_of_pytorch(name, options, steps, loss, weights):
    found, values, optimizer = run(lambda p: getattr(optim, name)(p, **options), steps)
    assert found == pytest.approx(loss, abs=2e-5)
    assert values == pytest.approx(weights, abs=2e-4)
    optimizer.load_state_dict(optimizer.state_dict())


def test_lbfgs_with_a_line_search_finds_the_least():
    x = torch.tensor([-1.2, 1.0], requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.tolist() == pytest.approx([1, 1], abs=1e-3)
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [x]}, {"params": [torch.ones(1, requires_grad=True)]}])


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_a_state_dict_of_pytorch_goes_on(name):
    """PyTorch counts steps in tensors of one float."""
    def stepped(reload):
        p = nn.Parameter(wave(4))
        optimizer = getattr(optim, name)([p], lr=0.1)
        for step in range(6):
            if reload and step == 3:
                saved = optimizer.state_dict()
                for state in saved["state"].values():
                    state["step"] = state["step"].to(torch.float32)
                optimizer = getattr(optim, name)([p], lr=0.1)
                optimizer.load_state_dict(saved)
            p.grad = wave(4, k=step + 1.5)
            optimizer.step()
        return p.detach(), float(optimizer.state[p]["step"])
    (one, count), (two, same_count) = stepped(False), stepped(True)
    assert count == same_count == 6 and torch.equal(one, two)


@pytest.mark.parametrize("name", ["Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_a_step_is_one_op_a_parameter(name):
    p = nn.Parameter(wave(4))
    optimizer = getattr(optim, name)([p])
    p.grad = wave(4, k=2.0)
    optimizer.step()
    with torch.profiler.profile() as profile:
        optimizer.step()
    assert [e.count for e in profile.key_averages() if e.key.endswith(f"{name.lower()}_step")] == [1]
    assert not [e.key for e in profile.key_averages() if e.key in ("mul", "addcmul", "addcdiv", "add", "sqrt", "lerp")]


def test_bad_options_are_refused():
    parameters = [torch.ones(1, requires_grad=True)]
    for make in (lambda: optim.NAdam(parameters, lr=-1), lambda: optim.Rprop(parameters, etas=(1.5, 1.2)),
                 lambda: optim.Adamax(parameters, betas=(1.0, 0.9))):
        with pytest.raises(ValueError, match="Invalid"):
            make()


def rates(make, steps):
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedulers, found = make(optimizer), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in schedulers if isinstance(schedulers, tuple) else (schedulers,):
            scheduler.step()
    return found


def test_schedules_chain():
    two = rates(lambda o: (lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.MultiStepLR(o, [2, 4])), 6)
    assert two == pytest.approx([0.1, 0.09, 0.0081, 0.00729, 0.0006561, 0.00059049])
    chained = rates(lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.1, 3),
                                                             lr_scheduler.ExponentialLR(o, 0.9)]), 5)
    assert chained == pytest.approx([0.01, 0.009, 0.0081, 0.0729, 0.06561])
    warm = rates(lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 3),
                                                         lr_scheduler.CosineAnnealingLR(o, 8)], milestones=[3]), 5)
    assert warm == pytest.approx([0.01, 0.04, 0.07, 0.1, 0.09619398])


def test_a_rate_that_was_changed_by_hand_is_multiplied():
    optimizer = optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.param_groups[0]["lr"] = 1.0
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.5)


def test_cyclic_schedule():
    found = rates(lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, 2, mode="triangular2"), 6)
    assert found == pytest.approx([0.01, 0.055, 0.1, 0.055, 0.01, 0.0325])
    with pytest.raises(ValueError, match="momentum"):
        lr_scheduler.CyclicLR(optim.Adagrad([nn.Parameter(torch.zeros(1))]), 0.01, 0.1)


def test_averages_of_a_model():
    model = nn.Linear(1, 1, bias=False)
    mean = swa_utils.AveragedModel(model)
    fading = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    for value in (1.0, 2.0, 6.0):
        model.weight.data.fill_(value)
        mean.update_parameters(model)
        fading.update_parameters(model)
    assert mean.module.weight.item() == pytest.approx(3.0)
    assert fading.module.weight.item() == pytest.approx(0.9 * (0.9 * 1 + 0.1 * 2) + 0.1 * 6)
    assert mean(torch.ones(1, 1)).item() == pytest.approx(3.0) and mean.n_averaged.item() == 3


def test_update_bn_takes_the_plain_mean():
    model = nn.Sequential(nn.BatchNorm1d(1))
    swa_utils.update_bn([torch.tensor([[0.0], [2.0]]), torch.tensor([[4.0], [6.0]])], model)
    assert model[0].running_mean.item() == pytest.approx(3.0) and model[0].momentum == 0.1
