// A function of two variables, its gradients, and a walk over the graph that computed it.
#include <pellucid/torch.h>

#include <cstdio>
#include <iostream>
#include <string>

void walk(const torch::autograd::Node* node, int depth) {
  std::cout << std::string(static_cast<size_t>(2 * depth), ' ') << node->name() << '\n';
  for (const torch::autograd::Edge& next : node->next_edges())
    if (next.function) walk(next.function.get(), depth + 1);
}

int main() {
  const torch::Tensor x = torch::tensor(2.0, torch::kFloat64).requires_grad_();
  const torch::Tensor y = torch::tensor(3.0, torch::kFloat64).requires_grad_();
  const torch::Tensor z = x * y, w = z.sin(), v = w.exp(), f = v * x;
  f.backward();
  std::printf("z = %.4f\nw = %.4f\nv = %.4f\nf = %.4f\ndf/dx = %.4f\ndf/dy = %.4f\n",
              z.item<double>(), w.item<double>(), v.item<double>(), f.item<double>(),
              x.grad().item<double>(), y.grad().item<double>());
  std::fflush(stdout);
  walk((x * y).sin().grad_fn().get(), 0);
}
