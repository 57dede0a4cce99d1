// Optimisers against numbers computed with PyTorch 2.13 in float64, and what surrounds the step:
// groups, options, state dicts, bad options. The gradient of element i in step s is
// sin(0.7 i + 0.3 s) (1 + 0.1 i).
#include <doctest/doctest.h>

#include <cmath>

#include "base/cpu.h"
#include "pellucid/memory.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"

using namespace pellucid;
using namespace pellucid::optim;

namespace {

Tensor gradient(int step, int64_t n, DType type) {
  const Tensor g = empty({n}, kFloat64);
  for (int64_t i = 0; i < n; ++i)
    g.data_ptr<double>()[i] =
        std::sin(0.7 * static_cast<double>(i) + 0.3 * step) * (1 + 0.1 * static_cast<double>(i));
  return g.to(type);
}

Tensor start(int64_t n, DType type) {
  return arange(n, kFloat64).mul(0.5).sub(1).to(type).requires_grad_();
}

template <class O, class Options>
Tensor after_steps(const Options& options, int64_t n, DType type) {
  const Tensor p = start(n, type);
  O optimizer({p}, options);
  for (int step = 0; step < 20; ++step) {
    p.mutable_grad() = gradient(step, n, type);
    optimizer.step();
  }
  return p.detach();
}

template <class O, class Options>
void check(const Options& options, const std::vector<double>& expected) {
  const Tensor wide = after_steps<O>(options, 5, kFloat64);
  const Tensor narrow = after_steps<O>(options, 5, kFloat32);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(wide.data_ptr<double>()[i] == doctest::Approx(expected[i]).epsilon(1e-11));
    CHECK(narrow.data_ptr<float>()[i] == doctest::Approx(expected[i]).epsilon(2e-5));
  }
  // The same five again and again, beyond one vector and across threads, at every level.
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    const Tensor p = start(5, kFloat64).detach().repeat({8'001}).requires_grad_();
    O optimizer({p}, options);
    for (int step = 0; step < 20; ++step) {
      p.mutable_grad() = gradient(step, 5, kFloat64).repeat({8'001});
      optimizer.step();
    }
    const Tensor rows = p.detach().view({-1, 5});
    CHECK(rows.allclose(rows[0].expand({8'001, 5}), 1e-13));
    for (size_t i = 0; i < 5; ++i)
      CHECK(rows.data_ptr<double>()[i] == doctest::Approx(expected[i]).epsilon(1e-11));
  }
}

}  // namespace

TEST_CASE("optimisers: 20 steps give PyTorch's numbers") {
  check<SGD>(SGDOptions(0.1), {-1.02714762206091, -0.45874539730608405, 0.10142062405847571,
                               0.6193145663240358, 1.0782290761908242});
  check<SGD>(SGDOptions(0.1).momentum(0.9),
             {-3.892823597666161, -2.548046114026989, 0.05371834735525284, 3.0094379277175816,
              5.071257196115648});
  check<SGD>(SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.05),
             {-2.2027021017275143, -1.3442298705708235, 0.17701776345078893, 1.826523826254024,
              2.9099716968470304});
  check<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.05),
             {-2.053154744075575, -0.8023418775050335, 0.954509788857069, 2.4876350220226016,
              3.066578164756084});
  check<SGD>(SGDOptions(0.1).weight_decay(0.05),
             {-0.8986080927786342, -0.3796822472642, 0.11398650674928784, 0.5553717265517437,
              0.9414130465034035});
  check<Adam>(AdamOptions(0.1), {-1.9441829344597885, -1.2703946809389515, -0.37584191794000993,
                                 0.577420645115073, 1.6181210308908172});
  check<Adam>(AdamOptions(0.1).betas({0.8, 0.95}).eps(1e-3).weight_decay(0.05),
              {-1.461249849250739, -0.8638087477937572, -0.08105143163131219, 0.630901774681641,
               1.3633021285222084});
  check<Adam>(AdamOptions(0.1).amsgrad(true).weight_decay(0.05),
              {-1.7193356945200664, -1.193635077506715, -0.34049261049387786, 0.5559317331108466,
               1.524074371488234});
  check<AdamW>(AdamWOptions(0.1), {-1.9112316577490913, -1.2466399170563003, -0.36588910559741045,
                                   0.571394992589892, 1.592418987552265});
  check<AdamW>(AdamWOptions(0.1).amsgrad(true).weight_decay(0.3),
               {-1.1570769334772781, -0.7032493924337271, -0.1399030919763935, 0.4292431513924204,
                1.0014453309657678});
  check<AdamW>(AdamWOptions(0.1).weight_decay(0),
               {-1.9441829344597885, -1.2703946809389515, -0.37584191794000993, 0.577420645115073,
                1.6181210308908172});
  check<RMSprop>(RMSpropOptions(0.1), {-4.037867040810958, -2.4068383193323193, -0.8197187328870855,
                                       0.5790669172909029, 2.6644126974359024});
  check<RMSprop>(RMSpropOptions(0.1).centered(true).alpha(0.9),
                 {-2.1232296148729786, -1.1521798710686848, -0.2314604835983302, 0.5665051519942068,
                  1.6284677702438572});
  check<RMSprop>(
      RMSpropOptions(0.1).centered(true).alpha(0.9).momentum(0.5).weight_decay(0.05).eps(1e-4),
      {-2.0201597545973606, -1.2474894189503425, -0.0489924942268671, 0.8068631728513964,
       1.9601178050074959});
  check<RMSprop>(RMSpropOptions(0.1).momentum(0.5),
                 {-7.541603296707552, -4.4114388147368775, -1.3168411750994424, 1.2666064435236821,
                  4.913018521754116});
  check<Adagrad>(AdagradOptions(0.1), {-1.309352738282861, -0.696783941102044, -0.08613144872394789,
                                       0.5074555562975377, 1.1702866944174226});
  check<Adagrad>(
      AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.05).initial_accumulator_value(0.2).eps(1e-4),
      {-1.2090858259911055, -0.7198432331903394, -0.1427323726878088, 0.4509864346098863,
       1.1202236650442892});
}

TEST_CASE("optimisers: threads and layout do not change the bits") {
  const int before = get_num_threads();
  const auto run = [](int threads) {
    set_num_threads(threads);
    return after_steps<AdamW>(AdamWOptions(0.1), 100'003, kFloat32);
  };
  const Tensor one = run(1);
  CHECK(one.equal(run(2)));
  CHECK(one.equal(run(4)));
  set_num_threads(before);
  // A parameter and a gradient with gaps.
  const Tensor wide = zeros({2, 10}, kFloat64), gapped = wide.slice(1, 0, std::nullopt, 2);
  gapped.copy_(start(10, kFloat64).detach().view({2, 5}));
  gapped.requires_grad_();
  SGD optimizer({gapped}, SGDOptions(0.1).momentum(0.9));
  const Tensor plain = start(10, kFloat64);
  SGD reference({plain}, SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 3; ++step) {
    plain.mutable_grad() = gradient(step, 10, kFloat64);
    gapped.mutable_grad() = plain.grad().view({5, 2}).t().contiguous().t().reshape({2, 5});
    optimizer.step();
    reference.step();
  }
  CHECK(gapped.detach().contiguous().view({10}).allclose(plain.detach(), 1e-14));
}

TEST_CASE("optimisers: 16-bit parameters move") {
  const Tensor p = ones({4}, kBFloat16).requires_grad_();
  Adam optimizer({p}, AdamOptions(0.5));
  p.mutable_grad() = ones({4}, kBFloat16);
  optimizer.step();
  CHECK(p.detach().to(kFloat32)[0].item<float>() == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("optimisers: the closure's loss is returned, parameters without gradient stay") {
  const Tensor x = full({2}, 3.0).requires_grad_(), unused = ones({2}).requires_grad_();
  SGD optimizer({x, unused}, SGDOptions(0.1));
  const NoGradGuard off;  // the closure records all the same
  const Tensor loss = optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor l = x.square().sum();
    l.backward();
    return l;
  });
  CHECK(loss.item<double>() == 18);
  CHECK(x[0].item<double>() == doctest::Approx(2.4));
  CHECK(unused[0].item<double>() == 1);
  CHECK(optimizer.size() == 2);
  optimizer.zero_grad(false);
  CHECK(x.grad()[0].item<double>() == 0);
  optimizer.zero_grad();
  CHECK(!x.grad().defined());
}

TEST_CASE("optimisers: groups inherit what they leave open, and lr is written where it is read") {
  const Tensor a = ones({1}).requires_grad_(), b = ones({1}).requires_grad_();
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b},
                      std::make_unique<SGDOptions>(SGDOptions().weight_decay(0.5)));
  SGD optimizer(groups, SGDOptions(0.25).momentum(0));
  auto& second = static_cast<SGDOptions&>(optimizer.param_groups()[1].options());
  CHECK(second.lr() == 0.25);
  CHECK(second.weight_decay() == 0.5);
  CHECK(static_cast<SGDOptions&>(optimizer.defaults()).weight_decay() == 0);
  a.mutable_grad() = ones({1});
  b.mutable_grad() = ones({1});
  optimizer.step();
  CHECK(a.item<double>() == 0.75);
  CHECK(b.item<double>() == 0.625);
  second.lr() = 1;
  CHECK(second.lr_tensor().item<double>() == 1);
  CHECK(second.get_lr() == 1);
  CHECK(optimizer.param_groups()[0].options().get_lr() == 0.25);
  const SGDOptions copy = second;
  second.lr(2);
  CHECK(copy.lr() == 1);  // a copy has a tensor of its own
  CHECK(!(copy == second));
  CHECK_THROWS_WITH_AS(optimizer.add_param_group(OptimizerParamGroup({a})),
                       doctest::Contains("is in a group already"), ValueError);
  CHECK_THROWS_WITH_AS(optimizer.add_param_group(OptimizerParamGroup({a.mul(2)})),
                       doctest::Contains("give the leaf"), ValueError);
  optimizer.add_param_group(OptimizerParamGroup({ones({1}).requires_grad_()}));
  CHECK(optimizer.param_groups().size() == 3);
  const Tensor c = ones({1}).requires_grad_();
  optimizer.add_parameters({c});
  CHECK(optimizer.size() == 4);
  CHECK_THROWS_WITH_AS(optimizer.add_parameters({c}), doctest::Contains("is in a group already"),
                       ValueError);
  CHECK_THROWS_AS(optimizer.add_parameters({Tensor()}), ValueError);
}

TEST_CASE("optimisers: a loaded state goes on bit for bit") {
  const auto run = [](bool reload) {
    const Tensor p = start(7, kFloat32);
    auto optimizer = std::make_unique<Adam>(std::vector{p}, AdamOptions(0.1).amsgrad(true));
    for (int step = 0; step < 10; ++step) {
      if (reload && step == 5) {
        const NamedValues saved = optimizer->state_dict();
        optimizer = std::make_unique<Adam>(std::vector{p}, AdamOptions(0.7));
        optimizer->load_state_dict(saved);
      }
      p.mutable_grad() = gradient(step, 7, kFloat32);
      optimizer->step();
    }
    CHECK(static_cast<AdamParamState&>(*optimizer->state().begin()->second).step() == 10);
    return p.detach();
  };
  CHECK(run(false).equal(run(true)));
}

TEST_CASE_TEMPLATE("optimisers: a loaded state of the rarer ones goes on bit for bit", O, Adadelta,
                   Adamax, NAdam, RAdam, ASGD, Rprop) {
  const auto run = [](bool reload, DType type) {
    const Tensor p = start(7, type);
    auto optimizer = std::make_unique<O>(std::vector{p});
    for (int step = 0; step < 10; ++step) {
      if (reload && step == 5) {
        const NamedValues saved = optimizer->state_dict();
        CHECK(integer_of(saved, "state.0.step", "test") == 5);
        optimizer = std::make_unique<O>(std::vector{p});
        optimizer->param_groups()[0].options().set_lr(0.7);
        optimizer->load_state_dict(saved);
      }
      p.mutable_grad() = gradient(step, 7, type);
      optimizer->step();
    }
    CHECK(!p.detach().equal(start(7, type).detach()));
    return p.detach();
  };
  CHECK(run(false, kFloat32).equal(run(true, kFloat32)));
  CHECK(run(false, kBFloat16).equal(run(true, kBFloat16)));
}

TEST_CASE("optimisers: a state that does not fit is refused and changes nothing") {
  const Tensor p = start(3, kFloat32), q = start(4, kFloat32);
  Adam first({p}, AdamOptions(0.1));
  p.mutable_grad() = gradient(0, 3, kFloat32);
  first.step();
  const NamedValues saved = first.state_dict();
  CHECK(find_value(saved, "state.0.exp_avg"));
  CHECK(integer_of(saved, "state.0.step", "test") == 1);
  Adam other({q}, AdamOptions(0.5));
  CHECK_THROWS_WITH_AS(other.load_state_dict(saved),
                       doctest::Contains("is float32[3] but the parameter is float32[4]"),
                       ShapeError);
  CHECK(other.param_groups()[0].options().get_lr() == 0.5);
  Adam two({q, start(2, kFloat32)}, AdamOptions(0.5));
  CHECK_THROWS_WITH_AS(two.load_state_dict(saved), doctest::Contains("has 2 parameters but"),
                       ValueError);
  SGD sgd({p}, SGDOptions(0.5));
  CHECK_THROWS_AS(sgd.load_state_dict(saved), Error);
  CHECK_THROWS_WITH_AS(other.load_state_dict({}), doctest::Contains("no entry 'params'"),
                       ValueError);
}

TEST_CASE("optimisers: options out of range are refused") {
  const std::vector<Tensor> p{ones({1}).requires_grad_()};
  CHECK_THROWS_WITH_AS(SGD(p, SGDOptions(-0.1)), doctest::Contains("SGD: lr must be at least 0"),
                       ValueError);
  CHECK_THROWS_AS(SGD(p, SGDOptions(NAN)), ValueError);
  CHECK_THROWS_WITH_AS(SGD(p, SGDOptions(0.1).nesterov(true)),
                       doctest::Contains("needs a momentum"), ValueError);
  CHECK_THROWS_WITH_AS(Adam(p, AdamOptions(0.1).betas({0.9, 1.0})), doctest::Contains("beta2"),
                       ValueError);
  CHECK_THROWS_WITH_AS(AdamW(p, AdamWOptions(0.1).eps(-1)), doctest::Contains("AdamW: eps"),
                       ValueError);
  CHECK_THROWS_AS(RMSprop(p, RMSpropOptions(0.1).momentum(-1)), ValueError);
  CHECK_THROWS_AS(Adagrad(p, AdagradOptions(0.1).lr_decay(-1)), ValueError);
  CHECK_THROWS_AS(Adadelta(p, AdadeltaOptions(1.0).rho(1.1)), ValueError);
  Adadelta(p, AdadeltaOptions(1.0).rho(1.0));
  CHECK_THROWS_AS(Adamax(p, AdamaxOptions(0.1).betas({1.0, 0.9})), ValueError);
  CHECK_THROWS_AS(NAdam(p, NAdamOptions(0.1).momentum_decay(-1)), ValueError);
  CHECK_THROWS_AS(RAdam(p, RAdamOptions(0.1).weight_decay(-1)), ValueError);
  CHECK_THROWS_AS(ASGD(p, ASGDOptions(0.1).weight_decay(-1)), ValueError);
  CHECK_THROWS_WITH_AS(Rprop(p, RpropOptions(0.1).etas({1.5, 1.2})), doctest::Contains("etas"),
                       ValueError);
}

TEST_CASE("optimisers: a step is a change that backward sees, and frees nothing it must not") {
  const Tensor w = ones({2}).requires_grad_();
  SGD optimizer({w}, SGDOptions(0.1).momentum(0.9));
  const Tensor y = w.mul(w).sum();
  w.mutable_grad() = ones({2});
  const uint32_t before = w._version();
  optimizer.step();
  CHECK(w._version() > before);
  CHECK_THROWS_AS(y.backward(), AutogradError);  // w was saved and has changed
  CHECK(w.is_leaf());
  CHECK(w.requires_grad());
  CHECK(memory_stats().by_category[static_cast<size_t>(MemoryCategory::Optimizer)] > 0);
}
