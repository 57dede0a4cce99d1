// Values, gradients and a picture of a small graph: y = exp(sin(x^2)) * x at x = 2.
#include <pellucid/torch.h>

#include <cstdio>

int main(int argc, char** argv) {
  const torch::Tensor x = torch::tensor(2.0, torch::kFloat64).requires_grad_();
  const torch::Tensor a = x.pow(2), b = a.sin(), c = b.exp(), y = c * x;
  y.backward();
  std::printf("a = %.4f\nb = %.4f\nc = %.4f\ny = %.4f\ndy/dx = %.4f\n", a.item<double>(),
              b.item<double>(), c.item<double>(), y.item<double>(), x.grad().item<double>());
  if (argc > 1) torch::make_dot(y, {{"x", x}}).save(argv[1]);
}
