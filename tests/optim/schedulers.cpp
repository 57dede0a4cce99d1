// Schedules against numbers computed with PyTorch 2.13, from SGD(lr = 0.1, momentum = 0.9).
#include <doctest/doctest.h>

#include <cmath>

#include "pellucid/nn.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"
#include "pellucid/optim.h"

using namespace pellucid;
using namespace pellucid::optim;

namespace {

SGD sgd() { return SGD(std::vector{ones({1}).requires_grad_()}, SGDOptions(0.1).momentum(0.9)); }

double rate(const Optimizer& o) { return o.param_groups()[0].options().get_lr(); }

template <class Make> void check(const std::vector<double>& expected, const Make& make) {
  SGD optimizer = sgd();
  const auto schedule = make(optimizer);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("epoch " << i);
    if (i) schedule->step();
    CHECK(std::abs(rate(optimizer) - expected[i]) <= 1e-14);
    CHECK(schedule->get_last_lr()[0] == rate(optimizer));
  }
  // A fresh pair goes on from a saved state in the middle.
  SGD again = sgd();
  const auto other = make(again);
  const auto half = make(again);
  for (size_t i = 0; i < 4; ++i) half->step();
  other->load_state_dict(half->state_dict());
  CHECK(other->last_epoch() == 4);
  CHECK(std::abs(rate(again) - expected[4]) <= 1e-14);
  other->step();
  CHECK(std::abs(rate(again) - expected[5]) <= 1e-14);
}

}  // namespace

TEST_CASE("schedules give PyTorch's learning rates") {
  check({0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125, 0.00625},
        [](Optimizer& o) { return std::make_shared<StepLR>(o, 3, 0.5); });
  check(
      {0.1, 0.1, 0.05, 0.05, 0.05, 0.0125, 0.0125, 0.0125, 0.0125, 0.0125, 0.0125, 0.0125, 0.0125},
      [](Optimizer& o) {
        return std::make_shared<MultiStepLR>(o, std::vector<int64_t>{2, 5, 5}, 0.5);
      });
  check({0.1, 0.09000000000000001, 0.08100000000000002, 0.07290000000000002, 0.06561000000000002,
         0.05904900000000002, 0.05314410000000002, 0.04782969000000002, 0.043046721000000024,
         0.03874204890000002, 0.03486784401000002, 0.03138105960900001, 0.028242953648100012},
        [](Optimizer& o) { return std::make_shared<ExponentialLR>(o, 0.9); });
  check({0.025, 0.043750000000000004, 0.06250000000000001, 0.08125000000000002, 0.10000000000000002,
         0.10000000000000002, 0.10000000000000002, 0.10000000000000002, 0.10000000000000002,
         0.10000000000000002, 0.10000000000000002, 0.10000000000000002, 0.10000000000000002},
        [](Optimizer& o) { return std::make_shared<LinearLR>(o, 0.25, 1.0, 4); });
  check({0.1, 0.09140576474687263, 0.06890576474687263, 0.04109423525312736, 0.018594235253127367,
         0.01, 0.018594235253127367, 0.04109423525312739, 0.06890576474687267, 0.09140576474687269,
         0.10000000000000006, 0.09140576474687272, 0.06890576474687268},
        [](Optimizer& o) { return std::make_shared<CosineAnnealingLR>(o, 5, 0.01); });
  check({0.1, 0.0775, 0.032500000000000015, 0.1, 0.09397114317029975, 0.0775, 0.05500000000000001,
         0.032500000000000015, 0.01602885682970026, 0.1, 0.09846666218300808, 0.09397114317029975,
         0.08681980515339464},
        [](Optimizer& o) { return std::make_shared<CosineAnnealingWarmRestarts>(o, 3, 2, 0.01); });
  check({0.1, 0.0775, 0.032500000000000015, 0.1, 0.0775, 0.032500000000000015, 0.1, 0.0775,
         0.032500000000000015, 0.1, 0.0775, 0.032500000000000015, 0.1},
        [](Optimizer& o) { return std::make_shared<CosineAnnealingWarmRestarts>(o, 3, 1, 0.01); });
  check({0.1, 0.05, 0.03333333333333333, 0.025, 0.020000000000000004, 0.016666666666666666,
         0.014285714285714285, 0.0125, 0.011111111111111112, 0.010000000000000002,
         0.009090909090909092, 0.008333333333333333, 0.007692307692307693},
        [](Optimizer& o) {
          return std::make_shared<LambdaLR>(
              o, [](int64_t e) { return 1.0 / static_cast<double>(1 + e); });
        });
  check({0.025, 0.043750000000000004, 0.06250000000000001, 0.08125000000000002, 0.1,
         0.09330127018922195, 0.07500000000000001, 0.05, 0.025000000000000012, 0.006698729810778065,
         0.0, 0.006698729810778065, 0.025},
        [](Optimizer& o) {
          std::vector<std::shared_ptr<LRScheduler>> parts{
              std::make_shared<LinearLR>(o, 0.25, 1.0, 4),
              std::make_shared<CosineAnnealingLR>(o, 6)};
          return std::make_shared<SequentialLR>(o, parts, std::vector<int64_t>{4});
        });
  check({0.040000000000000036, 0.3497896542195831, 0.8792851591221287, 0.9944154354509117,
         0.9330129698414117, 0.811745653949763, 0.6473789976951033, 0.46263710266697505,
         0.28306099820869923, 0.1334775301888306, 0.03456698742539522, 4e-06},
        [](Optimizer& o) { return std::make_shared<OneCycleLR>(o, 1.0, 12); });
  check({0.04, 0.4092307692307693, 0.7784615384615386, 0.8523076923076922, 0.48307692307692296,
         0.1138461538461536, 0.03448331034482758, 0.027587448275862066, 0.020691586206896546,
         0.01379572413793103, 0.0068998620689655135, 3.9999999999970615e-06},
        [](Optimizer& o) {
          return std::make_shared<OneCycleLR>(
              o, OneCycleLROptions(1).total_steps(12).three_phase(true).anneal_strategy("linear"));
        });
}

