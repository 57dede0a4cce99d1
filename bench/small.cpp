// What a call and a tape node cost: tensors of one element, so that nothing else is measured.
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

}  // namespace

void add_small_cases(Cases& cases) {
  cases.push_back({"add/one_element", [] { return add_one_element(false); }});
  cases.push_back({"add/one_element_grad", [] { return add_one_element(true); }});
  cases.push_back({"mul_chain/1000_and_backward", multiply_and_backward});
}

}  // namespace pellucid::bench
