// Random programs: whatever they mean, the machine gives a value or a pellucid::Error, and can go
// on. PELLUCID_TEST_LONG makes the loop long.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cli/expr/compile.h"
#include "cli/machine/machine.h"
#include "cli/values.h"
#include "pellucid/creation.h"
#include "pellucid/memory.h"
#include "pellucid/op.h"
#include "tests/cli/dice.h"

using namespace pellucid;
using namespace pellucid::cli;

namespace {

int programs() { return std::getenv("PELLUCID_TEST_LONG") != nullptr ? 200'000 : 3'000; }

// Programs over small tensors, with every op by name and arguments that often fit.
class ProgramMaker {
 public:
  explicit ProgramMaker(Dice& dice) : dice_(dice) {
    for (const OpDef* op : all_ops()) ops_.push_back(op->info->name);
  }

  std::string program() {
    std::string out;
    for (int n = dice_.below(3); n > 0; --n) out += statement() + "; ";
    return out + expression(1 + dice_.below(3));
  }

 private:
  std::string statement() {
    switch (dice_.below(5)) {
      case 0:
        return variable() + " " + dice_.of({"+", "-", "*", "/", "//", "%", "**", "&"}) + "= " +
               expression(2);
      case 1:
        return variable() + "[" + index() + "] = " + expression(2);
      default:
        return variable() + " = " + expression(3);
    }
  }
  std::string variable() { return dice_.of({"x", "y", "i", "m", "n", "e"}); }

  std::string expression(int depth) {
    if (depth == 0)
      return dice_.below(3) == 0
                 ? dice_.of({"2", "-1", "0", "0.5", "True", "None", "'mean'", "[0, 1]", "float64",
                             "[[1.0], [2.0]]", "inf", "(1, 2)", "[]", "int32"})
                 : variable();
    switch (dice_.below(7)) {
      case 0:
      case 1:
        return "(" + expression(depth - 1) + " " +
               dice_.of({"+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>", "<",
                         "==", ">="}) +
               " " + expression(depth - 1) + ")";
      case 2:
        return "(" + dice_.of({"-", "~", "+"}) + expression(depth - 1) + ")";
      case 3:
        return "(" + expression(depth - 1) + ")[" + index() + "]";
      case 4:
        return "(" + expression(depth - 1) + ")." +
               dice_.of({"shape", "T", "mT", "dtype", "grad", "ndim"});
      case 5:
        return "(" + expression(depth - 1) + ")." + op() + "(" + arguments(depth) + ")";
      default:
        return op() + "(" + expression(depth - 1) + (dice_.below(2) == 0 ? ", " : "") +
               arguments(depth) + ")";
    }
  }
  // Half of the calls are of ops that take any tensor, or hardly a program would reach its end.
  std::string op() {
    static const std::vector<std::string> easy = {"sin", "exp",  "relu",  "abs",    "neg",
                                                  "sum", "mean", "clone", "square", "tanh"};
    return (dice_.below(2) == 0 ? dice_.of(easy) : dice_.of(ops_)) +
           (dice_.below(8) == 0 ? "_" : "");
  }

  std::string arguments(int depth) {
    std::string out;
    for (int n = dice_.below(3); n > 0; --n) out += expression(depth - 1) + ", ";
    if (dice_.below(3) == 0)
      out +=
          dice_.of({"dim=0", "dim=-1", "dim=[0, 1]", "keepdim=True", "dtype=float64", "alpha=2"});
    return out;
  }
  std::string index() {
    return dice_.of({"0", "-1", "1:", "::2", "None", "...", "i", "m", "[0, 1]", "0, 1", ":, 0",
                     "..., None", "5", "True", "'a'", "x"});
  }

  Dice& dice_;
  std::vector<std::string> ops_;
};

void bind_variables(Machine& m) {
  manual_seed(1);
  m.run(
      expr::compile("x = randn(2, 3); y = randn(3); y.requires_grad_(); i = tensor([1, 0]);"
                    "m = tensor([True, False]); n = 2; e = zeros(0, 3)"));
}

}  // namespace

TEST_CASE("machine fuzz: random programs give values or typed errors") {
  Dice dice(7);
  ProgramMaker maker(dice);
  const int count = programs();
  int values = 0;
  set_memory_limit(int64_t{2} << 30);  // a size gone wild is an error, not a swapping machine
  for (int k = 0; k < count; ++k) {
    const std::string source = maker.program();
    INFO(source);
    Machine m;
    bind_variables(m);
    try {
      const Object result = m.run(expr::compile(source));
      REQUIRE_FALSE(result.type_name().empty());
      REQUIRE_FALSE(brief(result).empty());
      ++values;
    } catch (const Error& e) { REQUIRE(std::string(e.what()).find('^') != std::string::npos); }
    REQUIRE(m.stack().empty());
    REQUIRE(m.run(expr::compile("n = 1 + 1")).repr() == "2");
  }
  set_memory_limit(0);
  CHECK(values > count / 50);
  CHECK(values < count);
  MESSAGE("random programs: " << count << ", of which " << values << " gave a value");
}
