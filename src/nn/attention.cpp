// The KV cache and CachedAttention. RotaryEmbedding is in rotary.cpp, MultiheadAttention in
// multihead.cpp.
#include "pellucid/nn/attention.h"

#include <algorithm>

#include "pellucid/autograd.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

void KVCache::grow(IntArrayRef sizes, DType dtype, int64_t needed) {
  const int64_t room = std::max({needed, 2 * capacity(), reserve_, int64_t{32}});
  const auto widen = [&](Tensor& old) {
    Tensor bigger = pellucid::empty({sizes[0], sizes[1], room, sizes[3]}, dtype);
    if (length_ > 0) bigger.narrow(2, 0, length_).copy_(old.narrow(2, 0, length_));
    old = bigger;
  };
  widen(keys_);
  widen(values_);
}

std::tuple<Tensor, Tensor> KVCache::make_room(IntArrayRef sizes, DType dtype) {
  const bool fits = keys_.defined() && sizes[0] == keys_.size(0) && sizes[1] == keys_.size(1) &&
                    sizes[3] == keys_.size(3) && dtype == keys_.dtype();
  PELLUCID_CHECK(fits || length_ == 0, ShapeError,
                 "KVCache: {} {} do not continue the cached {} {}. Clear the cache first.", dtype,
                 sizes, keys_.dtype(), keys_.sizes());
  const NoGradGuard off;
  if (!fits) keys_ = values_ = Tensor();
  if (length_ + sizes[2] > capacity()) grow(sizes, dtype, length_ + sizes[2]);
  return {keys_, values_};
}

std::tuple<Tensor, Tensor> KVCache::append(const Tensor& k, const Tensor& v) {
  PELLUCID_CHECK(k.dim() == 4 && k.sizes() == v.sizes(), ShapeError,
                 "KVCache: keys and values must both be [B, H, L, D], but are {} and {}.",
                 k.sizes(), v.sizes());
  const NoGradGuard off;
  make_room(k.sizes(), k.dtype());
  keys_.narrow(2, length_, k.size(2)).copy_(k);
  values_.narrow(2, length_, v.size(2)).copy_(v);
  advance(k.size(2));
  return {keys_.narrow(2, 0, length_), values_.narrow(2, 0, length_)};
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t offset,
                        double dropout_p) {
  const int64_t length = q.size(2);
  const bool shared = q.size(1) != k.size(1);
  if (length == 1 || offset == 0)
    return scaled_dot_product_attention(q, k, v, {}, dropout_p, length > 1, std::nullopt, shared);
  const Tensor mask = ones({length, k.size(2)}, kBool).tril(offset);
  return scaled_dot_product_attention(q, k, v, mask, dropout_p, false, std::nullopt, shared);
}

CachedAttentionImpl::CachedAttentionImpl(const CachedAttentionOptions& o) : options(o) { reset(); }

void CachedAttentionImpl::reset() {
  const int64_t dim = options.dim(), heads = options.num_heads();
  PELLUCID_CHECK(heads > 0 && dim > 0 && dim % heads == 0, ValueError,
                 "CachedAttention: dim {} must be divisible by num_heads {}.", dim, heads);
  qkv = register_module("qkv", Linear(LinearOptions(dim, 3 * dim).bias(options.bias())));
  out_proj = register_module("out_proj", Linear(LinearOptions(dim, dim).bias(options.bias())));
  rope = register_module("rope", RotaryEmbedding(dim / heads, options.max_seq_len()));
  cache = KVCache();
}

Tensor CachedAttentionImpl::forward(const Tensor& x, bool use_cache, bool clear) {
  const ModuleScope scope(*this);
  PELLUCID_CHECK(x.dim() == 3 && x.size(2) == options.dim(), ShapeError,
                 "CachedAttention: the input must be [B, L, {}], but is {}.", options.dim(),
                 x.sizes());
  if (clear) cache.clear();
  const int64_t batch = x.size(0), length = x.size(1), heads = options.num_heads();
  const int64_t offset = use_cache ? cache.length() : 0;
  const Tensor all = qkv(x).view({batch, length, 3, heads, options.dim() / heads});
  const Tensor q = rope(all.select(2, 0), offset).transpose(1, 2);
  Tensor k = rope(all.select(2, 1), offset).transpose(1, 2);
  Tensor v = all.select(2, 2).transpose(1, 2);
  if (use_cache) std::tie(k, v) = cache.append(k, v);
  const Tensor y = causal_attention(q, k, v, offset);
  return out_proj(y.transpose(1, 2).reshape({batch, length, options.dim()}));
}

}  // namespace pellucid::nn
