"""What one sees of tensors and ops: texts and their options, notebooks, signatures, docstrings, limits of dtypes."""
import html.parser
import inspect
import itertools

import pytest

import pellucid as torch


@pytest.fixture(autouse=True)
def _default_options():
    yield
    torch.set_printoptions(profile="default")


def test_options():
    x = torch.tensor([1.5, -2.25, 1000.5])
    assert repr(x) == "tensor([   1.5000,   -2.2500, 1000.5000])"
    torch.set_printoptions(precision=2, sci_mode=False)
    assert repr(x) == "tensor([   1.50,   -2.25, 1000.50])"
    assert torch.get_printoptions() == {"precision": 2, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": False}
    torch.set_printoptions(profile="short")
    assert repr(torch.tensor([1.5])) == "tensor([1.50])" and torch.get_printoptions()["sci_mode"] is None
    with torch.printoptions(threshold=2, edgeitems=1):
        assert repr(torch.arange(9)) == "tensor([0,  ..., 8])"
    assert repr(torch.arange(9)) == "tensor([0, 1, 2, 3, 4, 5, 6, 7, 8])"
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.zeros(2000))
    torch.set_printoptions(threshold=float("inf"))
    for wrong in ({"precision": -1}, {"linewidth": -3}, {"profile": "wide"}):
        with pytest.raises(ValueError):
            torch.set_printoptions(**wrong)


def test_options_print_as_pytorchs():
    theirs = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
    values = {"float32": [0.5, 1e-5, 12345.678, float("nan")], "float64": [1.0, 2.0, -30.0], "int64": [1, -200, 3], "bool": [True, False]}
    shapes = [(4,), (2, 3), (30,), (3, 2, 5), (40, 40)]
    options = [{}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40}, {"threshold": 5, "edgeitems": 2},
               {"precision": 0}, {"threshold": 20, "edgeitems": 1, "linewidth": 30, "precision": 7}]
    try:
        for (dtype, cycle), shape, option in itertools.product(values.items(), shapes, options):
            count = 1
            for n in shape:
                count *= n
            data = list(itertools.islice(itertools.cycle(cycle), count))
            for module in (theirs, torch):
                module.set_printoptions(profile="default")
                module.set_printoptions(**option)
            a = torch.tensor(data, dtype=getattr(torch, dtype)).reshape(shape)
            b = theirs.tensor(data, dtype=getattr(theirs, dtype)).reshape(shape)
            assert repr(a) == repr(b), option
    finally:
        theirs.set_printoptions(profile="default")


class Tags(html.parser.HTMLParser):
    """Checks that tags close in order; counts them."""

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.texts = [], {}, []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_notebooks_show_tables():
    page = Tags(torch.tensor([[1.0, -2.5], [float("nan"), 4.0]])._repr_html_())
    assert page.counts["table"] == 1 and page.counts["td"] == 4 and {"1", "-2.5", "nan", "4"} <= set(page.texts)
    assert "(2, 2) · torch.float32 · 16 bytes" in page.texts
    large = Tags(torch.zeros(1000, 3)._repr_html_())
    assert large.counts["td"] == 21 * 3 and "999" in large.texts
    deep = Tags((torch.ones(2, 2, 2, requires_grad=True) * 2)._repr_html_())
    assert "pre" in deep.counts and any("grad_fn=<MulBackward0>" in t for t in deep.texts)  # escaped: read back as text
    assert "pre" in Tags(torch.tensor(1)._repr_html_()).counts and "pre" in Tags(torch.zeros(0)._repr_html_()).counts


def test_graphs_show_pictures():
    x = torch.ones(2, requires_grad=True)
    picture = torch.torchviz.make_dot((x * 2).sum(), params={"<x>": x})._repr_svg_()
    assert picture.count("<svg") == 1 and "&lt;x&gt;" in picture and "<x>" not in picture


def test_signatures_of_ops():
    assert str(inspect.signature(torch.add)) == "(input: Tensor, other: Tensor or Number, *, alpha: Number = 1) -> pellucid.Tensor"
    parameters = inspect.signature(torch.Tensor.softmax).parameters
    assert list(parameters) == ["self", "dim", "dtype"] and parameters["dtype"].default is None
    assert list(inspect.signature(torch.ones(1).softmax).parameters) == ["dim", "dtype"]
    assert inspect.signature(torch.zeros).parameters["requires_grad"].default is False
    bound = inspect.signature(torch.clamp).bind(torch.ones(1), max=3)
    assert bound.arguments["max"] == 3
    for name, f in torch._C.functions.items():
        assert inspect.signature(f), name
    for name in ("add", "softmax"):
        text = getattr(torch, name).__doc__
        assert text.startswith(name + "(") and len(text.splitlines()[-1]) > 5


def test_public_functions_and_classes_have_docstrings():
    import pellucid.nn.functional as F
    missing = [f"{m.__name__}.{n}" for m in (torch, F, torch.autograd, torch.utils.data, torch.optim, torch.nn)
               for n, f in vars(m).items() if not n.startswith("_") and (inspect.isfunction(f) or inspect.isclass(f))
               and f.__module__.startswith("pellucid") and not inspect.getdoc(f)]
    assert missing == []


def test_limits_are_pytorchs():
    theirs = pytest.importorskip("torch", reason="PyTorch is not installed, so there is nothing to compare with")
    for name in ("float64", "float32", "float16", "bfloat16"):
        a, b = torch.finfo(getattr(torch, name)), theirs.finfo(getattr(theirs, name))
        for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
            assert getattr(a, fact) == getattr(b, fact), (name, fact)
        assert repr(a) == repr(b)
        assert a == torch.finfo(getattr(torch, name)) and a != torch.iinfo(torch.int8)
    for name in ("int64", "int32", "int16", "int8", "uint8"):
        a, b = torch.iinfo(getattr(torch, name)), theirs.iinfo(getattr(theirs, name))
        assert (a.bits, a.min, a.max, a.dtype) == (b.bits, b.min, b.max, b.dtype)
    assert torch.finfo().dtype == "float32"
    for wrong in (lambda: torch.finfo(torch.int8), lambda: torch.iinfo(torch.float32), lambda: torch.iinfo(torch.bool)):
        with pytest.raises(TypeError):
            wrong()
