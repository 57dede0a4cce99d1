// GPT-2.
#include "pellucid/models/gpt.h"

#include <cmath>

#include "base/env.h"
#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::models {

namespace {
nn::LayerNorm make_norm(const GPTOptions& o) {
  return nn::LayerNorm(nn::LayerNormOptions({o.n_embd()}).bias(o.bias()));
}
nn::Linear make_linear(int64_t in, int64_t out, const GPTOptions& o) {
  return nn::Linear(nn::LinearOptions(in, out).bias(o.bias()));
}
}  // namespace

GPTAttentionImpl::GPTAttentionImpl(const GPTOptions& o) : options(o) { reset(); }

void GPTAttentionImpl::reset() {
  const int64_t width = options.n_embd();
  PELLUCID_CHECK(options.n_head() > 0 && width % options.n_head() == 0, ValueError,
                 "GPT: n_embd {} must be divisible by n_head {}.", width, options.n_head());
  c_attn = register_module("c_attn", make_linear(width, 3 * width, options));
  c_proj = register_module("c_proj", make_linear(width, width, options));
  resid_dropout = register_module("resid_dropout", nn::Dropout(options.dropout()));
  cache = nn::KVCache();
}

Tensor GPTAttentionImpl::forward(const Tensor& x, bool use_cache) {
  const nn::ModuleScope scope(*this);
  const int64_t batch = x.size(0), length = x.size(1), heads = options.n_head();
  const int64_t width = options.n_embd(), offset = use_cache ? cache.length() : 0;
  const Tensor all = c_attn(x).view({batch, length, 3, heads, width / heads});
  const Tensor q = all.select(2, 0).transpose(1, 2);
  Tensor k = all.select(2, 1).transpose(1, 2), v = all.select(2, 2).transpose(1, 2);
  if (use_cache) std::tie(k, v) = cache.append(k, v);
  const Tensor y = nn::causal_attention(q, k, v, offset, is_training() ? options.dropout() : 0.0);
  return resid_dropout(c_proj(y.transpose(1, 2).reshape({batch, length, width})));
}

GPTMlpImpl::GPTMlpImpl(const GPTOptions& o) : options(o) { reset(); }

void GPTMlpImpl::reset() {
  const int64_t width = options.n_embd();
  c_fc = register_module("c_fc", make_linear(width, 4 * width, options));
  c_proj = register_module("c_proj", make_linear(4 * width, width, options));
  dropout = register_module("dropout", nn::Dropout(options.dropout()));
}

Tensor GPTMlpImpl::forward(const Tensor& x) {
  const nn::ModuleScope scope(*this);
  return dropout(c_proj(gelu(c_fc(x), "tanh")));
}

GPTBlockImpl::GPTBlockImpl(const GPTOptions& o) : options(o) { reset(); }

void GPTBlockImpl::reset() {
  ln_1 = register_module("ln_1", make_norm(options));
  attn = register_module("attn", nn::ModuleHolder<GPTAttentionImpl>(options));
  ln_2 = register_module("ln_2", make_norm(options));
  mlp = register_module("mlp", nn::ModuleHolder<GPTMlpImpl>(options));
}

Tensor GPTBlockImpl::forward(const Tensor& x, bool use_cache) {
  const nn::ModuleScope scope(*this);
  if (is_one_op(x, use_cache)) return decode(x);
  const Tensor y = x + attn(ln_1(x), use_cache);
  return y + mlp(ln_2(y));
}

bool GPTBlockImpl::is_one_op(const Tensor& x, bool use_cache) const {
  static const bool on = env_bool("PELLUCID_FUSED_DECODE", true);
  if (!on || !use_cache || GradMode::is_enabled() || x.dim() != 3 || x.size(0) * x.size(1) != 1)
    return false;
  if (x.dtype() != kFloat32 && x.dtype() != kFloat64) return false;
  const auto drops = [](const nn::Dropout& d) { return d->is_training() && d->options.p() > 0; };
  if ((attn->is_training() && options.dropout() > 0) || drops(attn->resid_dropout) ||
      drops(mlp->dropout))
    return false;
  const auto hooked = [](const auto&... modules) { return (modules->has_hooks() || ...); };
  return !hooked(ln_1, attn, attn->c_attn, attn->c_proj, attn->resid_dropout, ln_2, mlp, mlp->c_fc,
                 mlp->c_proj, mlp->dropout);
}

