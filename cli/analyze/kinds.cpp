// analyze dtype, ops and allocation: the same size in other kinds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/analyze/analysis.h"
#include "cli/app.h"
#include "pellucid/autograd.h"
#include "pellucid/machine.h"
#include "pellucid/ops.h"

namespace pellucid::cli {
namespace {

constexpr double kMebi = 1 << 20;

int64_t one_size(const AnalysisOptions& o, int64_t usual, int64_t quick) {
  const std::vector<int64_t> sizes = sizes_or(o, {usual}, {quick});
  if (sizes.size() != 1) throw UsageError("--sizes: one is expected here");
  return sizes[0];
}

std::vector<std::string> names_of(const Analysis& a) {
  std::vector<std::string> out;
  for (const auto& row : a.rows) out.push_back(std::get<std::string>(row[0].value));
  return out;
}

}  // namespace

Analysis analyze_dtype(const AnalysisOptions& o) {
  const NoGradGuard off;
  const int64_t n = one_size(o, 1000, 1000);
  Analysis a{
      .title = fmt::format("Memory and matmul by data type: {} x {}", n, n),
      .columns = {"dtype", "bytes/element", "memory MiB", "matmul ms", "GFLOP/s", "computed in"}};
  for (const DType t : {kFloat32, kFloat64, kFloat16, kInt32, kInt64, kBool}) {
    const Tensor x = randint(0, 2, {n, n}, kInt64).to(t), y = randint(0, 2, {n, n}, kInt64).to(t);
    const bool cast = !is_floating(t);
    const auto work = [&] {
      if (cast)
        x.to(kFloat32).matmul(y.to(kFloat32));
      else
        x.matmul(y);
    };
    const double ms = timed(o, work, a).median_ms;
    const double flops =
        2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    a.rows.push_back({fmt::format("{}", t),
                      x.element_size(),
                      {static_cast<double>(x.nbytes()) / kMebi, 2},
                      ms,
                      {flops / ms / 1e6, 1},
                      cast ? "float32, cast inside" : fmt::format("{}", t)});
  }
  a.chart = with_bars({.title = a.title, .y_label = "matmul ms"}, names_of(a), a.column(3));
  const auto ms = a.column(3);
  const auto fastest = static_cast<size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin());
  a.conclusion = fmt::format(
      "The fastest product is {}'s; float64 takes {:.2f} times float32's time for 2 times its "
      "memory, float16 {:.2f} times for half.",
      names_of(a)[fastest], ms[1] / ms[0], ms[2] / ms[0]);
  return a;
}

namespace {}  // namespace

Analysis analyze_ops(const AnalysisOptions& o) {
  const NoGradGuard off;
  const int64_t n = one_size(o, 1024, 256);
  const MachineRates machine = o.machine.known() ? o.machine : this_machine();
  const Tensor x = randn({n, n}), y = randn({n, n}), index = randint(0, n, {n}, kInt64);
  const Tensor image = randn({8, 32, n / 8, n / 8}), filter = randn({32, 32, 3, 3});
  const std::vector<std::pair<std::string, std::function<Tensor()>>> cases = {
      {"add (pointwise)", [&] { return x.add(y); }},
      {"exp (pointwise)", [&] { return x.exp(); }},
      {"sum (reduction)", [&] { return x.sum(); }},
      {"softmax (rows)", [&] { return x.softmax(-1); }},
      {"matmul (contraction)", [&] { return x.matmul(y); }},
      {"conv2d (contraction)", [&] { return conv2d(image, filter); }},
      {"transpose copy (movement)", [&] { return x.t().contiguous(); }},
      {"index_select (index)", [&] { return x.index_select(0, index); }},
      {"sort (rows)", [&] { return std::get<0>(x.sort(-1)); }}};
  Analysis a{.title = fmt::format("Kinds of operations on float32[{}, {}] against {}", n, n,
                                  machine.text()),
             .columns = {"operation", "ms", "MFLOP", "MB moved", "GFLOP/s", "GB/s", "bound by",
                         "% of ceiling"}};
  std::vector<double> shares;
  for (const auto& [name, work] : cases) {
    CostSum cost;
    LeastTime least;
    {
      const EstimateGuard guard;
      work();
      cost = sum_costs(guard.calls());
      least = least_time(guard.calls(), machine);
    }
    const double ms = timed(o, work, a).median_ms;
    shares.push_back(100 * least.seconds * 1e3 / ms);
    a.rows.push_back({name,
                      ms,
                      {cost.flops.total / 1e6, 2},
                      {cost.bytes / 1e6, 2},
                      {cost.flops.total / ms / 1e6, 2},
                      {cost.bytes / ms / 1e6, 2},
                      std::string(least.bottleneck()),
                      {shares.back(), 0}});
  }
  std::vector<std::string> short_names = names_of(a);  // "add (pointwise)" -> "add"
  for (std::string& name : short_names) name.erase(name.find(" ("));
  a.chart =
      with_bars({.title = a.title, .y_label = "% of the ceiling that binds"}, short_names, shares);
  const auto [worst, best] = std::minmax_element(shares.begin(), shares.end());
  a.notes = {machine.measured()
                 ? "The ceiling of memory is that of the nearest cache which holds an op's bytes "
                   "(pellucid doctor lists them)."
                 : "One rate was given for all memory: what stays in a cache may pass it."};
  if (std::string why = machine.warning(*best / 100); !why.empty())
    a.notes.push_back("Warning: " + std::move(why) + ".");
  a.conclusion = fmt::format("Nearest to its ceiling is {} ({:.0f} %), farthest {} ({:.0f} %).",
                             names_of(a)[static_cast<size_t>(best - shares.begin())], *best,
                             names_of(a)[static_cast<size_t>(worst - shares.begin())], *worst);
  return a;
}

