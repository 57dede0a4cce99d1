// The table of modules of recorded runs: each number of a parent is the sum of its own ops' and its
// children's, the rows of the first level sum to the last one, and that is the run.
#include <doctest/doctest.h>

#include "pellucid/nn.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"

using namespace pellucid;
using namespace pellucid::profile;

namespace {

struct MixedImpl : nn::Cloneable<MixedImpl> {
  MixedImpl() { reset(); }
  void reset() override {
    scale = register_parameter("scale", ones({16}));
    shared = register_module("shared", nn::Linear(16, 16));
    block = register_module("block", nn::Sequential(nn::Linear(16, 16), nn::ReLU(),
                                                    nn::Sequential(nn::Linear(16, 16))));
  }
  Tensor forward(const Tensor& x) {
    const Tensor a = relu(shared(x)) * scale;
    return block(shared(a)).matmul(a.t());
  }
  Tensor scale;
  nn::Linear shared{nullptr};
  nn::Sequential block{nullptr};
};

size_t level_of(const std::string& label) { return label.find_first_not_of(' ') / 2; }

void check_modules(const Profile& p) {
  const ReportTable t = report(p, "modules")[0];
  std::vector<size_t> numbers;  // the columns that add up
  for (size_t c = 0; c < t.columns.size(); ++c)
    for (const char* key : {"parameters", "flops", "forward_seconds", "backward_seconds",
                            "optimizer_seconds", "seconds", "time_share", "peak_bytes"})
      if (t.columns[c].key == key) numbers.push_back(c);
  REQUIRE(numbers.size() == 8);
  REQUIRE(t.rows.back()[0].text == "sum");
  for (const size_t c : numbers) {
    INFO(t.columns[c].key);
    double first_level = 0;
    for (size_t r = 0; r + 1 < t.rows.size(); ++r) {
      const size_t depth = level_of(t.rows[r][0].text);
      if (depth == 0) first_level += t.rows[r][c].number;
      double below = 0;
      bool parent = false;
      for (size_t k = r + 1; k + 1 < t.rows.size(); ++k) {
        const size_t other = level_of(t.rows[k][0].text);
        if (other <= depth) break;
        parent = true;
        if (other == depth + 1) below += t.rows[k][c].number;
      }
      INFO(t.rows[r][0].text);
      if (parent) CHECK(below == doctest::Approx(t.rows[r][c].number).epsilon(1e-9));
      CHECK(t.rows[r][c].number >= 0);
    }
    CHECK(first_level == doctest::Approx(t.rows.back()[c].number).epsilon(1e-9));
  }
  const ReportTable overview = report(p, "overview")[0];
  REQUIRE(overview.rows.back()[0].text == "sum");
  for (size_t c = 0; c < t.columns.size(); ++c) {
    if (t.columns[c].key == "seconds")
      CHECK(t.rows.back()[c].number == doctest::Approx(overview.rows.back()[1].number));
    if (t.columns[c].key == "time_share") CHECK(t.rows.back()[c].number == doctest::Approx(1));
  }
}

}  // namespace

TEST_CASE("report: the rows of the modules' table sum to the run, whatever the model") {
  const Tensor x = randn({4, 16});
  {
    ProfilerSession session("");
    nn::ModuleHolder<MixedImpl> model(std::make_shared<MixedImpl>());
    optim::AdamW adam(model->parameters(), optim::AdamWOptions(1e-3));
    for (int i = 0; i < 3; ++i) {
      adam.zero_grad();
      model(x).square().mean().backward();
      adam.step();
    }
    check_modules(session.stop());
  }
  {
    nn::Sequential net(nn::Linear(16, 8), nn::Sequential(nn::ReLU(), nn::Linear(8, 2)));
    nn::Linear alone(16, 2);
    ProfilerSession session("");
    (net(x) + alone(x)).sum().backward();
    x.add(x);
    check_modules(session.stop());
  }
}

TEST_CASE("profile: a tensor that becomes a parameter counts as one") {
  ProfilerSession session("");
  nn::ModuleHolder<MixedImpl> model(std::make_shared<MixedImpl>());
  const Profile p = session.stop();
  int64_t parameters = 0, wanted = 0;
  for (const Allocation& a : p.allocations)
    if (a.category == MemoryCategory::Parameter && a.end < 0) parameters += a.bytes;
  for (const Tensor& t : model->parameters()) wanted += static_cast<int64_t>(t.nbytes());
  CHECK(parameters == wanted);
}

TEST_CASE("profile: the cost of an event is that between kernels of the run's size") {
  // In a loop of nothing else an event costs less than between kernels that sweep the caches.
  CHECK(measure_event_cost(Mode::Trace) > 0);
  ProfilerSession session("");
  const Tensor x = randn({256, 256});
  for (int i = 0; i < 20; ++i) x.mm(x);
  const Profile p = session.stop();
  CHECK(p.run.event_cost > 0);
  CHECK(p.run.event_cost < 10'000);
}
