// MultiheadAttention: projections around scaled_dot_product_attention, or around the plain formula
// where the weights are asked for.
#include <cmath>
#include <limits>

#include "nn/parameter.h"
#include "pellucid/nn/attention.h"
#include "pellucid/nn/init.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& o) : options(o) {
  reset();
}

void MultiheadAttentionImpl::reset() {
  const int64_t e = options.embed_dim();
  PELLUCID_CHECK(options.num_heads() > 0 && e % options.num_heads() == 0, ValueError,
                 "MultiheadAttention: embed_dim {} must be divisible by num_heads {}.", e,
                 options.num_heads());
  head_dim = e / options.num_heads();
  const bool same = options.kdim() == e && options.vdim() == e;
  const auto add = [&](const char* name, bool there, IntArrayRef sizes) {
    return register_parameter(name, there ? new_parameter(sizes) : Tensor(), there);
  };
  q_proj_weight = add("q_proj_weight", !same, {e, e});
  k_proj_weight = add("k_proj_weight", !same, {e, options.kdim()});
  v_proj_weight = add("v_proj_weight", !same, {e, options.vdim()});
  in_proj_weight = add("in_proj_weight", same, {3 * e, e});
  in_proj_bias = add("in_proj_bias", options.bias(), {3 * e});
  bias_k = add("bias_k", options.add_bias_kv(), {1, 1, e});
  bias_v = add("bias_v", options.add_bias_kv(), {1, 1, e});
  out_proj = register_module("out_proj", Linear(LinearOptions(e, e).bias(options.bias())));
  _reset_parameters();
}

void MultiheadAttentionImpl::_reset_parameters() {
  for (const Tensor* w : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
    if (w->defined()) init::xavier_uniform_(*w);
  if (in_proj_bias.defined()) {
    init::zeros_(in_proj_bias);
    init::zeros_(out_proj->bias);
  }
  for (const Tensor* b : {&bias_k, &bias_v})
    if (b->defined()) init::xavier_normal_(*b);
}

std::array<Tensor, 3> MultiheadAttentionImpl::project(const Tensor& q, const Tensor& k,
                                                      const Tensor& v) const {
  const int64_t e = options.embed_dim();
  const auto part = [&](const Tensor& t, int64_t i) {
    return t.defined() ? t.narrow(0, i * e, e) : Tensor();
  };
  if (!in_proj_weight.defined())
    return {linear(q, q_proj_weight, part(in_proj_bias, 0)),
            linear(k, k_proj_weight, part(in_proj_bias, 1)),
            linear(v, v_proj_weight, part(in_proj_bias, 2))};
  if (q.is_same(k) && k.is_same(v)) {
    const std::vector<Tensor> all = linear(q, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {all[0], all[1], all[2]};
  }
  return {linear(q, part(in_proj_weight, 0), part(in_proj_bias, 0)),
          linear(k, part(in_proj_weight, 1), part(in_proj_bias, 1)),
          linear(v, part(in_proj_weight, 2), part(in_proj_bias, 2))};
}

namespace {

/// A mask in which true means "do not look", as numbers to add to the scores.
Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() != kBool) return mask.to(dtype);
  return zeros(mask.sizes(), dtype).masked_fill(mask, -std::numeric_limits<double>::infinity());
}

/// Both masks as one that broadcasts to [B, H, T, S]; undefined if there is none.
Tensor joined_mask(const Tensor& attn, const Tensor& padding, int64_t batch, int64_t heads,
                   int64_t length, int64_t keys, DType dtype) {
  Tensor mask;
  if (attn.defined()) {
    const bool each = attn.dim() == 3;
    PELLUCID_CHECK(attn.sizes() == (each ? IntArrayRef({batch * heads, length, keys})
                                         : IntArrayRef({length, keys})),
                   ShapeError,
                   "MultiheadAttention: attn_mask must be [{}, {}] or [{}, {}, {}], but is {}.",
                   length, keys, batch * heads, length, keys, attn.sizes());
    mask = additive(attn, dtype);
    mask = mask.view({each ? batch : 1, each ? heads : 1, length, keys});
  }
  if (padding.defined()) {
    PELLUCID_CHECK(padding.sizes() == IntArrayRef({batch, keys}), ShapeError,
                   "MultiheadAttention: key_padding_mask must be [{}, {}], but is {}.", batch, keys,
                   padding.sizes());
    const Tensor more = additive(padding, dtype).view({batch, 1, 1, keys});
    mask = mask.defined() ? mask + more : more;
  }
  return mask;
}

/// One more key that every mask lets through.
Tensor one_more_key(const Tensor& mask) {
  return mask.defined() ? constant_pad_nd(mask, {0, 1}) : mask;
}

/// softmax(q kᵀ / sqrt(D) + mask), the whole [B, H, T, S].
Tensor attention_weights(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal,
                         double dropout_p) {
  Tensor scores = (q / std::sqrt(static_cast<double>(q.size(3)))).matmul(k.mT());
  if (mask.defined()) scores = scores + mask;
  if (causal)
    scores = scores.masked_fill(ones({q.size(2), k.size(2)}, kBool).triu(1),
                                -std::numeric_limits<double>::infinity());
  const Tensor weights = softmax(scores, -1);
  return dropout_p > 0 ? dropout(weights, dropout_p, true) : weights;
}

}  // namespace