Tensor GPTBlockImpl::decode(const Tensor& x) {
  const int64_t heads = options.n_head();
  nn::KVCache& cache = attn->cache;
  const auto [keys, values] = cache.make_room({1, heads, 1, options.n_embd() / heads}, x.dtype());
  const Tensor y = _transformer_decode_layer(
      x, keys, values, ln_1->weight, ln_1->bias, attn->c_attn->weight, attn->c_attn->bias,
      attn->c_proj->weight, attn->c_proj->bias, ln_2->weight, ln_2->bias, mlp->c_fc->weight,
      mlp->c_fc->bias, mlp->c_proj->weight, mlp->c_proj->bias, cache.length(), ln_1->options.eps(),
      ln_2->options.eps(), "tanh");
  cache.advance(1);
  return y;
}

GPTImpl::GPTImpl(const GPTOptions& o) : options(o) { reset(); }

void GPTImpl::reset() {
  wte = register_module("wte", nn::Embedding(options.vocab_size(), options.n_embd()));
  wpe = register_module("wpe", nn::Embedding(options.block_size(), options.n_embd()));
  drop = register_module("drop", nn::Dropout(options.dropout()));
  h = register_module("h", nn::ModuleList());
  for (int64_t i = 0; i < options.n_layer(); ++i)
    h->push_back(std::make_shared<GPTBlockImpl>(options));
  ln_f = register_module("ln_f", make_norm(options));
  seen_ = 0;
  // Residual projections start smaller, so that the stream's variance does not grow with depth.
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(options.n_layer()));
  for (const auto& p : named_parameters()) {
    if (p.key().ends_with("c_proj.weight"))
      nn::init::normal_(p.value(), 0, residual);
    else if (p.value().dim() == 2)
      nn::init::normal_(p.value(), 0, 0.02);
    else if (p.key().ends_with("bias"))
      nn::init::zeros_(p.value());
  }
}

Tensor GPTImpl::forward(const Tensor& tokens, bool use_cache, bool last_only) {
  const nn::ModuleScope scope(*this);
  PELLUCID_CHECK(tokens.dim() == 2, ShapeError, "GPT: tokens must be [B, T], but are {}.",
                 tokens.sizes());
  const int64_t first = use_cache ? seen_ : 0, end = first + tokens.size(1);
  PELLUCID_CHECK(end <= options.block_size(), ValueError,
                 "GPT: {} positions are more than block_size {}.", end, options.block_size());
  // Without gradients the positions' rows are read where they are.
  const bool in_place = !GradMode::is_enabled() && !wpe->has_hooks();
  const Tensor places =
      in_place ? wpe->weight.narrow(0, first, end - first) : wpe(arange(first, end));
  Tensor x = drop(wte(tokens) + places);
  for (size_t i = 0; i < h->size(); ++i)
    x = nn::detail::call_module(h->at<GPTBlockImpl>(i), x, use_cache);
  if (use_cache) seen_ = end;
  if (last_only && x.size(1) > 1) x = x.narrow(1, x.size(1) - 1, 1);
  return linear(ln_f(x), wte->weight);
}

Tensor GPTImpl::logits(const Tensor& tokens, bool use_cache, bool last_only) {
  return forward(tokens, use_cache, last_only);
}

void GPTImpl::clear_cache() {
  seen_ = 0;
  for (size_t i = 0; i < h->size(); ++i) h->at<GPTBlockImpl>(i).attn->cache.clear();
}

}  // namespace pellucid::models
