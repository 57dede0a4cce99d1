// Clipping a gradient: by its length, then by the size of each entry.
#include <pellucid/torch.h>

#include <iostream>

int main() {
  const torch::Tensor w = torch::tensor({3.0, 4.0}).requires_grad_();
  (w * w).sum().backward();
  const double before = torch::nn::utils::clip_grad_norm_(w, 1.0);
  std::cout << "norm before " << before << ", after " << w.grad().norm().item<double>() << '\n';
  torch::nn::utils::clip_grad_value_(w, 0.7);
  std::cout << "entries at most 0.7: " << w.grad() << '\n';
}
