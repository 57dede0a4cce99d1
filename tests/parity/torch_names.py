"""Which function of PyTorch computes what an op definition computes.

An op is looked up by its name, in aten first: it takes reductions and the like as the schemas do, where
torch.nn.functional means something else. OWN says how to compute what PyTorch has under another name or only inside
something else; NO_COUNTERPART what it does not have; DIFFERENCES where the answers differ by design.
"""
import math

import torch
import torch.nn.functional as F
from torch.optim.adadelta import adadelta
from torch.optim.adagrad import adagrad
from torch.optim.adam import adam
from torch.optim.adamax import adamax
from torch.optim.asgd import asgd
from torch.optim.nadam import nadam
from torch.optim.radam import radam
from torch.optim.rmsprop import rmsprop
from torch.optim.rprop import rprop
from torch.optim.sgd import sgd

aten = torch.ops.aten
SPACES = [torch, F, torch.Tensor, torch.special, torch.linalg]


def gradients_of(function, grad_output, inputs):
    """The gradients of function(*inputs) by each input, themselves differentiable; zeros where it does not depend."""
    with torch.enable_grad():
        leaves = [t if t.requires_grad else t.detach().requires_grad_() for t in inputs]
        y = function(*leaves)
        return torch.autograd.grad(y, leaves, grad_output, create_graph=True, materialize_grads=True)


def derivative(function):
    """function's vjp as an op: backward(grad_output, *args) -> the gradient of args[0]."""
    return lambda grad_output, x, *args, **kwargs: gradients_of(lambda t: function(t, *args, **kwargs), grad_output, [x])[0]


def of_linear(function, grad_output, sizes):
    """The gradient of a linear function, which does not depend on its input."""
    return gradients_of(function, grad_output, [torch.zeros(sizes, dtype=grad_output.dtype)])[0]


def masked(function, grad_output, inputs, mask):
    """The gradients that the mask asks for; None for the others."""
    wanted = [t for t, m in zip(inputs, mask) if m]
    def with_wanted(*given):
        given = iter(given)
        return function(*[next(given) if m else t for t, m in zip(inputs, mask)])
    found = iter(gradients_of(with_wanted, grad_output, wanted))
    return [next(found) if m else None for m in mask]


def batch_statistics_norm(function):
    """cudnn_enabled has no default in aten."""
    return lambda *args: function(*args, *([True] if len(args) == 8 else []))


def broadcast_first(loss):
    """As torch.nn.functional does: aten's own backward is wrong where the target is broadcast."""
    return lambda self, target, *options, **named: loss(*torch.broadcast_tensors(self, target), *options, **named)


@torch.no_grad()
def sgd_step(param, grad, momentum_buffer, lr, **options):
    options = {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False} | options
    sgd([param], [grad], [momentum_buffer], foreach=False, lr=lr.item(), maximize=False, **options)


@torch.no_grad()
def adam_step(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, step, lr, **options):
    options = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0, "decoupled": False} | options
    options["decoupled_weight_decay"] = options.pop("decoupled")
    amsgrad = max_exp_avg_sq is not None
    adam([param], [grad], [exp_avg], [exp_avg_sq], [max_exp_avg_sq] if amsgrad else [], [step],
         foreach=False, amsgrad=amsgrad, lr=lr.item(), maximize=False, **options)


@torch.no_grad()
def rmsprop_step(param, grad, square_avg, grad_avg, momentum_buffer, step, lr, **options):
    options = {"alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0} | options
    rmsprop([param], [grad], [square_avg], [grad_avg], [momentum_buffer], [step], foreach=False,
            lr=lr.item(), centered=grad_avg is not None, maximize=False, **options)


@torch.no_grad()
def adagrad_step(param, grad, sum, step, lr, **options):
    options = {"lr_decay": 0, "weight_decay": 0, "eps": 1e-10} | options
    adagrad([param], [grad], [sum], [step], foreach=False, lr=lr.item(), maximize=False, **options)


MOMENTS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0}


@torch.no_grad()
def adadelta_step(param, grad, square_avg, acc_delta, step, lr, **options):
    options = {"rho": 0.9, "eps": 1e-6, "weight_decay": 0} | options
    adadelta([param], [grad], [square_avg], [acc_delta], [step], foreach=False, lr=lr.item(), maximize=False, **options)


