"""The Transformer: encoder and decoder layers, stacks of them, and both together."""
import copy

from ... import _C
from .. import functional as F
from .. import init
from .attention import MultiheadAttention
from .container import ModuleList
from .linear import Linear
from .module import Module
from .norm import LayerNorm
from .simple import Dropout


def _activation(activation):
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    if isinstance(activation, str):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return activation


def _clones(module, n):
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


class _Layer(Module):
    """The feed-forward block that both kinds of layer have."""

    def _make_feed_forward(self, d_model, dim_feedforward, dropout, activation, bias, made):
        self.linear1 = Linear(d_model, dim_feedforward, bias, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **made)
        self.activation = _activation(activation)

    def _feed_forward(self, x, dropout):
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward block, each with a residual and a norm."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self._make_feed_forward(d_model, dim_feedforward, dropout, activation, bias, made)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def _attend(self, x, mask, padding, causal):
        return self.dropout1(self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, is_causal=causal,
                                            need_weights=False)[0])

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x, masks = src, (src_mask, src_key_padding_mask, is_causal)
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *masks)
            return x + self._feed_forward(self.norm2(x), self.dropout2)
        x = self.norm1(x + self._attend(x, *masks))
        return self.norm2(x + self._feed_forward(x, self.dropout2))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, feed-forward."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation=F.relu, layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **made)
        self._make_feed_forward(d_model, dim_feedforward, dropout, activation, bias, made)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **made))
        for i in (1, 2, 3):
            setattr(self, f"dropout{i}", Dropout(dropout))

    def _self(self, x, mask, padding, causal):
        return self.dropout1(self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, is_causal=causal,
                                            need_weights=False)[0])

    def _cross(self, x, memory, mask, padding, causal):
        return self.dropout2(self.multihead_attn(x, memory, memory, attn_mask=mask, key_padding_mask=padding,
                                                 is_causal=causal, need_weights=False)[0])

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        x = tgt
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = x + self._self(self.norm1(x), *own)
            x = x + self._cross(self.norm2(x), *other)
            return x + self._feed_forward(self.norm3(x), self.dropout3)
        x = self.norm1(x + self._self(x, *own))
        x = self.norm2(x + self._cross(x, *other))
        return self.norm3(x + self._feed_forward(x, self.dropout3))


class TransformerEncoder(Module):
    """A stack of encoder layers."""

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers, self.num_layers, self.norm = _clones(encoder_layer, num_layers), num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers, self.num_layers, self.norm = _clones(decoder_layer, num_layers), num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=None, memory_is_causal=False):
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                        bool(tgt_is_causal), memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation=F.relu, custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False,
                 norm_first=False, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        rest = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        norm = lambda: LayerNorm(d_model, layer_norm_eps, bias=bias, **made)
        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*rest, **made), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*rest, **made), num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                            memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """Minus infinity above the diagonal."""
        return _C.functions["full"]((sz, sz), float("-inf"), dtype=dtype or _C.get_default_dtype()).triu_(1)
