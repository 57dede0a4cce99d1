"""Modules: registration, calls with hooks, state, texts, every layer, initialisers, clipping."""
import copy

import pytest

import pellucid as torch
import pellucid.nn as nn
import pellucid.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.second = nn.Linear(3, 2, bias=False)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("scratch", torch.tensor(1.0), persistent=False)
        self.note = "no part"

    def forward(self, x):
        return self.second(F.relu(self.first(x))) * self.scale


def test_attributes_register_themselves():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "second.weight"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert sum(p.numel() for p in net.parameters()) == 2 + 12 + 3 + 6
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    with pytest.raises(TypeError):
        net.first = torch.ones(1)
    with pytest.raises(AttributeError, match="has no attribute 'third'"):
        net.third
    with pytest.raises(KeyError):
        net.register_buffer("note", torch.ones(1))
    del net.first
    assert not hasattr(net, "first")

    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.ones(1))
    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()


def test_state_dict_goes_round():
    a, b = Net(), Net()
    state = a.state_dict()
    assert list(state) == ["scale", "count", "first.weight", "first.bias", "second.weight"]
    assert str(b.load_state_dict(state)) == "<All keys matched successfully>"
    x = torch.randn(5, 4)
    assert torch.equal(a(x), b(x))
    state.pop("count")
    state["extra"] = torch.ones(1)
    with pytest.raises(RuntimeError, match='Missing key.*"count"'):
        b.load_state_dict(state)
    with pytest.raises(RuntimeError, match='Unexpected key.*"extra"'):
        b.load_state_dict(state)
    kept = b.load_state_dict(state, strict=False)
    assert kept.missing_keys == ["count"] and kept.unexpected_keys == ["extra"]
    with pytest.raises(RuntimeError, match="size mismatch for first.weight"):
        b.load_state_dict({"first.weight": torch.ones(2, 2)}, strict=False)


def test_hooks_are_called_and_removed():
    net, calls = Net(), []
    handles = [net.register_forward_pre_hook(lambda m, a: calls.append("pre")),
               net.register_forward_hook(lambda m, a, y: calls.append("post") or y * 2),
               net.register_full_backward_hook(lambda m, gi, go: calls.append(("back", go[0].shape, gi[0].shape)))]
    x = torch.randn(5, 4, requires_grad=True)
    y = net(x)
    y.sum().backward()
    assert calls == ["pre", "post", ("back", (5, 2), (5, 4))]
    [h.remove() for h in handles]
    assert torch.allclose(net(x) * 2, y) and len(calls) == 3


def test_modes_dtypes_and_gradients():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))
    assert net.training and not net.eval()[1].training and net.train()[1].training
    assert net.double()[0].weight.dtype is torch.float64 and net.float()[0].bias.dtype is torch.float32
    assert net[2].num_batches_tracked.dtype is torch.int64
    net(torch.randn(4, 2)).sum().backward()
    assert net[0].weight.grad is not None
    net.zero_grad()
    assert net[0].weight.grad is None
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    twin = copy.deepcopy(net)
    assert twin[0].weight is not net[0].weight and torch.equal(twin[0].weight, net[0].weight)


def test_texts_are_pytorchs():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())
    assert repr(net) == ("Sequential(\n  (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
                         "  (1): ReLU(inplace=True)\n  (2): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, "
                         "ceil_mode=False)\n  (3): Flatten(start_dim=1, end_dim=-1)\n)")
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.LSTM(2, 3, 2, batch_first=True)) == "LSTM(2, 3, num_layers=2, batch_first=True)"


