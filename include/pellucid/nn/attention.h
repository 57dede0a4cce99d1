// MultiheadAttention, RotaryEmbedding, the KV cache and CachedAttention.
#pragma once

#include <array>
#include <tuple>

#include "pellucid/nn/linear.h"
#include "pellucid/nn/options/transformer.h"

namespace pellucid::nn {

/// softmax(q kᵀ / sqrt(head size)) v for several heads, between projections.
class PELLUCID_API MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed_dim, num_heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  void reset() override;
  void _reset_parameters();
  /// The attended values, and the weights [B, T, S] (averaged over heads unless told) if asked for.
  /// Masks: true, or minus infinity, means "do not look". Without weights no T x S matrix is held.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true,
                                     bool is_causal = false);
  MultiheadAttentionOptions options;
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
  Linear out_proj{nullptr};
  int64_t head_dim = 0;

 private:
  std::array<Tensor, 3> project(const Tensor& q, const Tensor& k, const Tensor& v) const;
};
using MultiheadAttention = ModuleHolder<MultiheadAttentionImpl>;

struct RotaryEmbeddingOptions {
  RotaryEmbeddingOptions(int64_t dim, int64_t max_seq_len = 2048)
      : dim_(dim), max_seq_len_(max_seq_len) {}
  PELLUCID_ARG(int64_t, dim);
  PELLUCID_ARG(int64_t, max_seq_len) = 2048;
  PELLUCID_ARG(double, base) = 10000.0;
};

/// Turns each pair (x[2i], x[2i+1]) by the angle position / base^(2i / dim).
class PELLUCID_API RotaryEmbeddingImpl : public Cloneable<RotaryEmbeddingImpl> {
 public:
  explicit RotaryEmbeddingImpl(int64_t dim, int64_t max_seq_len = 2048)
      : RotaryEmbeddingImpl(RotaryEmbeddingOptions(dim, max_seq_len)) {}
  explicit RotaryEmbeddingImpl(const RotaryEmbeddingOptions& options);
  void reset() override;
  using Module::to;
  /// Computes the tables anew, so that float64 has float64's accuracy.
  void to(DType dtype, bool non_blocking = false) override;
  /// x is [B, L, D] or [B, L, H, D]; its first position is `offset`.
  Tensor forward(const Tensor& x, int64_t offset = 0);
  std::string extra_repr() const override;
  RotaryEmbeddingOptions options;
  /// [max_seq_len, dim / 2]: of each position's and pair's angle.
  Tensor cos, sin;

 private:
  std::array<Tensor, 2> tables(DType dtype) const;
};
using RotaryEmbedding = ModuleHolder<RotaryEmbeddingImpl>;

/// Keys and values of the positions seen so far, [B, H, length, D] each. Memory doubles when it is
/// full, so that appending a token copies nothing old most of the time.
class PELLUCID_API KVCache {
 public:
  /// Adds k and v [B, H, new positions, D], and returns all that is kept, as views.
  std::tuple<Tensor, Tensor> append(const Tensor& k, const Tensor& v);
  /// The memory of keys and values, [B, H, capacity, D] each, with room for keys of `sizes` [B, H,
  /// new positions, D]. Whoever writes them at length() calls advance afterwards.
  std::tuple<Tensor, Tensor> make_room(IntArrayRef sizes, DType dtype);
  void advance(int64_t positions) { length_ += positions; }
  /// Forgets all positions and keeps the memory.
  void clear() { length_ = 0; }
  int64_t length() const { return length_; }
  /// How many positions fit before memory grows.
  int64_t capacity() const { return keys_.defined() ? keys_.size(2) : 0; }
  /// Makes room for `positions` at once; called before the first append it needs nothing later.
  void reserve(int64_t positions) { reserve_ = positions; }
  bool empty() const { return length_ == 0; }

 private:
  void grow(IntArrayRef sizes, DType dtype, int64_t needed);
  Tensor keys_, values_;
  int64_t length_ = 0, reserve_ = 0;
};

struct CachedAttentionOptions {
  CachedAttentionOptions(int64_t dim, int64_t num_heads) : dim_(dim), num_heads_(num_heads) {}
  PELLUCID_ARG(int64_t, dim);
  PELLUCID_ARG(int64_t, num_heads);
  PELLUCID_ARG(bool, bias) = true;
  /// The most positions that the rotary embedding knows.
  PELLUCID_ARG(int64_t, max_seq_len) = 2048;
};

/// Causal self-attention with rotary positions, and a cache for decoding token by token.
class PELLUCID_API CachedAttentionImpl : public Cloneable<CachedAttentionImpl> {
 public:
  CachedAttentionImpl(int64_t dim, int64_t num_heads)
      : CachedAttentionImpl(CachedAttentionOptions(dim, num_heads)) {}
  explicit CachedAttentionImpl(const CachedAttentionOptions& options);
  void reset() override;
  /// x [B, L, dim] holds the positions after those in the cache; with use_cache they are appended
  /// to it, and attend to all before them. clear_cache forgets first. Without use_cache the
  /// cache is neither read nor written. No gradient flows through the cache.
  Tensor forward(const Tensor& x, bool use_cache = false, bool clear_cache = false);
  void clear_cache() { cache.clear(); }
  CachedAttentionOptions options;
  Linear qkv{nullptr}, out_proj{nullptr};
  RotaryEmbedding rope{nullptr};
  KVCache cache;
};
using CachedAttention = ModuleHolder<CachedAttentionImpl>;

/// Attention of positions [offset, offset + T) of q [B, H, T, D] over keys [B, Hkv, offset + T, D]:
/// each looks at itself and what is before.
PELLUCID_API Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                     int64_t offset, double dropout_p = 0.0);

}  // namespace pellucid::nn
