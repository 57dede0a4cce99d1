// GPT-2: learned positions, norm before each block, output tied to the token embedding.
#pragma once

#include "pellucid/models/language.h"
#include "pellucid/nn.h"

namespace pellucid::models {

/// The defaults are GPT-2's 124 million parameters.
struct GPTOptions {
  PELLUCID_ARG(int64_t, vocab_size) = 50257;
  PELLUCID_ARG(int64_t, block_size) = 1024;
  PELLUCID_ARG(int64_t, n_layer) = 12;
  PELLUCID_ARG(int64_t, n_head) = 12;
  PELLUCID_ARG(int64_t, n_embd) = 768;
  PELLUCID_ARG(double, dropout) = 0.0;
  PELLUCID_ARG(bool, bias) = true;
};

class PELLUCID_API GPTAttentionImpl : public nn::Cloneable<GPTAttentionImpl> {
 public:
  explicit GPTAttentionImpl(const GPTOptions& options);
  void reset() override;
  Tensor forward(const Tensor& x, bool use_cache);
  GPTOptions options;
  nn::Linear c_attn{nullptr}, c_proj{nullptr};
  nn::Dropout resid_dropout{nullptr};
  nn::KVCache cache;
};

class PELLUCID_API GPTMlpImpl : public nn::Cloneable<GPTMlpImpl> {
 public:
  explicit GPTMlpImpl(const GPTOptions& options);
  void reset() override;
  Tensor forward(const Tensor& x);
  GPTOptions options;
  nn::Linear c_fc{nullptr}, c_proj{nullptr};
  nn::Dropout dropout{nullptr};
};

class PELLUCID_API GPTBlockImpl : public nn::Cloneable<GPTBlockImpl> {
 public:
  explicit GPTBlockImpl(const GPTOptions& options);
  void reset() override;
  /// One token after cached ones goes through a single op where nobody can tell: gradients are off,
  /// nothing is dropped and no module inside has a hook. PELLUCID_FUSED_DECODE=0 turns that off.
  Tensor forward(const Tensor& x, bool use_cache);
  GPTOptions options;
  nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  nn::ModuleHolder<GPTAttentionImpl> attn{nullptr};
  nn::ModuleHolder<GPTMlpImpl> mlp{nullptr};

 private:
  bool is_one_op(const Tensor& x, bool use_cache) const;
  Tensor decode(const Tensor& x);
};

class PELLUCID_API GPTImpl : public nn::Cloneable<GPTImpl>, public LanguageModel {
 public:
  explicit GPTImpl(const GPTOptions& options = {});
  void reset() override;
  /// Logits [B, T, vocab_size] of tokens [B, T].
  Tensor forward(const Tensor& tokens, bool use_cache = false, bool last_only = false);
  Tensor logits(const Tensor& tokens, bool use_cache, bool last_only) override;
  void clear_cache() override;
  int64_t max_positions() const override { return options.block_size(); }
  /// Positions seen since the cache was cleared.
  int64_t cache_length() const { return seen_; }
  GPTOptions options;
  nn::Embedding wte{nullptr}, wpe{nullptr};
  nn::Dropout drop{nullptr};
  nn::ModuleList h{nullptr};
  nn::LayerNorm ln_f{nullptr};

 private:
  int64_t seen_ = 0;
};
using GPT = nn::ModuleHolder<GPTImpl>;

}  // namespace pellucid::models
