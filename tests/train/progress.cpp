// The bar, the charts and the schedules of `pellucid train`.
#include "cli/train/progress.h"

#include <doctest/doctest.h>

#include "cli/plot.h"
#include "cli/train/optimizers.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::cli;
using namespace pellucid::cli::train;

TEST_CASE("train: the bar shows loss, speed and time left, in the columns there are") {
  const StepReport r{.epoch = 0,
                     .epochs = 3,
                     .batch = 468,
                     .batches = 938,
                     .examples = 60000,
                     .batch_size = 64,
                     .step = 469,
                     .loss = 0.12345};
  CHECK(bar_text("mnist", r, 3012.7, 62.4, 90) ==
        "mnist 1/3  50% [============            ] 469/938  loss 0.1235  3,012 samples/s  1:02 "
        "left");
  CHECK(bar_text("mnist", r, 3.25, 3723, 77) ==
        "mnist 1/3  50% [=====     ] 469/938  loss 0.1235  3.2 samples/s  1:02:03 left");
  CHECK(bar_text("mnist", r, 3012, 62, 30) == "mnist 1/3  50%  469/938  loss ");
  CHECK(bar_text("mnist", r, 3012, 62, 0) == "");
  CHECK(clock_text(7.4) == "0:07");
  CHECK(clock_text(1e300) == "100000:00:00");
  CHECK(clock_text(-1) == "0:00");
}

TEST_CASE("charts: round ticks") {
  CHECK(round_ticks(0, 2.5, 5) == std::vector<double>{0, 0.5, 1, 1.5, 2, 2.5});
  CHECK(round_ticks(1, 938, 8) == std::vector<double>{200, 400, 600, 800});
  CHECK(round_ticks(-1, 1, 2) == std::vector<double>{-1, 0, 1});
  CHECK(round_ticks(3, 3, 5) == std::vector<double>{3});
}

TEST_CASE("charts: SVG and PNG of ordinary, empty, constant and bad data") {
  const auto chart = [](std::vector<std::pair<double, double>> points, bool log = false) {
    return Chart{.title = "a < b & \"c\" \\l",
                 .x_label = "step",
                 .y_label = "loss",
                 .log_y = log,
                 .series = {{"raw", "#112233", 1, std::move(points)}}};
  };
  std::vector<std::pair<double, double>> many;
  for (int i = 0; i < 50'000; ++i) many.emplace_back(i, i % 7);
  for (const Chart& c :
       {chart({{1, 2}, {2, 1}}), chart({}), chart({{5, 5}}), chart({{1, 0}, {2, 1e-9}}, true),
        chart({{1, NAN}, {2, INFINITY}, {3, 1}}), chart({{1, -3}, {2, -3}}), chart(many)}) {
    const std::string svg = chart_svg(c), png = chart_png(c);
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.size() < 200'000);
    CHECK(png.starts_with("\x89PNG"));
    // Width and height in pixels: 720 x 420 points at 144 a inch.
    CHECK(png.substr(16, 8) == std::string("\0\0\x05\xa0\0\0\x03\x48", 8));
  }
}

TEST_CASE("train: optimisers and schedules by name") {
  const Tensor p = ones({2}).requires_grad_();
  TrainOptions o{.lr = 0.5, .momentum = 0.9};
  for (const std::string& name : optimizer_names()) {
    o.optimizer = name;
    const auto made = make_optimizer(o, {optim::OptimizerParamGroup({p})});
    CHECK(made->param_groups()[0].options().get_lr() == 0.5);
    p.mutable_grad() = ones({2});
    CHECK_NOTHROW(made->step());
  }
  o.optimizer = "none";
  CHECK_THROWS_AS(make_optimizer(o, {optim::OptimizerParamGroup({p})}), ValueError);
  const auto rates = [&](const char* schedule, int64_t warmup) {
    optim::SGD sgd({p}, optim::SGDOptions(1));
    o.schedule = schedule;
    o.warmup = warmup;
    const auto made = make_schedule(o, sgd, 4);
    std::vector<double> all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(sgd.param_groups()[0].options().get_lr());
      if (made) made->step();
    }
    return all;
  };
  CHECK(rates("constant", 0) == std::vector<double>{1, 1, 1, 1, 1});
  CHECK(rates("constant", 1) == std::vector<double>{0.5, 1, 1, 1, 1});
  CHECK(rates("linear", 0) == std::vector<double>{1, 0.75, 0.5, 0.25, 0});
  CHECK(rates("cosine", 0)[2] == doctest::Approx(0.5));
  CHECK(rates("cosine", 2)[4] == doctest::Approx(0));
}