IMAGE, LINE, ROWS = (2, 4, 8, 8), (2, 4, 8), (6, 4)
LAYERS = [
    (lambda: nn.Linear(4, 3), ROWS, (6, 3)), (lambda: nn.Conv1d(4, 6, 3, padding=1, padding_mode="circular"), LINE, (2, 6, 8)),
    (lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), IMAGE, (2, 6, 3, 3)), (lambda: nn.Conv2d(4, 4, 3, padding="same"), IMAGE, IMAGE),
    (lambda: nn.ConvTranspose1d(4, 2, 3, stride=2), LINE, (2, 2, 17)),
    (lambda: nn.ConvTranspose2d(4, 2, 2, stride=2), IMAGE, (2, 2, 16, 16)),
    (lambda: nn.BatchNorm1d(4), ROWS, ROWS), (lambda: nn.BatchNorm2d(4), IMAGE, IMAGE), (lambda: nn.InstanceNorm1d(4), LINE, LINE),
    (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE, IMAGE), (lambda: nn.LayerNorm(4), ROWS, ROWS), (lambda: nn.RMSNorm(4), ROWS, ROWS),
    (lambda: nn.GroupNorm(2, 4), IMAGE, IMAGE), (lambda: nn.LocalResponseNorm(2), IMAGE, IMAGE), (lambda: nn.PReLU(4), IMAGE, IMAGE),
    (lambda: nn.GLU(1), IMAGE, (2, 2, 8, 8)), (lambda: nn.Softmax(dim=1), ROWS, ROWS), (lambda: nn.Softmax2d(), IMAGE, IMAGE),
    (lambda: nn.MaxPool1d(2), LINE, (2, 4, 4)), (lambda: nn.AvgPool1d(2), LINE, (2, 4, 4)), (lambda: nn.AvgPool2d(2), IMAGE, (2, 4, 4, 4)),
    (lambda: nn.AdaptiveAvgPool1d(3), LINE, (2, 4, 3)), (lambda: nn.AdaptiveAvgPool2d((1, None)), IMAGE, (2, 4, 1, 8)),
    (lambda: nn.AdaptiveMaxPool1d(3), LINE, (2, 4, 3)), (lambda: nn.AdaptiveMaxPool2d(3), IMAGE, (2, 4, 3, 3)),
    (lambda: nn.LPPool1d(2, 2), LINE, (2, 4, 4)), (lambda: nn.LPPool2d(2, 2), IMAGE, (2, 4, 4, 4)),
    (lambda: nn.ZeroPad2d(1), IMAGE, (2, 4, 10, 10)), (lambda: nn.ReflectionPad1d(2), LINE, (2, 4, 12)),
    (lambda: nn.ReplicationPad2d((1, 0, 0, 1)), IMAGE, (2, 4, 9, 9)), (lambda: nn.ConstantPad1d(1, 3.0), LINE, (2, 4, 10)),
    (lambda: nn.PixelShuffle(2), IMAGE, (2, 1, 16, 16)), (lambda: nn.PixelUnshuffle(2), IMAGE, (2, 16, 4, 4)),
    (lambda: nn.Flatten(), IMAGE, (2, 256)), (lambda: nn.Unflatten(1, (2, 2)), ROWS, (6, 2, 2)), (lambda: nn.Identity(), ROWS, ROWS),
    (lambda: nn.Upsample(scale_factor=2), IMAGE, (2, 4, 16, 16)),
    *[(k, ROWS, ROWS) for k in (nn.ReLU, nn.ReLU6, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid,
                                nn.LeakyReLU, nn.Hardtanh, nn.Hardshrink, nn.Softshrink, nn.Softplus, nn.RReLU, nn.Sigmoid, nn.Tanh,
                                nn.Softsign, nn.Tanhshrink, nn.LogSigmoid, nn.Dropout, nn.AlphaDropout)],
    (lambda: nn.LogSoftmax(1), ROWS, ROWS), (lambda: nn.Softmin(1), ROWS, ROWS), (lambda: nn.Threshold(0.1, 0.0), ROWS, ROWS),
    (lambda: nn.Dropout2d(), IMAGE, IMAGE), (lambda: nn.FeatureAlphaDropout(), IMAGE, IMAGE),
]


@pytest.mark.parametrize("make, given, expected", LAYERS)
def test_layers_run_and_give_gradients(make, given, expected):
    layer = make()
    x = torch.randn(given, requires_grad=True)
    y = layer(x)
    assert tuple(y.shape) == expected
    y.sum().backward()
    assert x.grad.shape == given and all(p.grad is not None for p in layer.parameters())
    assert repr(layer).startswith(type(layer).__name__ + "(")


def test_recurrent_layers_and_cells_are_functions():
    x, h, c = torch.ones(3, 2, 4), torch.zeros(1, 2, 5), torch.ones(1, 2, 5)
    layer = nn.LSTM(4, 5)
    output, (last_h, last_c) = layer(x, (h, c))
    found = torch.lstm(x, (h, c), list(layer.parameters()), True, 1, 0.0, False, False, False)
    assert all(torch.equal(a, b) for a, b in zip(found, (output, last_h, last_c)))
    cell = nn.GRUCell(4, 5)
    assert torch.equal(cell(x[0], h[0]), torch.gru_cell(x[0], h[0], *cell.parameters()))
    with pytest.raises(ValueError, match="need 4 parameters"):
        torch.gru(x, h, list(layer.parameters())[:3], True, 1, 0.0, False, False, False)