@torch.no_grad()
def adamax_step(param, grad, exp_avg, exp_inf, step, lr, **options):
    adamax([param], [grad], [exp_avg], [exp_inf], [step], foreach=False, lr=lr.item(), maximize=False, **(MOMENTS | options))


@torch.no_grad()
def nadam_step(param, grad, exp_avg, exp_avg_sq, mu_product, step, lr, decoupled=False, **options):
    options = MOMENTS | {"momentum_decay": 4e-3} | options
    nadam([param], [grad], [exp_avg], [exp_avg_sq], [mu_product], [step], decoupled_weight_decay=decoupled, foreach=False,
          lr=lr.item(), **options)


@torch.no_grad()
def radam_step(param, grad, exp_avg, exp_avg_sq, step, lr, decoupled=False, **options):
    radam([param], [grad], [exp_avg], [exp_avg_sq], [step], decoupled_weight_decay=decoupled, foreach=False, lr=lr.item(),
          **(MOMENTS | options))


@torch.no_grad()
def asgd_step(param, grad, ax, eta, mu, step, lr, **options):
    options = {"lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0} | options
    asgd([param], [grad], [ax], [mu], [eta], [step], foreach=False, lr=lr.item(), **options)


@torch.no_grad()
def rprop_step(param, grad, prev, step_size, step, eta_minus=0.5, eta_plus=1.2, step_min=1e-6, step_max=50):
    rprop([param], [grad], [prev], [step_size], [step], foreach=False, step_size_min=step_min, step_size_max=step_max,
          etaminus=eta_minus, etaplus=eta_plus)


def recurrent(function):
    """torch.gru and the like; with batch_sizes, their form for packed sequences."""
    def run(x, hx, params, *options, batch_sizes=None):
        if batch_sizes is None:
            return function(x, hx, params, *options)
        return function(x, torch.tensor(batch_sizes), hx, params, *options[:-1])
    return run


@torch.no_grad()
def transformer_decode_layer(x, keys, values, norm1, norm1_bias, qkv, qkv_bias, out, out_bias, norm2, norm2_bias,
                             fc, fc_bias, proj, proj_bias, position, norm1_eps, norm2_eps, approximate):
    width, (_, heads, room, size) = x.shape[2:], keys.shape
    if position >= room:
        raise IndexError("the cache is full")
    q, k, v = F.linear(F.layer_norm(x, width, norm1, norm1_bias, norm1_eps), qkv, qkv_bias).view(3, 1, heads, 1, size)
    keys[:, :, position:position + 1], values[:, :, position:position + 1] = k, v
    seen = F.scaled_dot_product_attention(q, keys[:, :, :position + 1], values[:, :, :position + 1])
    y = x + F.linear(seen.view(x.shape), out, out_bias)
    hidden = F.gelu(F.linear(F.layer_norm(y, width, norm2, norm2_bias, norm2_eps), fc, fc_bias), approximate=approximate)
    return y + F.linear(hidden, proj, proj_bias)


def gather_normalize(self, index, mean, std, scale=1):
    rows = self.index_select(0, index).to(torch.float32) / scale
    shape = [1, -1] + [1] * (self.dim() - 2)
    return (rows if mean is None else (rows - mean.reshape(shape)) / std.reshape(shape)).detach()


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """All three results, empty where not asked for, as in libtorch."""
    if dim is None:
        return aten._unique2(self, sorted, return_inverse, return_counts)
    return aten.unique_dim(self, dim, sorted, return_inverse, return_counts)


def bias_like(weight, grad_output, channels):
    return torch.zeros(channels, dtype=grad_output.dtype) if weight is None else torch.zeros_like(weight)


def as_strided_backward(grad_output, input_sizes, input_stride, input_offset, stride, offset):
    storage = torch.zeros(10_000, dtype=grad_output.dtype)
    leaf = storage.as_strided(input_sizes, input_stride, input_offset).detach()
    return gradients_of(lambda t: t.as_strided(grad_output.shape, stride, offset), grad_output, [leaf])[0]


def pad_by_map(self, pad, mode):
    """F.pad for any rank: it wants one or two leading dimensions that are not padded."""
    lead = len(pad) // 2 + 2 - self.dim()
    return F.pad(self[(None,) * lead], pad, mode=mode)[(0,) * lead] if lead > 0 else F.pad(self, pad, mode=mode)


def scatter_pooled(grad_output, indices, input_size, spatial):
    """Each gradient where its maximum was found; indices count within the spatial dimensions."""
    lead = list(input_size[:len(input_size) - spatial])
    flat = torch.zeros(lead + [math.prod(input_size[len(lead):])], dtype=grad_output.dtype)
    return flat.scatter_add(-1, indices.flatten(len(lead)), grad_output.flatten(len(lead))).reshape(input_size)


def avg_pool_backward(grad_output, input_size, kernel, stride, padding, ceil, count_pad, divisor):
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel)]
    options = {} if divisor is None else {"divisor_override": divisor}
    return of_linear(lambda x: pool(x, kernel, stride, padding, ceil, count_pad, **options), grad_output, input_size)