TEST_CASE("OneCycleLR moves the momentum against the learning rate") {
  const double expected[] = {0.95,
                             0.9177302443521267,
                             0.8625744625914449,
                             0.8505584586887436,
                             0.856698729810778,
                             0.8688255099070633,
                             0.8852622412794547,
                             0.9037365046793212,
                             0.9216941869558779,
                             0.9366525935914912,
                             0.9465436874322102,
                             0.95};
  SGD optimizer = sgd();
  OneCycleLR schedule(optimizer, 1.0, 12);
  for (size_t i = 0; i < 12; ++i) {
    if (i) schedule.step();
    const auto& o = static_cast<SGDOptions&>(optimizer.param_groups()[0].options());
    CHECK(std::abs(o.momentum() - expected[i]) <= 1e-14);
  }
  schedule.step();
  CHECK_THROWS_WITH_AS(schedule.step(), doctest::Contains("beyond the 12"), ValueError);
  Adagrad without({ones({1}).requires_grad_()});
  CHECK_THROWS_WITH_AS(OneCycleLR(without, 1.0, 5), doctest::Contains("cycle_momentum(false)"),
                       ValueError);
}

TEST_CASE("ReduceLROnPlateau gives PyTorch's learning rates and goes on from its state") {
  const double losses[] = {1.0, 0.9, 0.9, 0.9, 0.9, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85, 0.85};
  const double expected[] = {0.1,  0.1,  0.1,   0.1,   0.1,   0.05, 0.05,
                             0.05, 0.05, 0.025, 0.025, 0.025, 0.025};
  SGD optimizer = sgd();
  using P = ReduceLROnPlateau;
  P schedule(optimizer, P::min, 0.5, 2, 1e-4, P::rel, 1, {0.02});
  for (size_t i = 0; i < 12; ++i) {
    schedule.step(losses[i]);
    CHECK(rate(optimizer) == expected[i + 1]);
    P next(optimizer, P::min, 0.5, 2, 1e-4, P::rel, 1, {0.02});
    next.load_state_dict(schedule.state_dict());
    schedule.load_state_dict(next.state_dict());
  }
  for (int i = 0; i < 30; ++i) schedule.step(1);
  CHECK(rate(optimizer) == 0.02);
  CHECK_THROWS_AS(P(optimizer, P::min, 1.5), ValueError);
}

