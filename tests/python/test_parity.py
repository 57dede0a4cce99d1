"""Layers, losses, optimisers and schedules against PyTorch, where it is installed: same weights, same outputs and gradients."""
import pytest

import pellucid

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

IMAGE, LINE, ROWS, TIME, VOLUME = (3, 4, 8, 8), (3, 4, 9), (6, 4), (5, 3, 4), (2, 4, 5, 6, 7)
LAYERS = [
    ("Linear", (4, 3), {}, [ROWS]), ("Bilinear", (4, 4, 3), {}, [ROWS, ROWS]), ("Conv1d", (4, 6, 3), {"padding": 1, "padding_mode": "circular"}, [LINE]),
    ("Conv2d", (4, 6, 3), {"stride": 2, "groups": 2, "padding": (1, 0)}, [IMAGE]), ("Conv2d", (4, 6, 3), {"padding": "same", "dilation": 2}, [IMAGE]),
    ("ConvTranspose1d", (4, 2, 3), {"stride": 2, "output_padding": 1}, [LINE]), ("ConvTranspose2d", (4, 2, 3), {"stride": 2, "padding": 1}, [IMAGE]),
    ("Conv3d", (4, 6, 3), {"stride": (1, 2, 1), "padding": 1, "groups": 2}, [VOLUME]), ("BatchNorm3d", (4,), {}, [VOLUME]),
    ("BatchNorm1d", (4,), {}, [ROWS]), ("BatchNorm2d", (4,), {"momentum": None}, [IMAGE]), ("InstanceNorm2d", (4,), {"affine": True}, [IMAGE]),
    ("LayerNorm", ((8, 8),), {}, [IMAGE]), ("RMSNorm", (4,), {}, [ROWS]), ("GroupNorm", (2, 4), {}, [IMAGE]), ("LocalResponseNorm", (3,), {}, [IMAGE]),
    ("PReLU", (4,), {}, [IMAGE]), ("GLU", (1,), {}, [IMAGE]), ("Softmin", (1,), {}, [ROWS]), ("GELU", (), {"approximate": "tanh"}, [ROWS]),
    ("Softplus", (2.0, 5.0), {}, [ROWS]), ("RReLU", (), {}, [ROWS]), ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, [IMAGE]), ("AvgPool2d", (3, 2, 1), {}, [IMAGE]),
    ("LPPool2d", (2, 2), {}, [IMAGE]), ("AdaptiveAvgPool2d", ((3, 5),), {}, [IMAGE]), ("AdaptiveMaxPool2d", (3,), {}, [IMAGE]),
    ("ReflectionPad2d", (2,), {}, [IMAGE]), ("ReplicationPad1d", ((1, 2),), {}, [LINE]), ("PixelShuffle", (2,), {}, [IMAGE]),
    ("CosineSimilarity", (), {}, [ROWS, ROWS]), ("PairwiseDistance", (), {}, [ROWS, ROWS]), ("RNN", (4, 5, 2), {"nonlinearity": "relu"}, [TIME]),
    ("LSTM", (4, 5, 2), {"bidirectional": True, "batch_first": True}, [TIME]), ("LSTM", (4, 5), {"proj_size": 3}, [TIME]), ("GRU", (4, 5, 2), {"bias": False}, [TIME]),
    ("LSTMCell", (4, 5), {}, [ROWS]), ("GRUCell", (4, 5), {}, [ROWS]), ("MultiheadAttention", (4, 2), {"add_bias_kv": True, "add_zero_attn": True}, [TIME, TIME, TIME]),
    ("MultiheadAttention", (4, 2), {"kdim": 4, "vdim": 4, "batch_first": True}, [TIME, TIME, TIME]),
    ("TransformerEncoderLayer", (4, 2, 8), {"dropout": 0.0, "norm_first": True}, [TIME]), ("TransformerDecoderLayer", (4, 2, 8), {"dropout": 0.0, "activation": "gelu"}, [TIME, TIME]),
    ("Transformer", (4, 2, 1, 1, 8), {"dropout": 0.0}, [TIME, TIME]), ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}, [IMAGE]),
]


def tensors(value):
    if isinstance(value, (torch.Tensor, pellucid.Tensor)):
        return [value]
    return [t for v in value or () for t in tensors(v)]


