"""Losses as layers; each holds the arguments of its function."""
from .. import functional as F
from .._reduction import legacy
from .module import Module


class _Loss(Module):
    """The base of losses, also of a program's own: it holds the reduction."""

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.reduction = legacy(size_average, reduce) if size_average is not None or reduce is not None else reduction


class _WeightedLoss(_Loss):
    """The base of a program's own losses with weights of classes."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _LossLayer(_Loss):
    """A loss: `arguments` are the options of the function beside the reduction, with their defaults."""
    arguments: dict = {}
    function = None
    check = None  # what refuses arguments outside their domain: check(values by name)

    def __init__(self, *args, size_average=None, reduce=None, reduction="mean", **given):
        super().__init__(size_average, reduce, reduction)
        names = list(self.arguments)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes {len(names)} positional arguments but {len(args)} were given")
        unknown = set(given) - set(names)
        if unknown:
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument '{min(unknown)}'")
        values = {**self.arguments, **dict(zip(names, args)), **given}
        if self.check is not None:
            self.check(values)
        for name, value in values.items():
            if name in ("weight", "pos_weight"):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs):
        return type(self).function(*inputs, **{n: getattr(self, n) for n in self.arguments}, reduction=self.reduction)


def _loss(name, function, check=None, **arguments):
    return type(name, (_LossLayer,), {"function": staticmethod(function), "arguments": arguments, "__doc__": function.__doc__,
                                      "check": check, "__module__": __name__})


def _positive_margin(self, values):
    if values["margin"] <= 0:
        raise ValueError(f"{type(self).__name__}: expected margin to be greater than 0, got {values['margin']} instead")


def _known_power(self, values):
    if values["p"] not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if values["weight"] is not None and values["weight"].ndim != 1:
        raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {values['weight'].ndim}D instead")


L1Loss = _loss("L1Loss", F.l1_loss)
MSELoss = _loss("MSELoss", F.mse_loss)
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss, beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss, delta=1.0)
CrossEntropyLoss = _loss("CrossEntropyLoss", F.cross_entropy, weight=None, ignore_index=-100, label_smoothing=0.0)
NLLLoss = _loss("NLLLoss", F.nll_loss, weight=None, ignore_index=-100)
BCELoss = _loss("BCELoss", F.binary_cross_entropy, weight=None)
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, weight=None, pos_weight=None)
KLDivLoss = _loss("KLDivLoss", F.kl_div, log_target=False)
PoissonNLLLoss = _loss("PoissonNLLLoss", F.poisson_nll_loss, log_input=True, full=False, eps=1e-8)
GaussianNLLLoss = _loss("GaussianNLLLoss", F.gaussian_nll_loss, full=False, eps=1e-6)
SoftMarginLoss = _loss("SoftMarginLoss", F.soft_margin_loss)
HingeEmbeddingLoss = _loss("HingeEmbeddingLoss", F.hinge_embedding_loss, margin=1.0)
CosineEmbeddingLoss = _loss("CosineEmbeddingLoss", F.cosine_embedding_loss, margin=0.0)
MarginRankingLoss = _loss("MarginRankingLoss", F.margin_ranking_loss, margin=0.0)
TripletMarginLoss = _loss("TripletMarginLoss", F.triplet_margin_loss, _positive_margin, margin=1.0, p=2.0, eps=1e-6, swap=False)
TripletMarginWithDistanceLoss = _loss("TripletMarginWithDistanceLoss", F.triplet_margin_with_distance_loss,
                                      _positive_margin, distance_function=None, margin=1.0, swap=False)
MultiMarginLoss = _loss("MultiMarginLoss", F.multi_margin_loss, _known_power, p=1, margin=1.0, weight=None)
MultiLabelSoftMarginLoss = _loss("MultiLabelSoftMarginLoss", F.multilabel_soft_margin_loss, weight=None)
MultiLabelMarginLoss = _loss("MultiLabelMarginLoss", F.multilabel_margin_loss)
CTCLoss = _loss("CTCLoss", F.ctc_loss, blank=0, zero_infinity=False)
NLLLoss2d = NLLLoss
