// What language models have in common, and generation from them.
#pragma once

#include <functional>
#include <vector>

#include "pellucid/nn/arg.h"
#include "pellucid/tensor.h"

namespace pellucid::models {

/// A model that predicts the next token.
class PELLUCID_API LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  /// Logits [B, T, vocabulary] of tokens [B, T]. With use_cache the tokens follow those seen
  /// since the cache was cleared; with last_only only the last position's logits are made.
  virtual Tensor logits(const Tensor& tokens, bool use_cache, bool last_only) = 0;
  virtual void clear_cache() = 0;
  /// The most positions that the model knows.
  virtual int64_t max_positions() const = 0;
};

struct GenerateOptions {
  PELLUCID_ARG(int64_t, tokens) = 100;
  /// 0 takes the likeliest token.
  PELLUCID_ARG(double, temperature) = 1.0;
  /// Only the k likeliest tokens are drawn from; 0 for all.
  PELLUCID_ARG(int64_t, top_k) = 0;
  /// Only the likeliest tokens whose probabilities together reach p.
  PELLUCID_ARG(double, top_p) = 1.0;
  PELLUCID_ARG(bool, use_cache) = true;
  /// Called with each new token; false stops.
  PELLUCID_ARG(std::function<bool(int64_t)>, on_token);
};

/// The prompt and what the model writes after it. Past the model's length the oldest tokens are
/// left out. Random choices come from manual_seed's stream.
PELLUCID_API std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> prompt,
                                           const GenerateOptions& options = {});

}  // namespace pellucid::models
