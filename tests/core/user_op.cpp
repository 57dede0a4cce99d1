// A program's own op definition: it gets the dispatcher, autograd, cost, a picture and the derived
// tests.
#include <doctest/doctest.h>

#include "pellucid/graph.h"
#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

constinit const OpDef cube_op = {
    .schema = "user_cube(Tensor self, *, float scale=1) -> Tensor",
    .doc = "scale * x^3.",
    .kind = OpKind::Pointwise,
    .infer =
        [](Call& c) {
          PELLUCID_CHECK(c.in(0).dtype() == kFloat64, TypeError,
                         "user_cube: self must be float64, found {}.", c.in(0).dtype());
          c.make_output(c.in(0).sizes(), kFloat64);
        },
    .cost =
        [](const Call& c) {
          return Cost{3.0 * static_cast<double>(c.out().numel()),
                      16.0 * static_cast<double>(c.out().numel())};
        },
    .kernel =
        [](Call& c) {
          const Tensor x = c.in(0).contiguous();
          for (int64_t i = 0; i < x.numel(); ++i) {
            const double v = x.raw<double>()[i];
            c.out().raw<double>()[i] = c.number(0) * v * v * v;
          }
        },
    .saved = Saved::Inputs,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad * v.in(0) * v.in(0) * (3 * v.number(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({3})}, {{"scale", 2.0}});
          s.error({sample_randn({3}).to(kInt64)}, "must be float64");
        }};

}  // namespace

TEST_CASE("a program registers its own op") {
  register_op(cube_op);
  CHECK_NOTHROW(register_op(cube_op));  // once more changes nothing
  const Tensor x = full({2}, 2.0, kFloat64).requires_grad_();
  const Tensor y =
      invoke("user_cube", std::vector<Value>{x}, std::vector<NamedValue>{{"scale", 0.5}})[0]
          .tensor();
  CHECK(y[0].item<double>() == 4);
  y.sum().backward();
  CHECK(x.grad()[0].item<double>() == 6);
  CHECK(y.grad_fn()->name() == "UserCubeBackward0");
  CHECK(make_dot(y, {{"x", x}}).source().find("user_cube") != std::string::npos);
  CHECK(find_ops("user_cube").size() == 1);
}

TEST_CASE("an op definition that makes no sense is refused with its schema") {
  static constinit const OpDef no_kernel = {
      .schema = "user_nothing(Tensor self) -> Tensor", .doc = "", .infer = [](Call&) {}};
  CHECK_THROWS_WITH_AS(register_op(no_kernel), doctest::Contains("needs a kernel"), ValueError);
  static constinit const OpDef bad_schema = {.schema = "user_bad(Tensr self) -> Tensor",
                                             .doc = "",
                                             .infer = [](Call&) {},
                                             .kernel = [](Call&) {}};
  CHECK_THROWS_WITH_AS(register_op(bad_schema),
                       doctest::Contains("'Tensr' is not a type at column"), ValueError);
  static constinit const OpDef twice = {.schema = "add(Tensor self) -> Tensor",
                                        .doc = "",
                                        .infer = [](Call&) {},
                                        .kernel = [](Call&) {}};
  CHECK_THROWS_WITH_AS(register_op(twice), doctest::Contains("'add' is defined already"),
                       ValueError);
}
