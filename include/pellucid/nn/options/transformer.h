// Options of attention and transformer layers. batch_first and norm_first are Python's.
#pragma once

#include <functional>

#include "pellucid/nn/any.h"
#include "pellucid/nn/arg.h"

namespace pellucid::nn {

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads), kdim_(embed_dim), vdim_(embed_dim) {}
  PELLUCID_ARG(int64_t, embed_dim);
  PELLUCID_ARG(int64_t, num_heads);
  PELLUCID_ARG(double, dropout) = 0.0;
  PELLUCID_ARG(bool, bias) = true;
  PELLUCID_ARG(bool, add_bias_kv) = false;
  PELLUCID_ARG(bool, add_zero_attn) = false;
  PELLUCID_ARG(int64_t, kdim);
  PELLUCID_ARG(int64_t, vdim);
  /// Whether tensors are [B, T, E] instead of [T, B, E].
  PELLUCID_ARG(bool, batch_first) = false;
};

namespace detail {
using activation_t =
    std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>;
struct TransformerLayerOptions {
  using activation_t = detail::activation_t;
  TransformerLayerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  PELLUCID_ARG(int64_t, d_model);
  PELLUCID_ARG(int64_t, nhead);
  PELLUCID_ARG(int64_t, dim_feedforward) = 2048;
  PELLUCID_ARG(double, dropout) = 0.1;
  PELLUCID_ARG(activation_t, activation) = kReLU;
  PELLUCID_ARG(double, layer_norm_eps) = 1e-5;
  PELLUCID_ARG(bool, batch_first) = false;
  PELLUCID_ARG(bool, norm_first) = false;
};
}  // namespace detail
using TransformerEncoderLayerOptions = detail::TransformerLayerOptions;
using TransformerDecoderLayerOptions = detail::TransformerLayerOptions;

struct TransformerOptions {
  using activation_t = detail::activation_t;
  TransformerOptions() = default;
  TransformerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TransformerOptions(int64_t d_model, int64_t nhead, int64_t encoder_layers, int64_t decoder_layers)
      : d_model_(d_model),
        nhead_(nhead),
        num_encoder_layers_(encoder_layers),
        num_decoder_layers_(decoder_layers) {}
  PELLUCID_ARG(int64_t, d_model) = 512;
  PELLUCID_ARG(int64_t, nhead) = 8;
  PELLUCID_ARG(int64_t, num_encoder_layers) = 6;
  PELLUCID_ARG(int64_t, num_decoder_layers) = 6;
  PELLUCID_ARG(int64_t, dim_feedforward) = 2048;
  PELLUCID_ARG(double, dropout) = 0.1;
  PELLUCID_ARG(activation_t, activation) = kReLU;
  PELLUCID_ARG(bool, batch_first) = false;
  PELLUCID_ARG(bool, norm_first) = false;
};

}  // namespace pellucid::nn
