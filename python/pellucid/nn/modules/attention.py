"""MultiheadAttention, rotary positions, attention with a cache of keys and values."""
import math

from ... import _C
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear, NonDynamicallyQuantizableLinear, options
from .module import Module

_empty, _cat = _C.functions["empty"], _C.functions["cat"]


def as_float_mask(mask, dtype):
    """A mask to add: minus infinity where a bool mask forbids."""
    if mask is None or mask.is_floating_point():
        return mask
    return _C.functions["zeros_like"](mask, dtype=dtype).masked_fill_(mask, float("-inf"))


class MultiheadAttention(Module):
    """Attention of several heads over projected queries, keys and values."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None,
                 vdim=None, batch_first=False, device=None, dtype=None):
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                             f"num_heads={num_heads} instead")
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        made = options(device, dtype)
        matrix = lambda rows, columns: Parameter(_empty((rows, columns), **made))
        same = self._qkv_same_embed_dim
        self.register_parameter("in_proj_weight", matrix(3 * embed_dim, embed_dim) if same else None)
        for name, columns in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if same else matrix(embed_dim, columns))
        self.register_parameter("in_proj_bias", Parameter(_empty(3 * embed_dim, **made)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **made)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(_empty((1, 1, embed_dim), **made)) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def _project(self, query, key, value):
        """[B, T, E] each."""
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]

    def _mask(self, attn_mask, key_padding_mask, batch, dtype):
        """Both masks as one to add, [B or 1, H or 1, T or 1, S], or None."""
        mask = as_float_mask(attn_mask, dtype)
        if mask is not None:
            mask = mask.unflatten(0, (batch, self.num_heads)) if mask.ndim == 3 else mask.reshape(1, 1, *mask.shape)
        padding = as_float_mask(key_padding_mask, dtype)
        if padding is not None:
            padding = padding.reshape(batch, 1, 1, -1)
            mask = padding if mask is None else mask + padding
        return mask

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        single = query.ndim == 2
        same, kv_same = query is key, key is value
        if single:
            query = query.unsqueeze(1 - self.batch_first)
            key = query if same else key.unsqueeze(1 - self.batch_first)
            value = key if kv_same else value.unsqueeze(1 - self.batch_first)
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        if not self.batch_first:
            query = query.transpose(0, 1)
            key = query if same else key.transpose(0, 1)
            value = key if kv_same else value.transpose(0, 1)
        batch = query.shape[0]
        q, k, v = self._project(query, key, value)
        mask = self._mask(attn_mask, key_padding_mask, batch, q.dtype)
        extra = 0
        if self.bias_k is not None:
            k, v = (_cat([x, b.expand(batch, 1, -1)], 1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
            extra += 1
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
            extra += 1
        if mask is not None and extra:
            mask = F.pad(mask, (0, extra))
        heads = lambda x: x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        q, k, v = heads(q), heads(k), heads(v)
        p = self.dropout if self.training else 0.0
        if need_weights:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
            weights = (scores if mask is None else scores + mask).softmax(-1)
            weights = F.dropout(weights, p) if p else weights
            attended = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            attended, weights = F.scaled_dot_product_attention(q, k, v, mask, p), None
        y = self.out_proj(attended.transpose(1, 2).flatten(2))
        if single:
            return y.squeeze(0), (None if weights is None else weights.squeeze(0))
        return (y if self.batch_first else y.transpose(0, 1)), weights


class RotaryEmbedding(Module):
    """Turns neighbouring values of x [B, L, D] or [B, L, H, D] by angles that grow with the position."""

    def __init__(self, dim, max_seq_len=2048, base=10000.0):
        super().__init__()
        if dim % 2:
            raise ValueError(f"RotaryEmbedding: dim must be even, because values are turned in pairs, found {dim}.")
        self.dim, self.max_seq_len, self.base = dim, max_seq_len, base
        arange = _C.functions["arange"]
        frequencies = base ** (-arange(0, dim, 2, dtype=_C.float64) / dim)
        angles = arange(0, max_seq_len, dtype=_C.float64).unsqueeze(1) * frequencies
        self.register_buffer("cos", angles.cos().to(_C.get_default_dtype()), persistent=False)
        self.register_buffer("sin", angles.sin().to(_C.get_default_dtype()), persistent=False)

    def forward(self, x, offset=0):
        if x.ndim not in (3, 4):
            raise ValueError(f"RotaryEmbedding: x must be [B, L, D] or [B, L, H, D], found sizes {list(x.shape)}.")
        if x.shape[-1] != self.dim:
            raise ValueError(f"RotaryEmbedding: the last size is {x.shape[-1]} but dim is {self.dim} (sizes {list(x.shape)}).")
        length = x.shape[1]
        if offset + length > self.max_seq_len:
            raise ValueError(f"RotaryEmbedding: position {offset + length - 1} is beyond max_seq_len {self.max_seq_len}.")
        cos, sin = (t[offset:offset + length].to(x.dtype) for t in (self.cos, self.sin))
        return _C.functions["rotary"](x, cos, sin)

    def extra_repr(self):
        return f"{self.dim}, max_seq_len={self.max_seq_len}, base={self.base}"


class CachedAttention(Module):
    """Causal self-attention with rotary positions and a cache of what was seen before."""

    def __init__(self, dim, num_heads, bias=True, max_seq_len=2048):
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"CachedAttention: dim {dim} must be divisible by num_heads {num_heads}.")
        self.dim, self.num_heads, self.head_dim = dim, num_heads, dim // num_heads
        self.qkv, self.out_proj = Linear(dim, 3 * dim, bias), Linear(dim, dim, bias)
        self.rope = RotaryEmbedding(self.head_dim, max_seq_len)
        self.max_seq_len, self._kept, self._length = max_seq_len, None, 0

    def clear_cache(self):
        self._length = 0

    def _append(self, k, v):
        """Writes new positions behind the kept ones; memory for all of them is taken once."""
        batch, heads, new, size = k.shape
        if self._kept is None or self._kept[0].shape[0] != batch or self._kept[0].dtype is not k.dtype:
            self._kept = [_empty((batch, heads, self.max_seq_len, size), dtype=k.dtype) for _ in range(2)]
        end = self._length + new
        for kept, x in zip(self._kept, (k, v)):
            kept[:, :, self._length:end] = x.detach()
        self._length = end
        return [kept[:, :, :end] for kept in self._kept]

    def forward(self, x, use_cache=False, clear_cache=False):
        if clear_cache:
            self.clear_cache()
        start = self._length if use_cache else 0
        parts = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim))
        q, k, v = parts.unbind(2)  # [B, L, H, D] each
        q, k = self.rope(q, start).transpose(1, 2), self.rope(k, start).transpose(1, 2)
        v = v.transpose(1, 2)
        if use_cache:
            k, v = self._append(k, v)
        new, seen = q.shape[2], k.shape[2]
        if new == seen:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif new == 1:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            allowed = _C.functions["ones"]((new, seen), dtype=_C.bool).tril_(seen - new)
            y = F.scaled_dot_product_attention(q, k, v, allowed)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def extra_repr(self):
        return f"{self.dim}, num_heads={self.num_heads}"
