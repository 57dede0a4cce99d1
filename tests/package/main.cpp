// A program that sees only the installed package: it links, exceptions keep their type across the
// library's boundary, and (with pellucid/torch.h) a libtorch program gives the known values.
#include <cstdio>
#include <string>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"
#include "pellucid/error.h"
#if __has_include("pellucid/torch.h")
#include "pellucid/torch.h"
#endif

bool lines_are_of_the_program();                  // lines.cpp
bool lines_of_inlined_code_are_of_the_program();  // inlined_lines.cpp

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("package: wrong: %s\n", what);
  ++failures;
}

#if __has_include("pellucid/torch.h")
bool near(double a, double b) { return a - b < 5e-5 && b - a < 5e-5; }

void libtorch_program() {
  const torch::Tensor x = torch::tensor(2.0, torch::requires_grad());
  const torch::Tensor y = torch::exp(torch::sin(x.pow(2))) * x;
  y.backward();
  expect(near(y.item<double>(), 0.9383), "exp(sin(x**2))*x at 2 is 0.9383");
  expect(near(x.grad().item<double>(), -1.9842), "its derivative at 2 is -1.9842");
}
#else
void libtorch_program() {}
#endif

}  // namespace

int main() {
  expect(pellucid::promote_types(pellucid::kInt64, pellucid::kFloat32) == pellucid::kFloat32,
         "int64 and float32 promote to float32");
  expect(pellucid::to_string(pellucid::IntArrayRef({2, 3})) == "[2, 3]", "sizes print as [2, 3]");
  bool caught = false;
  try {
    pellucid::dtype_from_name("no such type");
  } catch (const pellucid::TypeError&) { caught = true; }
  expect(caught, "dtype_from_name throws TypeError");
  libtorch_program();
  expect(lines_are_of_the_program(), "every op of a profile has a line of the program");
  expect(lines_of_inlined_code_are_of_the_program(),
         "every op of a profile has a line of the program that is optimised");
  return failures == 0 ? 0 : 1;
}