def ours(t):
    return pellucid.from_dlpack(t.detach().clone())


def assert_same(found, expected):
    for a, e in zip(tensors(found), tensors(expected), strict=True):
        torch.testing.assert_close(torch.from_dlpack(a.detach()), e.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name, args, kwargs, sizes", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layer(name, args, kwargs, sizes, training):
    torch.manual_seed(1)
    if name == "RReLU" and training:
        pytest.skip("random")
    theirs, mine = getattr(torch.nn, name)(*args, **kwargs).double(), getattr(pellucid.nn, name)(*args, **kwargs).double()
    assert list(theirs.state_dict()) == list(mine.state_dict())
    mine.load_state_dict({k: ours(v) for k, v in theirs.state_dict().items()})
    theirs.train(training), mine.train(training)
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes]
    my_inputs = [ours(t).requires_grad_() for t in inputs]
    expected, found = theirs(*inputs), mine(*my_inputs)
    assert_same(found, expected)
    sum(t.square().sum() for t in tensors(expected) if t.requires_grad).backward()
    sum((t * t).sum() for t in tensors(found) if t.requires_grad).backward()
    assert_same([t.grad for t in my_inputs], [t.grad for t in inputs])
    assert_same([p.grad for p in mine.parameters()], [p.grad for p in theirs.parameters()])
    assert_same(list(mine.state_dict().values()), list(theirs.state_dict().values()))
    assert repr(mine) == repr(theirs)


LOSSES = [("L1Loss", {}), ("MSELoss", {"reduction": "sum"}), ("SmoothL1Loss", {"beta": 0.5}), ("HuberLoss", {"delta": 0.7}), ("SoftMarginLoss", {}),
          ("BCEWithLogitsLoss", {}), ("KLDivLoss", {"reduction": "batchmean"}), ("PoissonNLLLoss", {}), ("MultiLabelSoftMarginLoss", {})]


@pytest.mark.parametrize("name, kwargs", LOSSES)
def test_loss(name, kwargs):
    x, t = torch.randn(4, 3, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64)
    assert_same(getattr(pellucid.nn, name)(**kwargs)(ours(x), ours(t)), getattr(torch.nn, name)(**kwargs)(x, t))


@pytest.mark.parametrize("name, kwargs", [("CrossEntropyLoss", {"label_smoothing": 0.1}), ("NLLLoss", {"ignore_index": 1}), ("MultiMarginLoss", {"p": 2})])
def test_class_loss(name, kwargs):
    x, t = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
    assert_same(getattr(pellucid.nn, name)(**kwargs)(ours(x), ours(t)), getattr(torch.nn, name)(**kwargs)(x, t))


OPTIMIZERS = [("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
              ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}), ("AdamW", {"lr": 0.1}), ("Adam", {"lr": 0.1, "maximize": True}),
              ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5})]
SCHEDULES = [("StepLR", (2,)), ("MultiStepLR", ([1, 3],)), ("ExponentialLR", (0.9,)), ("CosineAnnealingLR", (5,)), ("LinearLR", ()), ("ConstantLR", ()),
             ("PolynomialLR", (4, 2.0)), ("CosineAnnealingWarmRestarts", (2, 2)), ("OneCycleLR", (0.5, 8))]


@pytest.mark.parametrize("name, options", OPTIMIZERS)
def test_optimizer(name, options):
    start = torch.randn(5, dtype=torch.float64)
    a, b = torch.nn.Parameter(start.clone()), pellucid.nn.Parameter(ours(start))
    one, two = getattr(torch.optim, name)([a], **options), getattr(pellucid.optim, name)([b], **options)
    for step in range(5):
        a.grad = (a.detach() * (step + 1)).sin()
        b.grad = (b.detach() * (step + 1)).sin()
        one.step(), two.step()
    torch.testing.assert_close(torch.from_dlpack(b.detach()), a.detach())


@pytest.mark.parametrize("name, args", SCHEDULES)
def test_schedule(name, args):
    rates = []
    for lib in (torch, pellucid):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.0, momentum=0.9)
        scheduler = getattr(lib.optim.lr_scheduler, name)(optimizer, *args)
        rates.append([])
        for _ in range(7):
            rates[-1].append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
            optimizer.step(), scheduler.step()
    assert rates[1] == [pytest.approx(r) for r in rates[0]]