@pytest.mark.parametrize("kind, states", [(nn.RNN, 1), (nn.GRU, 1), (nn.LSTM, 2)])
def test_recurrent_layers_agree_with_their_cells(kind, states):
    layer = kind(3, 5, 1)
    cell = getattr(nn, kind.__name__ + "Cell")(3, 5)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, name).data = getattr(layer, name + "_l0").data
    x = torch.randn(4, 2, 3)
    out, last = layer(x)
    state = None
    for step in x:
        state = cell(step, state)
    h = state[0] if states == 2 else state
    assert torch.allclose(out[-1], h, atol=1e-6) and torch.allclose((last[0] if states == 2 else last)[0], h, atol=1e-6)
    both = kind(3, 5, 2, bidirectional=True, batch_first=True, dropout=0.1)
    y, _ = both(torch.randn(2, 4, 3))
    assert y.shape == (2, 4, 10)
    with pytest.raises(RuntimeError):
        layer(torch.randn(4, 2, 7))


def test_attention_and_transformer():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8)
    with_weights, weights = attention(x, x, x)
    without, none = attention(x, x, x, need_weights=False)
    assert none is None and weights.shape == (2, 5, 5) and torch.allclose(with_weights, without, atol=1e-5)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 5))
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    assert model(x, torch.randn(2, 4, 8), tgt_mask=mask).shape == (2, 4, 8)
    cached = nn.CachedAttention(16, 2)
    x = torch.randn(1, 6, 16)
    steps = torch.cat([cached(x[:, i:i + 1], use_cache=True, clear_cache=i == 0) for i in range(6)], 1)
    assert torch.allclose(cached(x), steps, atol=1e-5)
    with pytest.raises(ValueError, match="even"):
        nn.RotaryEmbedding(7)


def test_losses_know_the_old_flags():
    x, t = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    one_each = nn.CrossEntropyLoss(reduction="none")(x, t)
    assert torch.allclose(nn.CrossEntropyLoss()(x, t), one_each.mean())
    assert torch.allclose(nn.CrossEntropyLoss(size_average=False)(x, t), one_each.sum())
    assert nn.MSELoss(reduce=False)(x, x).shape == (4, 3)
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        nn.L1Loss(reduction="median")(x, x)
    with pytest.raises(TypeError):
        nn.MSELoss(margin=1)


def test_containers():
    stack = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    stack.append(nn.Linear(2, 1))
    assert len(stack) == 3 and isinstance(stack[-1], nn.Linear) and len(stack[:2]) == 2
    parts = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    parts.insert(1, nn.ReLU())
    assert len(list(parts.parameters())) == 6 and isinstance(parts[1], nn.ReLU)
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"] and "a" in table
    weights = nn.ParameterList([torch.ones(2), nn.Parameter(torch.ones(3))])
    assert [p.numel() for p in weights.parameters()] == [2, 3] and all(p.requires_grad for p in weights)
    with pytest.raises(IndexError):
        parts[9]


def test_initialisers_and_clipping():
    w = torch.empty(50, 40)
    nn.init.xavier_uniform_(w)
    assert w.abs().max().item() <= (6 / 90) ** 0.5 + 1e-6
    q = nn.init.orthogonal_(torch.empty(4, 4))
    assert torch.allclose(q @ q.t(), torch.eye(4), atol=1e-5)
    assert nn.init.constant_(torch.empty(2), 3.0).tolist() == [3, 3] and nn.init.eye_(torch.empty(2, 2)).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError):
        nn.init.xavier_normal_(torch.empty(3))
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(5.0)
    assert p.grad.norm().item() == pytest.approx(1.0, abs=1e-5)
    nn.utils.clip_grad_value_([p], 0.5)
    assert p.grad.max().item() <= 0.5


def test_missing_names_are_named():
    with pytest.raises(AttributeError, match="Conv9d"):
        nn.Conv9d
    with pytest.raises(AttributeError, match="no_such"):
        F.no_such
