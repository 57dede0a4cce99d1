// The evaluator: what expressions mean, on numbers, lists and tensors, and how they fail.
#include "cli/machine/machine.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli/expr/compile.h"
#include "cli/values.h"
#include "pellucid/creation.h"

using namespace pellucid;
using namespace pellucid::cli;

namespace {

// The value as text: numbers and lists as Python prints them, tensors as nested lists.
std::string value_of(const std::string& source, Machine machine = {}) {
  const Object result = machine.run(expr::compile(source));
  return result.tensor() != nullptr ? brief(*result.tensor()) : result.repr();
}

template <class E> std::string failure_of(const std::string& source) {
  Machine machine;
  machine.set("x", tensor({1.0, 2.0, 3.0}));
  try {
    machine.run(expr::compile(source));
  } catch (const E& e) { return e.what(); }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("machine: numbers are Python's") {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"1 + 2", "3"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"7 // -2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7 / 2", "3.5"},
      {"6 / 3", "2.0"},
      {"2**10", "1024"},
      {"2**-1", "0.5"},
      {"-2**2", "-4"},
      {"2**3**2", "512"},
      {"(-2)**3", "-8"},
      {"0**0", "1"},
      {"1 << 5", "32"},
      {"-5 >> 1", "-3"},
      {"5 & 3", "1"},
      {"5 | 3", "7"},
      {"5 ^ 3", "6"},
      {"~5", "-6"},
      {"True + 1", "2"},
      {"True & False", "False"},
      {"1 < 2", "True"},
      {"1 == 1.0", "True"},
      {"2 != 2", "False"},
      {"7.5 // 2", "3.0"},
      {"-7.5 // 2", "-4.0"},
      {"-7.5 % 2", "0.5"},
      {"1e308 * 10", "inf"},
      {"0x10", "16"},
      {"9223372036854775807", "9223372036854775807"},
      {"float(3)", "3.0"},
      {"int(-2.7)", "-2"},
      {"bool(0)", "False"},
      {"len([1, 2])", "2"},
      {"'a' == 'a'", "True"},
      {"None == 0", "False"},
      {"float32 == float", "True"},
  };
  for (const auto& [source, expected] : cases) {
    INFO(source);
    CHECK(value_of(source) == expected);
  }
}

TEST_CASE("machine: lists, tuples, statements") {
  CHECK(value_of("[1, 2] + [3]") == "[1, 2, 3]");
  CHECK(value_of("[0] * 3") == "[0, 0, 0]");
  CHECK(value_of("[1, 2, 3][-1]") == "3");
  CHECK(value_of("[1, 2, 3, 4][1::2]") == "[2, 4]");
  CHECK(value_of("(1, 2)") == "(1, 2)");
  CHECK(value_of("a, b = 1, 2; b, a") == "(2, 1)");
  CHECK(value_of("a = 3; a += 4; a") == "7");
  CHECK(value_of("a = 3; a = a * a") == "9");
  CHECK(value_of("pass") == "None");
  CHECK(value_of("[1, 2] == [1, 2.0]") == "True");
}

TEST_CASE("machine: tensors go through the ops") {
  Machine m;
  m.set("x", tensor({1.0, 2.0, 3.0}));
  m.set("i", tensor({1, 2, 3}));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"x + 1", "[2.0000, 3.0000, 4.0000]"},
      {"1 - x", "[0.0000, -1.0000, -2.0000]"},
      {"2 ** x", "[2.0000, 4.0000, 8.0000]"},
      {"x ** 2", "[1.0000, 4.0000, 9.0000]"},
      {"6 // i", "[6, 3, 2]"},
      {"i // 2", "[0, 1, 1]"},
      {"i % 2", "[1, 0, 1]"},
      {"7 / i", "[7.0000, 3.5000, 2.3333]"},
      {"i << 1", "[2, 4, 6]"},
      {"x > 1.5", "[False, True, True]"},
      {"1.5 < x", "[False, True, True]"},
      {"~(x > 1.5)", "[True, False, False]"},
      {"-x", "[-1.0000, -2.0000, -3.0000]"},
      {"x @ x", "14.0000"},
      {"sum(x)", "6.0000"},
      {"x.sum()", "6.0000"},
      {"torch.sum(x)", "6.0000"},
      {"F.relu(-x)", "[0.0000, 0.0000, 0.0000]"},
      {"x.sum(dim=0, keepdim=True)", "[6.0000]"},
      {"sum([1, 2, 3])", "6"},
      {"sin(0)", "0.0000"},
      {"x[0]", "1.0000"},
      {"x[-1]", "3.0000"},
      {"x[1:]", "[2.0000, 3.0000]"},
      {"x[::2]", "[1.0000, 3.0000]"},
      {"x[None, 1:]", "[[2.0000, 3.0000]]"},
      {"x[..., 0]", "1.0000"},
      {"x[[2, 0]]", "[3.0000, 1.0000]"},
      {"x[x > 1]", "[2.0000, 3.0000]"},
      {"x.shape", "(3,)"},
      {"x.dtype", "float32"},
      {"x.ndim", "1"},
      {"x.requires_grad", "False"},
      {"x.is_leaf", "True"},
      {"x.grad", "None"},
      {"zeros(2, 1).T.shape", "(1, 2)"},
      {"x.size(0)", "3"},
      {"x.tolist()", "[1.0, 2.0, 3.0]"},
      {"x.to(int64)", "[1, 2, 3]"},
      {"x.double().dtype", "float64"},
      {"zeros(2, dtype=torch.int32).dtype", "int32"},
      {"tensor([[1, 2], [3, 4]]).sum()", "10"},
      {"tensor(2, dtype=float64).dtype", "float64"},
      {"tensor([True, False])", "[True, False]"},
      {"y = zeros(3); y[1] = 5; y", "[0.0000, 5.0000, 0.0000]"},
      {"y = zeros(3); y[1:] = x[:2]; y", "[0.0000, 1.0000, 2.0000]"},
      {"y = zeros(3); y[1] += 5; y", "[0.0000, 5.0000, 0.0000]"},
      {"y = zeros(2); z = y; y += 1; z", "[1.0000, 1.0000]"},
      {"y = zeros(2); y.add_(3); y", "[3.0000, 3.0000]"},
      {"v, k = max(x, dim=0); k", "2"},
      {"a, b = split(x[:2], 1); b", "[2.0000]"},
      {"pi", "3.141592653589793"},
      {"full([2], inf)", "[inf, inf]"},
  };
  for (const auto& [source, expected] : cases) {
    INFO(source);
    CHECK(value_of(source, m) == expected);
  }
}

