// Drawing tokens from a language model, one after another.
#include <algorithm>

#include "pellucid/autograd.h"
#include "pellucid/creation.h"
#include "pellucid/models/language.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::models {

namespace {

/// One token from logits [vocabulary].
int64_t choose(const Tensor& logits, const GenerateOptions& o) {
  if (o.temperature() == 0) return logits.argmax().item<int64_t>();
  Tensor values = logits / o.temperature(), ids;
  const bool sorted = o.top_k() > 0 || o.top_p() < 1;
  if (sorted) {
    const int64_t most = o.top_k() > 0 ? std::min(o.top_k(), logits.size(0)) : logits.size(0);
    std::tie(values, ids) = topk(values, most);
  }
  Tensor p = softmax(values, 0);
  // Keep a token if those before it do not yet reach top_p; the likeliest always stays.
  if (o.top_p() < 1) p = where(p.cumsum(0) - p < o.top_p(), p, zeros_like(p));
  const int64_t drawn = multinomial(p, 1).item<int64_t>();
  return sorted ? ids[drawn].item<int64_t>() : drawn;
}

Tensor as_tokens(const std::vector<int64_t>& ids, size_t first) {
  return tensor(std::vector<int64_t>(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end()))
      .unsqueeze(0);
}

}  // namespace

std::vector<int64_t> generate(LanguageModel& model, std::vector<int64_t> ids,
                              const GenerateOptions& o) {
  PELLUCID_CHECK(!ids.empty(), ValueError, "generate: the prompt must have at least one token.");
  PELLUCID_CHECK(o.temperature() >= 0 && o.top_p() > 0 && o.top_k() >= 0 && o.tokens() >= 0,
                 ValueError,
                 "generate: tokens {}, temperature {} and top_k {} must not be negative, and top_p "
                 "{} must be positive.",
                 o.tokens(), o.temperature(), o.top_k(), o.top_p());
  const NoGradGuard off;
  const auto limit = static_cast<size_t>(model.max_positions());
  size_t cached = 0;  // how many of the last ids the cache holds
  model.clear_cache();
  for (int64_t i = 0; i < o.tokens(); ++i) {
    size_t first = ids.size() > limit ? ids.size() - limit : 0;
    if (o.use_cache() && first == 0) {
      first = cached;
      cached = ids.size();
    }
    const bool use_cache = o.use_cache() && ids.size() <= limit;
    const Tensor logits = model.logits(as_tokens(ids, first), use_cache, true);
    ids.push_back(choose(logits.flatten(), o));
    if (o.on_token() && !o.on_token()(ids.back())) break;
  }
  return ids;
}

}  // namespace pellucid::models
