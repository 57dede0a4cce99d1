// Other names of ops: one word in the schema gives functions, methods, forms in place and calls by
// name. And ops that a factory makes for gradients.
#include <doctest/doctest.h>

#include "pellucid/op.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

bool same(const Tensor& a, const Tensor& b) { return a.equal(b); }

TEST_CASE("another name of an op is a function, a method and a form in place") {
  const Tensor x = sample_uniform({5}, -0.9, 0.9);
  CHECK(same(arccos(x), acos(x)));
  CHECK(same(x.arctan(), x.atan()));
  CHECK(same(x.greater(0.1), x.gt(0.1)));
  CHECK(same(special_expit(x), sigmoid(x)));
  Tensor y = x.clone();
  y.negative_();
  CHECK(same(y, -x));
  CHECK(same(divide(x, 2, "floor"), div(x, 2, "floor")));
  CHECK(same(concat({x, x}), cat({x, x})));
}

TEST_CASE("another name of an op is found by name, with its overloads") {
  const Tensor x = sample_uniform({5}, -0.9, 0.9);
  const Value args[] = {Value(x)};
  CHECK(same(invoke("arccos", args)[0].tensor(), acos(x)));
  CHECK(find_ops("arccos") == find_ops("acos"));
  CHECK(find_ops("divide").size() == 2);
  CHECK(find_ops("true_divide").size() == 1);
  const NamedOps in_place = find_callable("clip_");
  CHECK(in_place.in_place);
  CHECK(in_place.ops == find_ops("clamp"));
  for (const OpDef* op : all_ops())
    for (const std::string& alias : op->info->aliases) {
      INFO(op->schema << " as " << alias);
      const std::vector<const OpDef*> found = find_ops(alias);
      CHECK(std::find(found.begin(), found.end(), op) != found.end());
    }
}

TEST_CASE("a name that is taken cannot be another name") {
  static constinit const OpDef op = {.schema = "alias_test|sigmoid(Tensor self) -> Tensor",
                                     .doc = "",
                                     .compose = [](const Call& c) -> Tensors { return {c.in(0)}; }};
  CHECK_THROWS_WITH_AS(register_op(op), doctest::Contains("'sigmoid' is defined already"),
                       ValueError);
  CHECK(find_ops("alias_test").empty());
}

TEST_CASE(
    "the op of a gradient that a factory makes has its own name and the arguments of the op") {
  const std::vector<const OpDef*> of_input = find_ops("sin_backward");
  REQUIRE(of_input.size() == 1);
  CHECK(of_input[0]->schema == "sin_backward(Tensor grad_output, Tensor self) -> Tensor");
  const std::vector<const OpDef*> of_result = find_ops("exp2_backward");
  REQUIRE(of_result.size() == 1);
  CHECK(of_result[0]->schema == "exp2_backward(Tensor grad_output, Tensor result) -> Tensor");
  CHECK(samples_of(*of_result[0]).valid.size() == samples_of(*find_ops("exp2")[0]).valid.size());
  const Tensor x = sample_uniform({5}, -0.9, 0.9);
  const Value args[] = {Value(ones_like(x)), Value(x)};
  CHECK(invoke("sin_backward", args)[0].tensor().allclose(x.cos()));
}

}  // namespace
}  // namespace pellucid
