// analyze width, batch and threads: the same work in other sizes.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "cli/analyze/analysis.h"
#include "pellucid/autograd.h"
#include "pellucid/nn.h"
#include "pellucid/ops.h"
#include "pellucid/parallel.h"

namespace pellucid::cli {
namespace {

nn::Sequential two_layers(int64_t width) {
  return nn::Sequential(nn::Linear(width, width), nn::ReLU(), nn::Linear(width, width));
}

double batch_flops(nn::Sequential& model, const Tensor& x) {
  const EstimateGuard guard;
  const NoGradGuard off;
  model->forward(x);
  return sum_costs(guard.calls()).flops.total;
}

}  // namespace

Analysis analyze_width(const AnalysisOptions& o) {
  constexpr int64_t kBatch = 32;
  const NoGradGuard off;
  Analysis a{.title = "Cost by width: Linear(w, w), ReLU, Linear(w, w), batch 32",
             .columns = {"width", "parameters", "parameter MB", "FLOPs/sample", "forward ms",
                         "p95 ms", "GFLOP/s"}};
  for (const int64_t w : sizes_or(o, {64, 128, 256, 512}, {32, 64, 128, 256})) {
    nn::Sequential model = two_layers(w);
    const Tensor x = randn({kBatch, w});
    const Latency l = timed(
        o, [&] { model->forward(x); }, a);
    const int64_t parameters = count_parameters(model);
    a.rows.push_back({w,
                      parameters,
                      static_cast<double>(parameters) * 4 / 1e6,
                      static_cast<int64_t>(count_flops(model, x)),
                      {l.median_ms, 4},
                      {l.p95_ms, 4},
                      {batch_flops(model, x) / l.median_ms / 1e6, 2}});
  }
  const auto width = a.column(0);
  a.chart = {.title = a.title,
             .x_label = "width",
             .y_label = "ms",
             .log_y = true,
             .log_x = true,
             .series = {line_of("forward ms", 0, width, a.column(4)),
                        line_of("p95 ms", 9, width, a.column(5))}};
  const double work = a.column(3).back() / a.column(3).front();
  const double time = a.column(4).back() / a.column(4).front();
  a.conclusion = fmt::format(
      "From width {} to {} the FLOPs grow {:.1f} times and the time {:.1f} times: {:.2f} of linear "
      "in the work, so {}.",
      width.front(), width.back(), work, time, time / work,
      time < work ? "wider layers use the machine better" : "wider layers use the machine worse");
  return a;
}

Analysis analyze_batch(const AnalysisOptions& o) {
  constexpr int64_t kFeatures = 256;
  Analysis a{.title = "Cost by batch size: Linear(256, 256), ReLU, Linear(256, 256)",
             .columns = {"batch", "forward ms", "ms/sample", "samples/s", "memory MB",
                         "samples/s per MB"}};
  nn::Sequential model = two_layers(kFeatures);
  for (const int64_t batch : sizes_or(o, {1, 8, 32, 128}, {1, 8, 32, 128})) {
    const Tensor x = randn({batch, kFeatures});
    const double memory = measure_memory(model, x)["peak_memory_mb"];
    const NoGradGuard off;
    const double ms = timed(
                          o, [&] { model->forward(x); }, a)
                          .median_ms;
    const double rate = static_cast<double>(batch) / ms * 1e3;
    a.rows.push_back({batch,
                      {ms, 4},
                      {ms / static_cast<double>(batch), 5},
                      {rate, 0},
                      memory,
                      {rate / memory, 0}});
  }
  const auto batch = a.column(0), rate = a.column(3), efficiency = a.column(5);
  a.chart = {.title = a.title,
             .x_label = "batch",
             .y_label = "1/s",
             .log_y = true,
             .log_x = true,
             .series = {line_of("samples/s", 0, batch, rate),
                        line_of("samples/s per MB", 1, batch, efficiency)}};
  a.notes = {"Memory is the peak of a forward and a backward run, by the allocator."};
  const auto best = static_cast<size_t>(std::max_element(efficiency.begin(), efficiency.end()) -
                                        efficiency.begin());
  a.conclusion = fmt::format(
      "A batch of {:.0f} gives {:.1f} times the samples/s of a batch of {:.0f} ({:.0f} % of "
      "linear); "
      "most samples/s per MB at batch {:.0f}.",
      batch.back(), rate.back() / rate.front(), batch.front(),
      100 * rate.back() / rate.front() / (batch.back() / batch.front()), batch[best]);
  return a;
}

Analysis analyze_threads(const AnalysisOptions& o) {
  const NoGradGuard off;
  const int before = get_num_threads();
  struct Restore {
    int threads;
    ~Restore() { set_num_threads(threads); }
  } const restore{before};
  const int64_t n = o.quick ? 256 : 1024;
  std::vector<int64_t> usual;
  for (int64_t t = 1; t <= before; t *= 2) usual.push_back(t);
  if (usual.back() != before) usual.push_back(before);
  Analysis a{.title = fmt::format("Speed by threads: float32[{}, {}], this machine has {} cores", n,
                                  n, std::thread::hardware_concurrency()),
             .columns = {"threads", "matmul ms", "speed-up", "exp ms", "speed-up of exp", "sum ms",
                         "speed-up of sum"}};
  const Tensor x = randn({n, n}), y = randn({n, n}), wide = randn({4 * n, n});
  double first[3] = {0, 0, 0};
  for (const int64_t t : sizes_or(o, usual, usual)) {
    set_num_threads(static_cast<int>(t));
    const double ms[3] = {timed(
                              o, [&] { x.matmul(y); }, a)
                              .median_ms,
                          timed(
                              o, [&] { wide.exp(); }, a)
                              .median_ms,
                          timed(
                              o, [&] { wide.sum(); }, a)
                              .median_ms};
    for (int i = 0; i < 3; ++i)
      if (first[i] == 0) first[i] = ms[i];
    a.rows.push_back({t,
                      ms[0],
                      {first[0] / ms[0], 2},
                      ms[1],
                      {first[1] / ms[1], 2},
                      ms[2],
                      {first[2] / ms[2], 2}});
  }
  const auto threads = a.column(0);
  a.chart = {
      .title = a.title,
      .x_label = "threads",
      .y_label = "speed-up",
      .series = {line_of("matmul", 0, threads, a.column(2)),
                 line_of("exp", 1, threads, a.column(4)), line_of("sum", 2, threads, a.column(6)),
                 line_of("linear", 9, threads, threads)}};
  a.conclusion = fmt::format(
      "With {:.0f} instead of {:.0f} threads matmul runs {:.2f}, exp {:.2f} and sum {:.2f} times "
      "as "
      "fast.",
      threads.back(), threads.front(), a.column(2).back(), a.column(4).back(), a.column(6).back());
  return a;
}

}  // namespace pellucid::cli