Analysis analyze_allocation(const AnalysisOptions& o) {
  const NoGradGuard off;
  Analysis a{.title = "One block of 4,000,000 bytes against 1,000 blocks of 4,096",
             .columns = {"layout", "blocks", "bytes", "memory MiB", "make ms", "fill ms", "sum ms",
                         "free ms"}};
  struct Layout {
    std::string name;
    int64_t blocks, elements;
  };
  for (const Layout& layout : {Layout{"contiguous", 1, 1'000'000}, {"fragmented", 1000, 1024}}) {
    std::vector<Tensor> blocks;
    const auto make = [&] {
      for (int64_t i = 0; i < layout.blocks; ++i) blocks.push_back(empty({layout.elements}));
    };
    const int64_t before = memory_stats().allocated;
    make();
    const int64_t bytes = memory_stats().allocated - before;
    const double fill = timed(
                            o,
                            [&] {
                              for (const Tensor& t : blocks) t.fill_(1);
                            },
                            a)
                            .median_ms;
    const double sum = timed(
                           o,
                           [&] {
                             for (const Tensor& t : blocks) t.sum();
                           },
                           a)
                           .median_ms;
    std::vector<double> make_ms, free_ms;
    for (int i = 0; i < (o.quick ? 5 : 51); ++i) {
      free_ms.push_back(measure_latency_of([&] { blocks.clear(); }, 0, 1).median_ms);
      make_ms.push_back(measure_latency_of(make, 0, 1).median_ms);
    }
    a.rows.push_back({layout.name,
                      layout.blocks,
                      bytes,
                      {static_cast<double>(bytes) / kMebi, 2},
                      quantile(make_ms, 0.5),
                      fill,
                      sum,
                      quantile(free_ms, 0.5)});
  }
  const auto total = [&](size_t row) {
    return a.column(4)[row] + a.column(5)[row] + a.column(6)[row] + a.column(7)[row];
  };
  a.chart = with_bars({.title = a.title, .y_label = "ms: make, fill, sum and free"}, names_of(a),
                      {total(0), total(1)});
  a.notes = {"Memory is what the allocator counts as allocated."};
  const double added_ms = total(1) - total(0);
  a.conclusion = fmt::format(
      "A thousand blocks take {:.1f} % more memory and {:.1f} times the time of one block: {:.2f} "
      "us {} for each.",
      100 * (a.column(2)[1] / a.column(2)[0] - 1), total(1) / total(0),
      std::abs(added_ms) * 1e3 / 1000, added_ms < 0 ? "less" : "more");
  return a;
}

}  // namespace pellucid::cli
