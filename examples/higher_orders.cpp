// Derivatives of any order: x^3 at 2 has derivatives 12, 12 and 6.
#include <pellucid/torch.h>

#include <cstdio>

int main() {
  const torch::Tensor x = torch::tensor(2.0, torch::kFloat64).requires_grad_();
  torch::Tensor y = x.pow(3);
  std::printf("x^3 at 2 = %g\n", y.item<double>());
  for (int order = 1; order <= 3; ++order) {
    y = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    std::printf("derivative %d = %g\n", order, y.item<double>());
  }
}