def adaptive_avg_pool_backward(grad_output, input_size, spatial):
    pool = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}[spatial]
    return of_linear(lambda x: pool(x, grad_output.shape[-spatial:]), grad_output, input_size)


def convolution_backward_input(grad_output, weight, input_size, *options):
    x = torch.zeros(input_size, dtype=grad_output.dtype)
    return aten.convolution_backward(grad_output, x, weight, None, *options, [True, False, False])[0]


def convolution_backward_weight(grad_output, x, weight_size, *options_and_bias):
    *options, bias = options_and_bias
    w = torch.zeros(weight_size, dtype=grad_output.dtype)
    channels = [grad_output.shape[1]] if bias else None
    return aten.convolution_backward(grad_output, x, w, channels, *options, [False, True, bias])[1:]


def layer_norm_backward(grad_output, x, mean, rstd, weight, shape, eps, mask):
    del mean, rstd
    bias = bias_like(weight, grad_output, shape)
    return masked(lambda x, w, b: F.layer_norm(x, shape, w, b, eps), grad_output, [x, weight, bias], mask)


def rms_norm_backward(grad_output, x, rstd, weight, shape, eps, mask):
    del rstd
    return masked(lambda x, w: F.rms_norm(x, shape, w, eps), grad_output, [x, weight], mask)


def group_norm_backward(grad_output, x, mean, rstd, weight, groups, eps, mask):
    del mean, rstd
    bias = bias_like(weight, grad_output, x.shape[1])
    return masked(lambda x, w, b: F.group_norm(x, groups, w, b, eps), grad_output, [x, weight, bias], mask)


def batch_norm_backward(grad_output, x, weight, mean, rstd, training, eps, mask):
    def forward(x, w, b):
        if training:
            return F.batch_norm(x, None, None, w, b, True, 0.0, eps)
        y = (x - channels(mean)) * channels(rstd)
        return y if w is None else y * channels(w) + channels(b)
    channels = lambda t: t.reshape([1, -1] + [1] * (x.dim() - 2))
    return masked(forward, grad_output, [x, weight, bias_like(weight, grad_output, x.shape[1])], mask)


def attention(query, key, value, mask, dropout_p, is_causal, scale):
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=True)


def attention_backward(grad_out, query, key, value, out, logsumexp, mask, dropout_p, is_causal, scale, seed, offset):
    del out, logsumexp, seed, offset
    return gradients_of(lambda q, k, v: attention(q, k, v, mask, dropout_p, is_causal, scale), grad_out, [query, key, value])


# What PyTorch has under another name, or inside something else.
def positive(vectors, dim):
    """1 or -1 for each vector along dim: the sign that makes its entry of greatest magnitude positive, as ours is."""
    if vectors.size(dim) == 0:
        return vectors.new_ones(()).expand(*[1 if d == vectors.dim() + dim else n for d, n in enumerate(vectors.shape)])
    return vectors.gather(dim, vectors.abs().argmax(dim, keepdim=True)).sign().detach()


def linalg_svd(A, full_matrices=True, *, driver=None):
    u, s, vh = torch.linalg.svd(A, full_matrices)
    k = s.size(-1)
    signs = positive(u, -2)
    rows = torch.cat([signs[..., :k].mT, positive(vh[..., k:, :], -1)], -2) if vh.size(-2) > k else signs[..., :k].mT
    return u * signs, s, vh * rows


def linalg_eigh(self, UPLO="L"):
    values, vectors = torch.linalg.eigh(self, UPLO)
    return values, vectors * positive(vectors, -2)


