// A function with a gradient of its own: ReLU written by hand, checked against differences.
#include <pellucid/torch.h>

#include <iostream>

struct MyReLU : torch::autograd::Function<MyReLU> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, torch::Tensor x) {
    ctx->save_for_backward({x});
    return x.clamp_min(0);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const torch::Tensor x = ctx->get_saved_variables()[0];
    return {torch::where(x > 0, grads[0], 0.0)};
  }
};

int main() {
  const torch::Tensor x = torch::tensor({-2.0, -0.5, 0.5, 3.0}, torch::kFloat64).requires_grad_();
  const torch::Tensor y = MyReLU::apply(x);
  (y * torch::tensor({1.0, 2.0, 3.0, 4.0}, torch::kFloat64)).sum().backward();
  std::cout << "y = " << y.detach() << "\ngradient = " << x.grad() << '\n';
  const bool right = torch::autograd::gradcheck(
      [](const torch::autograd::variable_list& in) {
        return torch::autograd::variable_list{MyReLU::apply(in[0])};
      },
      {x});
  std::cout << "gradcheck: " << (right ? "passed" : "failed") << '\n';
}
