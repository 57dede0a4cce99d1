// Transformer layers and stacks.
#include "pellucid/nn/transformer.h"

#include <limits>

#include "pellucid/nn/init.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

namespace {

Tensor activate(const detail::activation_t& activation, const Tensor& x) {
  switch (activation.index()) {
    case 0:
      return relu(x);
    case 1:
      return gelu(x);
    default:
      return std::get<2>(activation)(x);
  }
}

MultiheadAttention make_attention(const detail::TransformerLayerOptions& o) {
  return MultiheadAttention(MultiheadAttentionOptions(o.d_model(), o.nhead())
                                .dropout(o.dropout())
                                .batch_first(o.batch_first()));
}

LayerNorm make_norm(const detail::TransformerLayerOptions& o) {
  return LayerNorm(LayerNormOptions({o.d_model()}).eps(o.layer_norm_eps()));
}

/// What attention adds to its residual; no weights are asked for.
Tensor attend(MultiheadAttention& attention, const Tensor& q, const Tensor& kv, const Tensor& mask,
              const Tensor& padding, bool causal = false) {
  return std::get<0>(attention(q, kv, kv, padding, false, mask, true, causal));
}

}  // namespace

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(TransformerEncoderLayerOptions o)
    : options(std::move(o)) {
  reset();
}

void TransformerEncoderLayerImpl::reset() {
  const auto& o = options;
  self_attn = register_module("self_attn", make_attention(o));
  linear1 = register_module("linear1", Linear(o.d_model(), o.dim_feedforward()));
  dropout = register_module("dropout", Dropout(o.dropout()));
  linear2 = register_module("linear2", Linear(o.dim_feedforward(), o.d_model()));
  norm1 = register_module("norm1", make_norm(o));
  norm2 = register_module("norm2", make_norm(o));
  dropout1 = register_module("dropout1", Dropout(o.dropout()));
  dropout2 = register_module("dropout2", Dropout(o.dropout()));
}

void TransformerEncoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
}

Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask, bool is_causal) {
  const ModuleScope scope(*this);
  const auto attention = [&](const Tensor& x) {
    return dropout1(attend(self_attn, x, x, src_mask, src_key_padding_mask, is_causal));
  };
  const auto feed_forward = [&](const Tensor& x) {
    return dropout2(linear2(dropout(activate(options.activation(), linear1(x)))));
  };
  if (options.norm_first()) {
    const Tensor x = src + attention(norm1(src));
    return x + feed_forward(norm2(x));
  }
  const Tensor x = norm1(src + attention(src));
  return norm2(x + feed_forward(x));
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(TransformerDecoderLayerOptions o)
    : options(std::move(o)) {
  reset();
}

void TransformerDecoderLayerImpl::reset() {
  const auto& o = options;
  self_attn = register_module("self_attn", make_attention(o));
  multihead_attn = register_module("multihead_attn", make_attention(o));
  linear1 = register_module("linear1", Linear(o.d_model(), o.dim_feedforward()));
  dropout = register_module("dropout", Dropout(o.dropout()));
  linear2 = register_module("linear2", Linear(o.dim_feedforward(), o.d_model()));
  norm1 = register_module("norm1", make_norm(o));
  norm2 = register_module("norm2", make_norm(o));
  norm3 = register_module("norm3", make_norm(o));
  dropout1 = register_module("dropout1", Dropout(o.dropout()));
  dropout2 = register_module("dropout2", Dropout(o.dropout()));
  dropout3 = register_module("dropout3", Dropout(o.dropout()));
}

void TransformerDecoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  multihead_attn->_reset_parameters();
  linear1->reset_parameters();
  linear2->reset_parameters();
  norm1->reset_parameters();
  norm2->reset_parameters();
  norm3->reset_parameters();
}

Tensor TransformerDecoderLayerImpl::forward(Tensor tgt, const Tensor& memory,
                                            const Tensor& tgt_mask, const Tensor& memory_mask,
                                            const Tensor& tgt_key_padding_mask,
                                            const Tensor& memory_key_padding_mask) {
  const ModuleScope scope(*this);
  const auto own = [&](const Tensor& x) {
    return dropout1(attend(self_attn, x, x, tgt_mask, tgt_key_padding_mask));
  };
  const auto cross = [&](const Tensor& x) {
    return dropout2(attend(multihead_attn, x, memory, memory_mask, memory_key_padding_mask));
  };
  const auto feed_forward = [&](const Tensor& x) {
    return dropout3(linear2(dropout(activate(options.activation(), linear1(x)))));
  };
  if (options.norm_first()) {
    tgt = tgt + own(norm1(tgt));
    tgt = tgt + cross(norm2(tgt));
    return tgt + feed_forward(norm3(tgt));
  }
  tgt = norm1(tgt + own(tgt));
  tgt = norm2(tgt + cross(tgt));
  return norm3(tgt + feed_forward(tgt));
}