TEST_CASE("SWALR blends the rate that another schedule leaves, and goes on from its state") {
  SGD optimizer = sgd();
  const double start = rate(optimizer);
  ExponentialLR before(optimizer, 0.5);
  SWALR swa(optimizer, 0.3, 4, "linear");
  CHECK(rate(optimizer) == start);
  before.step();
  before.step();
  for (int step = 1; step <= 6; ++step) {
    swa.step();
    const double share = std::min(step / 4.0, 1.0);
    CHECK(rate(optimizer) == doctest::Approx(0.3 * share + start / 4 * (1 - share)));
    SGD other = sgd();
    SWALR next(other, 0.3, 4, "linear");
    next.load_state_dict(swa.state_dict());
    CHECK(rate(other) == rate(optimizer));
  }
  SGD at_once = sgd();
  const SWALR immediate(at_once, 0.3, 0);
  CHECK(rate(at_once) == 0.3);
}

TEST_CASE("AveragedModel averages parameters, and update_bn computes statistics over a loader") {
  nn::Linear model(2, 1);
  const AveragedModel mean(model), decaying(model, get_ema_avg_fn(0.75));
  AveragedModel means[] = {mean, decaying};
  for (const double value : {1.0, 2.0, 6.0}) {
    const NoGradGuard off;
    for (const Tensor& p : model->parameters()) p.fill_(value);
    for (AveragedModel& m : means) m.update_parameters(model);
  }
  const Tensor x = ones({1, 2});
  CHECK(means[0].n_averaged() == 3);
  CHECK(means[0].module<nn::LinearImpl>().forward(x).item<double>() == doctest::Approx(9));
  CHECK(means[1].module<nn::LinearImpl>().forward(x).item<double>() ==
        doctest::Approx(3 * (0.75 * 1.25 + 0.25 * 6)));
  CHECK(model->forward(x).item<double>() == 18);  // a copy is averaged

  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  net->eval();
  std::vector<Tensor> batches{randn({5, 2}), randn({5, 2}), randn({5, 2})};
  update_bn(batches, net);
  const auto& norm = dynamic_cast<nn::BatchNorm1dImpl&>(*net->ptr(1));
  const auto& linear = dynamic_cast<nn::LinearImpl&>(*net->ptr(0));
  Tensor expected = zeros({3});
  for (const Tensor& b : batches)
    expected = expected + nn::functional::linear(b, linear.weight, linear.bias).mean(0) / 3;
  CHECK((norm.running_mean - expected).abs().max().item<double>() < 1e-5);
  CHECK(norm.options.momentum() == 0.1);
  CHECK(!net->is_training());
}

TEST_CASE("schedules refuse what makes no sense") {
  SGD optimizer = sgd();
  CHECK_THROWS_AS(StepLR(optimizer, 0), ValueError);
  CHECK_THROWS_AS(CosineAnnealingLR(optimizer, 0), ValueError);
  CHECK_THROWS_AS(LinearLR(optimizer, 0, 1, 5), ValueError);
  CHECK_THROWS_AS(OneCycleLR(optimizer, 1.0, 0), ValueError);
  CHECK_THROWS_AS(ConstantLR(optimizer, 1.5), ValueError);
  CHECK_THROWS_AS(PolynomialLR(optimizer, 0), ValueError);
  CHECK_THROWS_AS(CyclicLR(optimizer, CyclicLROptions(0.1, 1).mode("square")), ValueError);
  CHECK_THROWS_AS(SWALR(optimizer, 0.1, -1), ValueError);
  CHECK_THROWS_AS(ChainedScheduler(optimizer, {}), ValueError);
  StepLR schedule(optimizer, 3);
  CHECK_THROWS_WITH_AS(schedule.load_state_dict({{"last_epoch", 3}}),
                       doctest::Contains("no entry 'base_lrs'"), ValueError);
}