TEST_CASE("machine: gradients, also of gradients") {
  CHECK(value_of("x = tensor(2.0, requires_grad=True); (x**3).backward(); x.grad") == "12.0000");
  CHECK(value_of("x = tensor(2.0, requires_grad=True); g = grad(x**3, x, create_graph=True);"
                 "h = grad(g, x, create_graph=True); grad(h, x)") == "6.0000");
  CHECK(value_of("x = rand(3, requires_grad=True); x.requires_grad") == "True");
}

TEST_CASE("machine: the same seed gives the same numbers") {
  CHECK(value_of("manual_seed(3); a = rand(4); manual_seed(3); b = rand(4); (a == b).all()") ==
        "True");
}

TEST_CASE("machine: errors keep their type and point at what failed") {
  const std::string shape = failure_of<ShapeError>("x + (x @ zeros(4))");
  CHECK(has(shape, "\n    x + (x @ zeros(4))\n         ^~~~~~~~~~~~"));
  CHECK(has(failure_of<TypeError>("x + 'a'"), "operator + is not defined between Tensor and str"));
  CHECK(has(failure_of<IndexError>("1 + x[3]"), "\n        ^~~~"));
  CHECK(has(failure_of<ValueError>("1 // 0"), "division by zero"));
  CHECK(has(failure_of<ValueError>("10**100"), "does not fit into 64 bits"));
  CHECK(has(failure_of<ValueError>("9223372036854775807 + 1"), "does not fit into 64 bits"));
  CHECK(has(failure_of<ValueError>("1 << 70"), "does not fit into 64 bits"));
  CHECK(has(failure_of<ValueError>("(-8)**0.5"), "complex"));
  CHECK(has(failure_of<ValueError>("[0] * 10**12"), "too long"));
  CHECK(has(failure_of<TypeError>("x @ 2"), "both sides of @ must be tensors"));
  CHECK(has(failure_of<TypeError>("x.sinn()"), "'sin'"));
  CHECK(has(failure_of<TypeError>("x.shap"), "did you mean 'shape'"));
  CHECK(has(failure_of<TypeError>("x.sum"), "call it: .sum()"));
  CHECK(has(failure_of<ShapeError>("tensor([[1, 2], [3]])"), "lists of 2 and of 1 elements"));
  CHECK(has(failure_of<TypeError>("x['a']"), "between brackets"));
  CHECK(has(failure_of<TypeError>("a = [1]; a[0] = 2"), "only the elements of a tensor"));
  CHECK(has(failure_of<ValueError>("a, b = x"), "too many values for 2 names"));
  CHECK(has(failure_of<TypeError>("tensor(1, 2)"), "takes 1 positional argument but 2 were given"));
  CHECK(has(failure_of<TypeError>("manual_seed(n=3)"), "unexpected keyword argument 'n'"));
}

TEST_CASE("machine: unknown names are told with what was probably meant") {
  CHECK(has(failure_of<expr::ExprError>("xx + 1"), "name 'xx' is not defined; did you mean 'x'?"));
  CHECK(has(failure_of<expr::ExprError>("sni(x)"),
            "function 'sni' is not defined; did you mean 'sin'"));
  CHECK(has(failure_of<expr::ExprError>("x(1)"), "'x' is a variable (Tensor), not a function"));
  CHECK(has(failure_of<expr::ExprError>("sin + 1"), "'sin' is a function; call it"));
  CHECK(has(failure_of<expr::ExprError>("weights"), "give it a value, as in weights=2"));
}

TEST_CASE("machine: hooks see each instruction and the stack, and an error leaves it usable") {
  Machine m;
  std::vector<size_t> before, depths;
  m.before = [&](size_t i) { before.push_back(i); };
  m.after = [&](size_t) { depths.push_back(m.stack().size()); };
  m.run(expr::compile("a = 1 + 2*3"));
  CHECK(before == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(depths == std::vector<size_t>{1, 2, 3, 2, 1, 0, 1, 0});
  CHECK_THROWS_AS(m.run(expr::compile("1 + (2 // 0)")), ValueError);
  CHECK(m.stack().empty());
  CHECK(m.run(expr::compile("a")).repr() == "7");
}
