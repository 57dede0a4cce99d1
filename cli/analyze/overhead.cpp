// analyze overhead: what watching costs: the same step without a recording and with each kind of
// recording, in turns.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/analyze/analysis.h"
#include "cli/timing.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/profiler.h"

namespace pellucid::cli {
namespace {

struct Way {
  const char* name;
  profile::Mode mode;
};
constexpr Way kWays[] = {{"off", profile::Mode::Off},
                         {"count", profile::Mode::Count},
                         {"sample", profile::Mode::Sample},
                         {"trace", profile::Mode::Trace}};

struct Measured {
  std::vector<double> seconds;  // of a step, block by block
  double bytes = 0;             // recorded for a step
};

// A block of steps under one way of recording; starting and ending it is not timed.
void run_block(const Way& way, int64_t steps, const std::function<void()>& step, Measured& m) {
  std::unique_ptr<ProfilerSession> session;
  if (way.mode != profile::Mode::Off) {
    profile::RecorderOptions o;
    o.mode = way.mode;
    session = std::make_unique<ProfilerSession>("", o);
  }
  step();
  m.seconds.push_back(seconds_of([&] {
                        for (int64_t i = 0; i < steps; ++i) step();
                      }) /
                      static_cast<double>(steps));
  if (session)
    m.bytes =
        static_cast<double>(session->stop().run.recorded_bytes) / static_cast<double>(steps + 1);
}

}  // namespace

Analysis analyze_overhead(const AnalysisOptions& o) {
  nn::Sequential model(nn::Linear(1000, 100), nn::ReLU(), nn::Linear(100, 10));
  optim::SGD optimizer(model->parameters(), optim::SGDOptions(1e-4));
  const Tensor x = randn({64, 1000}), y = randn({64, 10});
  const auto step = [&] {
    optimizer.zero_grad();
    nn::functional::mse_loss(model->forward(x), y).backward();
    optimizer.step();
  };
  const int64_t steps = o.quick ? 20 : 200;
  const int blocks = o.quick ? 3 : 15;
  Measured measured[std::size(kWays)];
  for (int i = 0; i < 10; ++i) step();
  for (int block = 0; block < blocks; ++block)
    for (size_t w = 0; w < std::size(kWays); ++w) run_block(kWays[w], steps, step, measured[w]);

  Analysis a{.title = "What recording costs: a training step of the net 1000-100-10",
             .columns = {"recording", "step us", "relative time", "overhead %", "bytes per step"}};
  for (size_t w = 0; w < std::size(kWays); ++w) {
    std::vector<double> ratios;
    for (size_t i = 0; i < measured[w].seconds.size(); ++i)
      ratios.push_back(measured[w].seconds[i] / measured[0].seconds[i]);
    const double ratio = median(ratios);
    a.rows.push_back({kWays[w].name,
                      {median(measured[w].seconds) * 1e6, 1},
                      ratio,
                      {100 * (ratio - 1), 2},
                      {measured[w].bytes, 0}});
  }
  a.chart = with_bars({.title = a.title, .y_label = "us a step"},
                      {"off", "count", "sample", "trace"}, a.column(1));
  const std::vector<double>& off = measured[0].seconds;
  const double apart = (quantile(off, 0.75) - quantile(off, 0.25)) / median(off);
  if (apart > 0.2)
    a.warning = fmt::format(
        "the machine is too noisy: half of the blocks without recording lie {:.0f} % apart; close "
        "other programs and measure again",
        100 * apart);
  a.notes = {
      fmt::format("{} blocks of {} steps each, in turns; medians of the ratios of "
                  "neighbouring blocks",
                  blocks, steps)};
  const std::vector<double> share = a.column(3);
  const auto added = [&](size_t way) {
    return share[way] > 0 ? fmt::format("{:.1f} %", share[way]) : "nothing that can be measured";
  };
  a.conclusion = fmt::format(
      "Tracing every op adds {} to this step, sampling {}, counting {}; an event costs {:.0f} ns.",
      added(3), added(2), added(1), profile::measure_event_cost());
  return a;
}

}  // namespace pellucid::cli
