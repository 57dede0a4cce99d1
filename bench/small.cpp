// What a call, a tape node and a captured call cost: tensors of one element, so that nothing else
// is measured.
#include "cases.h"

namespace pellucid::bench {
namespace {

constexpr int64_t kSteps = 1000;

Work add_one_element(bool gradients) {
  const Tensor a = full({1}, 2.0).requires_grad_(gradients),
               b = full({1}, 3.0).requires_grad_(gradients);
  auto kept = std::make_shared<Tensor>();
  return {.once =
              [=] {
                for (int64_t i = 0; i < kSteps; ++i) *kept = add(a, b);
              },
          .inputs = {a, b},
          .results = [kept] { return std::vector<Tensor>{kept->detach()}; },
          .steps = kSteps};
}

Work multiply_and_backward() {
  const Tensor x = full({1}, 1.0).requires_grad_(), w = full({1}, 1.0001).requires_grad_();
  return {.once =
              [=] {
                x.zero_grad();
                w.zero_grad();
                Tensor y = x;
                for (int64_t i = 0; i < kSteps; ++i) y = mul(y, w);
                y.backward();
              },
          .inputs = {x, w},
          .results =
              [=] {
                return std::vector<Tensor>{x.grad(), w.grad()};
              },
          .steps = kSteps};
}

// The same products eagerly, captured and replayed, and replayed alone.
Work multiply(Way way) {
  const Tensor x = full({1}, 1.0), w = full({1}, 1.0001);
  auto f = compile(
      [w](const Tensor& first) {
        Tensor y = first;
        for (int64_t i = 0; i < kSteps; ++i) y = mul(y, w);
        return y;
      },
      CompileMode::Always);
  if (way == Way::Sealed) f.seal();
  auto kept = std::make_shared<Tensor>();
  return {.once =
              [=]() mutable {
                if (way == Way::Eager) {
                  *kept = x;
                  for (int64_t i = 0; i < kSteps; ++i) *kept = mul(*kept, w);
                } else {
                  *kept = f(x);
                }
              },
          .inputs = {x, w},
          .results = [kept] { return std::vector<Tensor>{*kept}; },
          .steps = kSteps};
}

}  // namespace

void add_small_cases(Cases& cases) {
  cases.push_back({"add/one_element", [] { return add_one_element(false); }});
  cases.push_back({"add/one_element_grad", [] { return add_one_element(true); }});
  cases.push_back({"mul_chain/1000_and_backward", multiply_and_backward});
  cases.push_back({"product/eager", [] { return multiply(Way::Eager); }});
  cases.push_back({"product/captured", [] { return multiply(Way::Compiled); }});
  cases.push_back({"product/sealed", [] { return multiply(Way::Sealed); }});
}

}  // namespace pellucid::bench