def resample(self, dim, size, mode="linear", align_corners=False, scale=None):
    """interpolate along one dim."""
    lines = self.movedim(dim, -1)
    rows = lines.reshape(-1, 1, lines.size(-1))
    corners = {"align_corners": align_corners} if "linear" in mode or "cubic" in mode else {}
    if mode == "cubic" or mode.endswith("-antialias"):  # there are no such modes for one dim
        target = {"size": (1, size)} if scale is None else {"scale_factor": (1.0, scale)}
        out = F.interpolate(rows.unsqueeze(2), mode="bi" + mode.partition("-")[0], antialias=mode.endswith("-antialias"),
                            **target, **corners).squeeze(2)
    else:
        target = {"size": size} if scale is None else {"scale_factor": scale}
        out = F.interpolate(rows, mode=mode, **target, **corners)
    return out.reshape(*lines.shape[:-1], size).movedim(-1, dim)


def resample_backward(grad_output, dim, size, *rest):
    sizes = list(grad_output.shape)
    sizes[dim] = size
    return of_linear(lambda x: resample(x, dim, grad_output.size(dim), *rest), grad_output, sizes)


def rotary(x, cos, sin):
    if x.dim() == 4:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack([x0 * cos - x1 * sin, x0 * sin + x1 * cos], -1).flatten(-2)


def sum_rows(self, source, target, rows, scale=None):
    picked = self.index_select(0, source)
    picked = picked if scale is None else picked * scale.unsqueeze(1)
    return torch.zeros(rows, self.shape[1], dtype=self.dtype).index_add(0, target, picked)


def argmax_rows(self, source, target, rows):
    """Row by row, column by column; the first of equal ones."""
    out = torch.full((rows, self.shape[1]), -1)
    for row, to in zip(source.tolist(), target.tolist()):
        better = (out[to] < 0) | (self[row] > self.gather(0, out[to].clamp_min(0).unsqueeze(0))[0])
        out[to] = torch.where(better, row, out[to])
    return out


def bag_numbers(offsets, count, include_last_offset=False):
    return torch.searchsorted(offsets, torch.arange(count), right=True) - 1


def scatter_multiply(self, dim, index, src):
    """PyTorch's backward needs a src that is not larger than the index."""
    return self.scatter_reduce(dim, index, src[tuple(slice(0, n) for n in index.shape)], "prod")


def embedding_dense_backward(grad_output, indices, rows, padding_idx, scale_grad_by_freq):
    """By hand: the derivative of PyTorch's own forgets scale_grad_by_freq."""
    flat = indices.flatten()
    each = (flat != padding_idx).to(grad_output.dtype)
    if scale_grad_by_freq:
        each = each / torch.bincount(flat, minlength=rows)[flat]
    return sum_rows(grad_output.flatten(0, -2), torch.arange(flat.numel()), flat, rows, each)


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """All four results; those beside the first are what the CPU's fast paths of PyTorch leave out."""
    out = F.embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], False,
                          per_sample_weights, include_last_offset, padding_idx)
    bags = bag_numbers(offsets, indices.numel())
    keep = torch.ones_like(indices, dtype=torch.bool) if padding_idx is None else indices != padding_idx % weight.shape[0]
    sizes = torch.bincount(bags[keep], minlength=out.shape[0])
    found = argmax_rows(weight, indices[keep], bags[keep], out.shape[0]) if mode == 2 else torch.empty(0, dtype=torch.int64)
    return out, bags, sizes, found


def scatter_extreme(self, dim, index, src, greatest):
    return self.scatter_reduce(dim, index, src[tuple(slice(0, n) for n in index.shape)], "amax" if greatest else "amin")


def svd(self, some=True, compute_uv=True):
    u, s, vh = linalg_svd(self, not some)
    if compute_uv:
        return u, s, vh.mT
    return torch.zeros(*self.shape[:-2], *[self.size(-2)] * 2, dtype=self.dtype), s, torch.zeros(
        *self.shape[:-2], *[self.size(-1)] * 2, dtype=self.dtype)


def histogram(self, bins=100, *, range=None, weight=None, density=False):
    """The ends of the range are a tensor here."""
    ends = {} if range is None else {"range": tuple(range.tolist())}
    return torch.histogram(self, bins, weight=weight, density=density, **ends)


def gradient(self, *, spacing=None, dim=None, edge_order=1):
    ends = {} if spacing is None else {"spacing": spacing}
    return torch.gradient(self, dim=dim, edge_order=edge_order, **ends)


def window(name):
    return lambda length, periodic=True, *numbers, dtype=None: getattr(torch, name)(length, periodic, *numbers, dtype=dtype)


