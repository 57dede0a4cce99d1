// Llama: RMSNorm, rotary positions, SwiGLU and grouped-query attention. Names are Meta's.
#pragma once

#include "pellucid/models/language.h"
#include "pellucid/nn.h"

namespace pellucid::models {

struct LlamaOptions {
  PELLUCID_ARG(int64_t, vocab_size) = 32000;
  PELLUCID_ARG(int64_t, dim) = 288;
  PELLUCID_ARG(int64_t, hidden_dim) = 768;
  PELLUCID_ARG(int64_t, n_layers) = 6;
  PELLUCID_ARG(int64_t, n_heads) = 6;
  /// Fewer heads of keys and values than of queries share them.
  PELLUCID_ARG(int64_t, n_kv_heads) = 6;
  PELLUCID_ARG(int64_t, max_seq_len) = 256;
  PELLUCID_ARG(double, norm_eps) = 1e-5;
  PELLUCID_ARG(double, rope_base) = 10000.0;
  /// Whether the output shares the token embedding's weight.
  PELLUCID_ARG(bool, tied) = true;
};

class PELLUCID_API LlamaAttentionImpl : public nn::Cloneable<LlamaAttentionImpl> {
 public:
  explicit LlamaAttentionImpl(const LlamaOptions& options);
  void reset() override;
  Tensor forward(const Tensor& x, nn::RotaryEmbedding rope, bool use_cache);
  LlamaOptions options;
  nn::Linear wq{nullptr}, wk{nullptr}, wv{nullptr}, wo{nullptr};
  nn::KVCache cache;
};

/// w2(silu(w1 x) * w3 x)
class PELLUCID_API LlamaFeedForwardImpl : public nn::Cloneable<LlamaFeedForwardImpl> {
 public:
  explicit LlamaFeedForwardImpl(const LlamaOptions& options);
  void reset() override;
  Tensor forward(const Tensor& x);
  LlamaOptions options;
  nn::Linear w1{nullptr}, w2{nullptr}, w3{nullptr};
};

class PELLUCID_API LlamaBlockImpl : public nn::Cloneable<LlamaBlockImpl> {
 public:
  explicit LlamaBlockImpl(const LlamaOptions& options);
  void reset() override;
  Tensor forward(const Tensor& x, nn::RotaryEmbedding rope, bool use_cache);
  LlamaOptions options;
  nn::ModuleHolder<LlamaAttentionImpl> attention{nullptr};
  nn::ModuleHolder<LlamaFeedForwardImpl> feed_forward{nullptr};
  nn::RMSNorm attention_norm{nullptr}, ffn_norm{nullptr};
};

class PELLUCID_API LlamaImpl : public nn::Cloneable<LlamaImpl>, public LanguageModel {
 public:
  explicit LlamaImpl(const LlamaOptions& options = {});
  void reset() override;
  /// Logits [B, T, vocab_size] of tokens [B, T].
  Tensor forward(const Tensor& tokens, bool use_cache = false, bool last_only = false);
  Tensor logits(const Tensor& tokens, bool use_cache, bool last_only) override;
  void clear_cache() override;
  int64_t max_positions() const override { return options.max_seq_len(); }
  LlamaOptions options;
  nn::Embedding tok_embeddings{nullptr};
  nn::ModuleList layers{nullptr};
  nn::RMSNorm norm{nullptr};
  nn::Linear output{nullptr};  ///< empty where the weight is shared
  nn::RotaryEmbedding rope{nullptr};

 private:
  int64_t seen_ = 0;
};
using Llama = nn::ModuleHolder<LlamaImpl>;

/// A model in llama2.c's file format: seven int32 header fields, then float32 weights.
PELLUCID_API Llama load_llama2c(const std::string& file);

}  // namespace pellucid::models