namespace {
/// Copies of `layer`, all with its values.
template <class Layer> ModuleList copies(const Layer& layer, int64_t count) {
  ModuleList out;
  for (int64_t i = 0; i < count; ++i) out->push_back(layer->clone());
  return out;
}
}  // namespace

TransformerEncoderImpl::TransformerEncoderImpl(TransformerEncoderOptions o)
    : options(std::move(o)) {
  reset();
}

void TransformerEncoderImpl::reset() {
  layers = register_module("layers", copies(options.encoder_layer(), options.num_layers()));
  if (!options.norm().is_empty()) {
    norm = options.norm().clone();
    register_module("norm", norm.ptr());
  }
}

void TransformerEncoderImpl::reset_parameters() {
  for (size_t i = 0; i < layers->size(); ++i)
    layers->at<TransformerEncoderLayerImpl>(i).reset_parameters();
}

Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask,
                                       const Tensor& src_key_padding_mask, bool is_causal) {
  const ModuleScope scope(*this);
  Tensor x = src;
  for (size_t i = 0; i < layers->size(); ++i)
    x = detail::call_module(layers->at<TransformerEncoderLayerImpl>(i), x, src_mask,
                            src_key_padding_mask, is_causal);
  return norm.is_empty() ? x : norm.forward(x);
}

TransformerDecoderImpl::TransformerDecoderImpl(TransformerDecoderOptions o)
    : options(std::move(o)) {
  reset();
}

void TransformerDecoderImpl::reset() {
  layers = register_module("layers", copies(options.decoder_layer(), options.num_layers()));
  if (!options.norm().is_empty()) {
    norm = options.norm().clone();
    register_module("norm", norm.ptr());
  }
}

void TransformerDecoderImpl::reset_parameters() {
  for (size_t i = 0; i < layers->size(); ++i)
    layers->at<TransformerDecoderLayerImpl>(i).reset_parameters();
}

Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory,
                                       const Tensor& tgt_mask, const Tensor& memory_mask,
                                       const Tensor& tgt_key_padding_mask,
                                       const Tensor& memory_key_padding_mask) {
  const ModuleScope scope(*this);
  Tensor x = tgt;
  for (size_t i = 0; i < layers->size(); ++i)
    x = detail::call_module(layers->at<TransformerDecoderLayerImpl>(i), x, memory, tgt_mask,
                            memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
  return norm.is_empty() ? x : norm.forward(x);
}

TransformerImpl::TransformerImpl(TransformerOptions o) : options(std::move(o)) { reset(); }

void TransformerImpl::reset() {
  const auto layer = detail::TransformerLayerOptions(options.d_model(), options.nhead())
                         .dim_feedforward(options.dim_feedforward())
                         .dropout(options.dropout())
                         .activation(options.activation())
                         .batch_first(options.batch_first())
                         .norm_first(options.norm_first());
  const auto last = [&] { return AnyModule(LayerNorm(LayerNormOptions({options.d_model()}))); };
  encoder = register_module(
      "encoder", TransformerEncoder(
                     TransformerEncoderOptions(layer, options.num_encoder_layers()).norm(last())));
  decoder = register_module(
      "decoder", TransformerDecoder(
                     TransformerDecoderOptions(layer, options.num_decoder_layers()).norm(last())));
  reset_parameters();
}

void TransformerImpl::reset_parameters() {
  for (const Tensor& p : parameters())
    if (p.dim() > 1) init::xavier_uniform_(p);
}

Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask,
                                const Tensor& tgt_mask, const Tensor& memory_mask,
                                const Tensor& src_key_padding_mask,
                                const Tensor& tgt_key_padding_mask,
                                const Tensor& memory_key_padding_mask) {
  const ModuleScope scope(*this);
  const Tensor memory = encoder(src, src_mask, src_key_padding_mask);
  return decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
}

Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size) {
  return full({size, size}, -std::numeric_limits<double>::infinity(),
              TensorOptions(get_default_dtype()))
      .triu(1);
}

}  // namespace pellucid::nn