OWN = {
    "_scatter_extreme": scatter_extreme,
    "svd": svd,
    "histogram": histogram,
    "gradient": gradient,
    "_argmax_rows": argmax_rows,
    "_bag_numbers": bag_numbers,
    "_scatter_multiply": scatter_multiply,
    "_sum_rows": sum_rows,
    "embedding_bag": embedding_bag,
    "embedding_dense_backward": embedding_dense_backward,
    "linalg_eigh": linalg_eigh,
    "linalg_svd": linalg_svd,
    "resample": resample,
    "resample_backward": resample_backward,
    "rotary": rotary,
    "_batched_matmul": torch.matmul,
    "_channels_last": lambda self: self.clone(),
    "_pad_map": pad_by_map,
    "_pad_map_backward": lambda g, sizes, pad, mode: of_linear(lambda x: pad_by_map(x, pad, mode), g, sizes),
    "_relayout": lambda self: self.clone(memory_format=torch.contiguous_format),
    "_roll": torch.roll,
    "_transformer_decode_layer": transformer_decode_layer,
    "adadelta_step": adadelta_step,
    "adagrad_step": adagrad_step,
    "adam_step": adam_step,
    "adamax_step": adamax_step,
    "adaptive_avg_pool_backward": adaptive_avg_pool_backward,
    "adaptive_max_pool_backward": scatter_pooled,
    "asgd_step": asgd_step,
    "as_strided_backward": as_strided_backward,
    "as_strided_view": lambda self, size, stride, offset, self_stride, self_offset: self.as_strided(size, stride, offset),
    "avg_pool_backward": avg_pool_backward,
    "batch_norm": batch_statistics_norm(aten.batch_norm),
    "batch_norm_backward": batch_norm_backward,
    "batch_norm_eval": lambda x, w, b, mean, var, eps: F.batch_norm(x, mean, var, w, b, False, 0.0, eps),
    "batch_norm_train": lambda x, w, b, mean, var, momentum, eps: F.batch_norm(x, mean, var, w, b, True, momentum, eps),
    "bce_loss": lambda self, target, reduction=1: aten.binary_cross_entropy(self, target, None, reduction),
    "bce_with_logits_loss": lambda self, target, reduction=1:
        aten.binary_cross_entropy_with_logits(self, target, None, None, reduction),
    "convolution_backward_input": convolution_backward_input,
    "convolution_backward_weight": convolution_backward_weight,
    "cross_entropy_rows": aten.cross_entropy_loss,
    "cross_entropy_rows_backward": lambda g, self, target, weight, logsumexp, *options:
        derivative(aten.cross_entropy_loss)(g, self, target, weight, *options),
    "cumsum_backward": lambda g, dim: g.flip(dim).cumsum(dim).flip(dim),
    "dropout_train": lambda self, p: torch.dropout(self, p, True),
    "erfinv_backward": lambda g, result: g * (math.sqrt(math.pi) / 2) * (result * result).exp(),
    "special_ndtr_backward": derivative(torch.special.ndtr),
    "exp2_backward": lambda g, result: g * result * math.log(2),
    "expm1_backward": lambda g, result: g * (result + 1),
    "flash_attention": attention,
    "flash_attention_backward": attention_backward,
    "gather_normalize": gather_normalize,
    "gaussian_nll_loss": lambda x, target, var, full=False, eps=1e-6, reduction=1:
        F.gaussian_nll_loss(x, target, var, full, eps, ("none", "mean", "sum")[reduction]),
    "group_norm_backward": group_norm_backward,
    "gru": recurrent(torch.gru),
    "huber_loss": broadcast_first(aten.huber_loss),
    "instance_norm": batch_statistics_norm(aten.instance_norm),
    "layer_norm_backward": layer_norm_backward,
    "log_softmax_backward": lambda g, output, dim: aten._log_softmax_backward_data(g, output, dim, output.dtype),
    "lstm": lambda x, hx, cx, *rest, **packed: recurrent(torch.lstm)(x, [hx, cx], *rest, **packed),
    "max_pool_backward": lambda g, indices, sizes, kernel, *rest: scatter_pooled(g, indices, sizes, len(kernel)),
    "mse_loss": broadcast_first(aten.mse_loss),
    "multilabel_soft_margin_loss": lambda x, target, weight=None, reduction=1:
        F.multilabel_soft_margin_loss(x, target, weight, reduction=("none", "mean", "sum")[reduction]),
    "mT": lambda self: self.mT,
    "nadam_step": nadam_step,
    "nll_loss": aten.nll_loss_nd,  # aten.nll_loss itself takes only [N, C]
    "nll_loss_backward": lambda g, target, weight, sizes, reduction, ignore_index:
        of_linear(lambda x: aten.nll_loss_nd(x, target, weight, reduction, ignore_index), g, sizes),
    "radam_step": radam_step,
    "reciprocal_backward": lambda g, result: -g * result * result,
    "rms_norm_backward": rms_norm_backward,
    "rmsprop_step": rmsprop_step,
    "rnn_relu": recurrent(torch.rnn_relu),
    "rnn_tanh": recurrent(torch.rnn_tanh),
    "rprop_step": rprop_step,
    "rsqrt_backward": lambda g, result: -0.5 * g * result ** 3,
    "sgd_step": sgd_step,
    "smooth_l1_loss": broadcast_first(aten.smooth_l1_loss),
    "softmax_backward": lambda g, output, dim: aten._softmax_backward_data(g, output, dim, output.dtype),
    "softmin": lambda self, dim, dtype=None: F.softmin(self, dim, dtype=dtype),
    "sqrt_backward": lambda g, result: g / (2 * result),
    "tan_backward": lambda g, result: g * (1 + result * result),
    "unique": unique,
}

