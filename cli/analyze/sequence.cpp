// analyze sequence: attention written out against the tiled one, and a token with and without the
// KV cache.
#include <fmt/format.h>

#include <cmath>

#include "cli/analyze/analysis.h"
#include "pellucid/autograd.h"
#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

constexpr int64_t kWidth = 512, kHeads = 8, kHead = kWidth / kHeads;

// softmax(q k^T / sqrt(d) + mask) v with every matrix in memory.
Tensor naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  const Tensor scores = q.matmul(k.mT()) / std::sqrt(static_cast<double>(kHead)) + mask;
  return scores.softmax(-1).matmul(v);
}

int64_t peak_of(const std::function<void()>& work) {
  reset_peak_memory_stats();
  const int64_t before = memory_stats().allocated;
  work();
  return memory_stats().peak - before;
}

struct Token {
  double cached_ms, recomputed_ms;
};

// The time of the last of `length` tokens.
Token measure_token(const AnalysisOptions& o, int64_t length, Analysis& a) {
  nn::CachedAttention layer(kWidth, kHeads);
  const Tensor all = randn({1, length, kWidth}), last = all.narrow(1, length - 1, 1);
  const Tensor before = all.narrow(1, 0, length - 1);
  std::vector<double> cached;
  for (int i = 0; i < (o.quick ? 3 : 15); ++i) {
    layer->forward(before, true, true);
    cached.push_back(measure_latency_of([&] { layer->forward(last, true); }, 0, 1).median_ms);
  }
  return {quantile(cached, 0.5), timed(
                                     o, [&] { layer->forward(all); }, a)
                                     .median_ms};
}

}  // namespace

Analysis analyze_sequence(const AnalysisOptions& o) {
  const NoGradGuard off;
  Analysis a{.title = "Cost by sequence length: causal attention, 8 heads of 64, float32",
             .columns = {"length", "naive ms", "tiled ms", "naive/tiled", "naive MB", "tiled MB",
                         "token ms", "token cached ms", "cache gain"}};
  for (const int64_t t : sizes_or(o, {64, 128, 256, 512, 1024}, {32, 64, 128})) {
    const Tensor q = randn({1, kHeads, t, kHead}), k = randn({1, kHeads, t, kHead}),
                 v = randn({1, kHeads, t, kHead});
    const Tensor mask = full({t, t}, -INFINITY).triu(1);
    const auto naive = [&] { naive_attention(q, k, v, mask); };
    const auto tiled = [&] { scaled_dot_product_attention(q, k, v, {}, 0.0, true); };
    const double naive_ms = timed(o, naive, a).median_ms, tiled_ms = timed(o, tiled, a).median_ms;
    const Token token = measure_token(o, t, a);
    a.rows.push_back({t,
                      naive_ms,
                      tiled_ms,
                      {naive_ms / tiled_ms, 2},
                      static_cast<double>(peak_of(naive)) / 1e6,
                      static_cast<double>(peak_of(tiled)) / 1e6,
                      token.recomputed_ms,
                      token.cached_ms,
                      {token.recomputed_ms / token.cached_ms, 1}});
  }
  const auto length = a.column(0);
  a.chart = {
      .title = a.title,
      .x_label = "length",
      .y_label = "ms",
      .log_y = true,
      .log_x = true,
      .series = {line_of("naive", 0, length, a.column(1)), line_of("tiled", 1, length, a.column(2)),
                 line_of("token, recomputed", 2, length, a.column(6)),
                 line_of("token, cached", 3, length, a.column(7))}};
  a.notes = {
      "token: the last one through CachedAttention(512, 8 heads), recomputing all before it or "
      "from "
      "the cache.",
      fmt::format("Growth with length (quadratic is 2): naive {:.2f}, tiled {:.2f}.",
                  growth(length, a.column(1)), growth(length, a.column(2)))};
  const auto gain = a.column(8), tiles = a.column(3);
  const auto pays = std::find_if(gain.begin(), gain.end(), [](double g) { return g > 1; });
  a.conclusion =
      pays == gain.end()
          ? fmt::format("The cache does not pay up to length {:.0f}.", length.back())
          : fmt::format(
                "At length {:.0f} tiled attention is {:.2f} times as fast as the naive one; the KV "
                "cache pays from length {:.0f} on and makes a token {:.1f} times as fast at "
                "{:.0f}.",
                length.back(), tiles.back(), length[static_cast<size_t>(pays - gain.begin())],
                gain.back(), length.back());
  return a;
}

}  // namespace pellucid::cli