std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& key_padding_mask,
    bool need_weights, const Tensor& attn_mask, bool average_attn_weights, bool is_causal) {
  const ModuleScope scope(*this);
  PELLUCID_CHECK(query.dim() == key.dim() && key.dim() == value.dim() &&
                     (query.dim() == 2 || query.dim() == 3),
                 ShapeError,
                 "MultiheadAttention: query, key and value must have 3 dimensions, or 2 without a "
                 "batch, but are {}, {} and {}.",
                 query.sizes(), key.sizes(), value.sizes());
  PELLUCID_CHECK(query.size(-1) == options.embed_dim(), ShapeError,
                 "MultiheadAttention: the query has {} features but embed_dim is {} (query {}).",
                 query.size(-1), options.embed_dim(), query.sizes());
  const bool batched = query.dim() == 3;
  auto [q, k, v] = project(query, key, value);
  // [B, T, E] from here on; without a batch B is 1.
  for (Tensor* t : {&q, &k, &v})
    *t = !batched ? t->unsqueeze(0) : options.batch_first() ? *t : t->transpose(0, 1);
  const int64_t batch = q.size(0), length = q.size(1), heads = options.num_heads();
  Tensor mask = joined_mask(
      attn_mask,
      batched || !key_padding_mask.defined() ? key_padding_mask : key_padding_mask.unsqueeze(0),
      batch, heads, length, k.size(1), q.dtype());
  if (bias_k.defined()) {
    k = cat({k, bias_k.expand({batch, 1, options.embed_dim()})}, 1);
    v = cat({v, bias_v.expand({batch, 1, options.embed_dim()})}, 1);
    mask = one_more_key(mask);
  }
  if (options.add_zero_attn()) {
    const Tensor zero = zeros({batch, 1, options.embed_dim()}, k.dtype());
    k = cat({k, zero}, 1);
    v = cat({v, zero}, 1);
    mask = one_more_key(mask);
  }
  for (Tensor* t : {&q, &k, &v}) *t = t->unflatten(-1, {heads, head_dim}).transpose(1, 2);

  const double dropout_p = is_training() ? options.dropout() : 0.0;
  const bool causal = is_causal && !mask.defined();
  Tensor attended, weights;
  if (need_weights) {
    weights = attention_weights(q, k, mask, causal, dropout_p);
    attended = weights.matmul(v);
    if (average_attn_weights) weights = weights.mean(1);
    if (!batched) weights = weights.squeeze(0);
  } else {
    attended = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal);
  }
  const Tensor joined = attended.transpose(1, 2).reshape({batch, length, options.embed_dim()});
  const Tensor y = out_proj(joined);
  return {!batched ? y.squeeze(0) : options.batch_first() ? y : y.transpose(0, 1), weights};
}

}  // namespace pellucid::nn
