// Transformer layers and stacks, as in "Attention is all you need" (norm after each block) or, with
// norm_first, before it.
#pragma once

#include "pellucid/nn/attention.h"
#include "pellucid/nn/containers.h"
#include "pellucid/nn/dropout.h"
#include "pellucid/nn/norm.h"

namespace pellucid::nn {

/// Self-attention and a feed-forward block, each with dropout, residual and norm.
class PELLUCID_API TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
 public:
  TransformerEncoderLayerImpl(int64_t d_model, int64_t nhead)
      : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(d_model, nhead)) {}
  explicit TransformerEncoderLayerImpl(TransformerEncoderLayerOptions options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {}, bool is_causal = false);
  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn{nullptr};
  Linear linear1{nullptr}, linear2{nullptr};
  LayerNorm norm1{nullptr}, norm2{nullptr};
  Dropout dropout{nullptr}, dropout1{nullptr}, dropout2{nullptr};
};
using TransformerEncoderLayer = ModuleHolder<TransformerEncoderLayerImpl>;

/// Self-attention, attention to a memory, and a feed-forward block.
class PELLUCID_API TransformerDecoderLayerImpl : public Cloneable<TransformerDecoderLayerImpl> {
 public:
  TransformerDecoderLayerImpl(int64_t d_model, int64_t nhead)
      : TransformerDecoderLayerImpl(TransformerDecoderLayerOptions(d_model, nhead)) {}
  explicit TransformerDecoderLayerImpl(TransformerDecoderLayerOptions options);
  void reset() override;
  void reset_parameters();
  Tensor forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {});
  TransformerDecoderLayerOptions options;
  MultiheadAttention self_attn{nullptr}, multihead_attn{nullptr};
  Linear linear1{nullptr}, linear2{nullptr};
  LayerNorm norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
  Dropout dropout{nullptr}, dropout1{nullptr}, dropout2{nullptr}, dropout3{nullptr};
};
using TransformerDecoderLayer = ModuleHolder<TransformerDecoderLayerImpl>;

struct TransformerEncoderOptions {
  TransformerEncoderOptions(TransformerEncoderLayer layer, int64_t num_layers)
      : encoder_layer_(std::move(layer)), num_layers_(num_layers) {}
  TransformerEncoderOptions(const TransformerEncoderLayerOptions& layer, int64_t num_layers)
      : TransformerEncoderOptions(TransformerEncoderLayer(layer), num_layers) {}
  PELLUCID_ARG(TransformerEncoderLayer, encoder_layer) = nullptr;
  PELLUCID_ARG(int64_t, num_layers);
  PELLUCID_ARG(AnyModule, norm);
};
struct TransformerDecoderOptions {
  TransformerDecoderOptions(TransformerDecoderLayer layer, int64_t num_layers)
      : decoder_layer_(std::move(layer)), num_layers_(num_layers) {}
  TransformerDecoderOptions(const TransformerDecoderLayerOptions& layer, int64_t num_layers)
      : TransformerDecoderOptions(TransformerDecoderLayer(layer), num_layers) {}
  PELLUCID_ARG(TransformerDecoderLayer, decoder_layer) = nullptr;
  PELLUCID_ARG(int64_t, num_layers);
  PELLUCID_ARG(AnyModule, norm);
};

/// Copies of one encoder layer, run in order, and a last norm if given.
class PELLUCID_API TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  TransformerEncoderImpl(TransformerEncoderLayer layer, int64_t num_layers)
      : TransformerEncoderImpl(TransformerEncoderOptions(std::move(layer), num_layers)) {}
  explicit TransformerEncoderImpl(TransformerEncoderOptions options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {},
                 const Tensor& src_key_padding_mask = {}, bool is_causal = false);
  TransformerEncoderOptions options;
  ModuleList layers{nullptr};
  AnyModule norm;
};
using TransformerEncoder = ModuleHolder<TransformerEncoderImpl>;

/// Copies of one decoder layer, run in order, and a last norm if given.
class PELLUCID_API TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  TransformerDecoderImpl(TransformerDecoderLayer layer, int64_t num_layers)
      : TransformerDecoderImpl(TransformerDecoderOptions(std::move(layer), num_layers)) {}
  explicit TransformerDecoderImpl(TransformerDecoderOptions options);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {});
  TransformerDecoderOptions options;
  ModuleList layers{nullptr};
  AnyModule norm;
};
using TransformerDecoder = ModuleHolder<TransformerDecoderImpl>;

/// Encoder and decoder together.
class PELLUCID_API TransformerImpl : public Cloneable<TransformerImpl> {
 public:
  explicit TransformerImpl(TransformerOptions options = {});
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask = {},
                 const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& src_key_padding_mask = {}, const Tensor& tgt_key_padding_mask = {},
                 const Tensor& memory_key_padding_mask = {});
  /// [size, size] with minus infinity above the diagonal.
  static Tensor generate_square_subsequent_mask(int64_t size);
  TransformerOptions options;
  TransformerEncoder encoder{nullptr};
  TransformerDecoder decoder{nullptr};
};
using Transformer = ModuleHolder<TransformerImpl>;

}  // namespace pellucid::nn