# What PyTorch does not have, with the reason.
NO_COUNTERPART = {
    "_grid_slopes": "derivatives of any order by the grid; grid_sampler, its values and gradients, is compared",
    "_grid_spread": "derivatives of any order by the grid; grid_sampler, its values and gradients, is compared",
    "_grid_values": "derivatives of any order by the grid; grid_sampler, its values and gradients, is compared",
    "_attention_dropout": "draws the numbers of (seed, offset) again; PyTorch's generator cannot be asked for these",
    "dropout_train_backward": "draws the numbers of (seed, offset) again; PyTorch's generator cannot be asked for these",
}

# Where the answers differ by design: op and the beginning of the difference, with the reason.
DIFFERENCES = {
    ("cholesky_inverse", "the gradient of input 0"): "only the triangle that is read has a gradient; PyTorch fills the other one too",
    ("cholesky_solve", "the gradient of input 1"): "as cholesky_inverse",
    ("linalg_pinv", "the gradient of input 0"): "hermitian: only the lower triangle is read and has a gradient; PyTorch fills both",
    ("linalg_cond", "PyTorch's backward raises"): "PyTorch changes the inverse that its own backward needs",
    ("vander", "PyTorch's backward raises"): "PyTorch changes powers in place that its own backward needs",
    ("ldexp", "the gradient of input 0"): "PyTorch's backward raises 2 to a negative integer in integers, which gives 0",
    ("ctc_loss", "the gradient of input 0"): "PyTorch gives the gradient of scores before log_softmax, not that of its argument",
    ("qr", "raises 'linalg_qr: "): "as linalg_qr",
    ("linalg_qr", "raises 'linalg_qr: "): "a gradient of mode 'r' or of a tall 'complete' was asked for; PyTorch's backward raises as well",
    ("_standard_gamma_grad", "raises '_standard_gamma_grad: "): "its gradient was asked for; PyTorch's backward raises as well",
    ("bce_loss", "the gradient of input 1"): "at 0 and 1 the logarithm is clamped in backward as it is in forward; PyTorch gives inf",
    ("binary_cross_entropy", "the gradient of input 1"): "as bce_loss",
    ("float_power", "float_power_ works here"): "in-place forms round into self's dtype; PyTorch refuses this one below float64",
}


def named(space, name):
    found = getattr(space, name, None)
    return found if callable(found) else None


def candidates(op, overload=""):
    """Callables of PyTorch with this name, the likeliest first."""
    if op in OWN:
        return [OWN[op]]
    found = []
    if hasattr(aten, op):
        packet = getattr(aten, op)
        if overload and overload in packet.overloads():
            found.append(getattr(packet, overload))
        found.append(packet)
    found += [f for f in (named(space, op) for space in SPACES) if f]
    for prefix, space in (("linalg_", torch.linalg), ("special_", torch.special)):
        if op.startswith(prefix) and named(space, op[len(prefix):]):
            found.append(named(space, op[len(prefix):]))
    if not found and op.endswith("_backward"):
        found = [derivative(f) for f in candidates(op[:-len("_backward")], overload)]
    return found
