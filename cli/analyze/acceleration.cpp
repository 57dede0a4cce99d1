// analyze acceleration: a matrix product from the naive loop nest to the library, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/parallel.h"
#include "cli/analyze/analysis.h"
#include "cli/app.h"
#include "kernels/isa.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

// c = a b for row-major n x n matrices.
struct Matrices {
  const float *a, *b;
  float* c;
  int64_t n;
};

// The textbook's three loops: the inner one walks down a column of b.
void naive(const Matrices& m) {
  const int64_t n = m.n;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += m.a[i * n + k] * m.b[k * n + j];
      m.c[i * n + j] = sum;
    }
}

// Rows [first, last) of c, with k in blocks whose rows of b stay in a cache; the inner loop walks
// along rows. Compiled as it stands for `blocked`, and for vectors for `vectorised`.
struct Blocked {
  template <Isa>
  [[gnu::always_inline]] static void run(const Matrices& m, int64_t first, int64_t last) {
    constexpr int64_t kBlock = 64;
    const int64_t n = m.n;
    std::fill(m.c + first * n, m.c + last * n, 0.0f);
    for (int64_t kk = 0; kk < n; kk += kBlock)
      for (int64_t i = first; i < last; ++i) {
        float* const __restrict c = m.c + i * n;
        for (int64_t k = kk; k < std::min(kk + kBlock, n); ++k) {
          const float a = m.a[i * n + k];
          const float* const __restrict b = m.b + k * n;
          for (int64_t j = 0; j < n; ++j) c[j] += a * b[j];
        }
      }
  }
};
using Vectorised = kernels::IsaLoops<Blocked, const Matrices&, int64_t, int64_t>;

// The same loops, one number at a time: what the empty statement touches cannot be in a vector.
void blocked(const Matrices& m) {
  constexpr int64_t kBlock = 64;
  const int64_t n = m.n;
  std::fill(m.c, m.c + n * n, 0.0f);
  for (int64_t kk = 0; kk < n; kk += kBlock)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = kk; k < std::min(kk + kBlock, n); ++k) {
        const float a = m.a[i * n + k];
        for (int64_t j = 0; j < n; ++j) {
          float product = a * m.b[k * n + j];
          asm volatile("" : "+x"(product));
          m.c[i * n + j] += product;
        }
      }
}

void vectorised(const Matrices& m) { Vectorised::at(isa())(m, 0, m.n); }

void threaded(const Matrices& m) {
  const auto rows = Vectorised::at(isa());
  parallel_for(0, m.n, 8, [&](int64_t first, int64_t last) { rows(m, first, last); });
}

struct Step {
  std::string name, what;
  std::function<void()> work;
};

}  // namespace

Analysis analyze_acceleration(const AnalysisOptions& o) {
  const NoGradGuard off;
  const std::vector<int64_t> sizes = sizes_or(o, {1024}, {192});
  if (sizes.size() != 1) throw UsageError("--sizes: one is expected here");
  const int64_t n = sizes[0];
  const Tensor a = randn({n, n}), b = randn({n, n}), c = empty({n, n});
  const Matrices m{a.const_data_ptr<float>(), b.const_data_ptr<float>(), c.data_ptr<float>(), n};
  Tensor product;
  const Tensor expected = a.to(kFloat64).matmul(b.to(kFloat64));
  const std::vector<Step> steps = {
      {"naive", "three loops, down the columns of b", [&] { naive(m); }},
      {"blocked", "loops exchanged, blocks that stay in a cache", [&] { blocked(m); }},
      {"vectorised", fmt::format("the same, vectors of {}", isa_name(isa())),
       [&] { vectorised(m); }},
      {"threaded", fmt::format("the same on {} threads", get_num_threads()), [&] { threaded(m); }},
      {"library", "matmul: registers, packing, threads", [&] { product = a.matmul(b); }}};
  Analysis out{
      .title = fmt::format("A product of float32[{}, {}], step by step", n, n),
      .columns = {"step", "what changed", "ms", "GFLOP/s", "gain of the step", "in all", "error"}};
  const double flops =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  std::vector<double> times;
  std::vector<std::string> names;
  for (const Step& s : steps) {
    const double ms = timed(o, s.work, out).median_ms;
    times.push_back(ms);
    names.push_back(s.name);
    const Tensor& result = s.name == "library" ? product : c;
    const double error = result.to(kFloat64).sub(expected).abs().max().item<double>();
    out.rows.push_back({s.name,
                        s.what,
                        ms,
                        {flops / ms / 1e6, 2},
                        {times.size() > 1 ? times[times.size() - 2] / ms : 1.0, 2},
                        {times[0] / ms, 1},
                        {error, 6}});
  }
  std::vector<double> gains;
  for (const double ms : times) gains.push_back(times[0] / ms);
  out.chart = with_bars({.title = out.title, .y_label = "times as fast as naive", .log_y = true},
                        names, gains, 0.8 * *std::min_element(gains.begin(), gains.end()));
  out.notes = {
      "All five are C++ and compiled alike; the error is the greatest difference from float64."};
  size_t greatest = 1;
  for (size_t i = 1; i < times.size(); ++i)
    if (times[i - 1] / times[i] > times[greatest - 1] / times[greatest]) greatest = i;
  out.conclusion = fmt::format(
      "The library is {:.0f} times as fast as the naive loop nest; the greatest step is '{}', "
      "{:.1f} "
      "times.",
      gains.back(), names[greatest], times[greatest - 1] / times[greatest]);
  return out;
}

}  // namespace pellucid::cli
