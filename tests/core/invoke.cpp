// Calls by name: binding as Python binds, overloads, defaults, messages.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
Tensor call_one(std::string_view name, std::vector<Value> args,
                std::vector<NamedValue> kwargs = {}) {
  return invoke(name, args, kwargs)[0].tensor();
}
}  // namespace

TEST_CASE("positional, keyword and default arguments") {
  const Tensor x = ones({2, 3});
  CHECK(call_one("sum", {x}).item<double>() == 6);
  CHECK(call_one("sum", {x, 1}).sizes() == IntArrayRef{2});
  CHECK(call_one("sum", {x}, {{"dim", 0}, {"keepdim", true}}).sizes() == IntArrayRef{1, 3});
  CHECK(call_one("add", {x, 2}, {{"alpha", 3}})[0][0].item<double>() == 7);
  CHECK(call_one("view", {x, 3, 2}).sizes() == IntArrayRef{3, 2});
  CHECK(call_one("ones", {2, 2}).sizes() == IntArrayRef{2, 2});
  CHECK(call_one("ones", {Value::ints({2, 2})}, {{"dtype", kInt32}}).dtype() == kInt32);
  CHECK(invoke("max", std::vector<Value>{x, 1}).size() == 2);
  CHECK(invoke("max", std::vector<Value>{x}).size() == 1);
  const Tensor y = ones({2});
  CHECK(call_one("mul_", {y, 5}).is_same(y));
  CHECK(y[0].item<double>() == 5);
}

TEST_CASE("calls that do not fit say what does not") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH_AS(call_one("no_such_op", {x}), doctest::Contains("no op named 'no_such_op'"),
                       ValueError);
  CHECK_THROWS_WITH_AS(call_one("sin", {}), doctest::Contains("missing required argument: 'self'"),
                       TypeError);
  CHECK_THROWS_WITH_AS(call_one("sin", {x, x}),
                       doctest::Contains("takes 1 positional arguments but 2 were given"),
                       TypeError);
  CHECK_THROWS_WITH_AS(call_one("sin", {x}, {{"dim", 1}}),
                       doctest::Contains("unexpected keyword argument 'dim'"), TypeError);
  CHECK_THROWS_WITH_AS(call_one("sin", {x}, {{"self", x}}),
                       doctest::Contains("multiple values for argument 'self'"), TypeError);
  CHECK_THROWS_WITH_AS(call_one("sin", {"text"}),
                       doctest::Contains("argument 'self' must be a Tensor, found str"), TypeError);
  CHECK_THROWS_WITH_AS(call_one("matmul_", {x, x}), doctest::Contains("no in-place form"),
                       TypeError);
}

TEST_CASE("schemas are read, and mistakes are pointed at") {
  const OpInfo info = parse_schema(
      "f[_].dim(Tensor(a) self, Tensor|Scalar? other=None, *, int[2] k=1, str mode='mean') -> "
      "(Tensor(a) values, Tensor _hidden)");
  CHECK(info.name == "f");
  CHECK(info.overload == "dim");
  CHECK(info.has_in_place);
  CHECK(info.is_view);
  CHECK(info.visible_outputs == 1);
  CHECK(info.args.size() == 4);
  CHECK(info.args[1].scalar_too);
  CHECK(info.args[1].optional);
  CHECK(info.args[2].keyword_only);
  CHECK(info.args[2].fixed_length == 2);
  CHECK(info.node_name == "FBackward0");
  CHECK_THROWS_WITH_AS(parse_schema("f(Tensor) -> Tensor"),
                       doctest::Contains("argument's name was expected at column 9"), ValueError);
  CHECK_THROWS_WITH_AS(parse_schema("f(Tensor x)"), doctest::Contains("'->' was expected"),
                       ValueError);
}
