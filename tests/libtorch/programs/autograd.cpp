// What autograd does in libtorch: backward with and without a vector, requires_grad, a gradient of
// a gradient, and functions with a backward of their own.
#include <iostream>
#include <sstream>

#include "../libtorch.h"
#include "programs.h"

namespace programs::autograd_program {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

int64_t wrong = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "autograd: " << what << " is wrong\n";
  ++wrong;
}
bool same(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::allclose(a, b, /*rtol=*/1e-5, /*atol=*/1e-6);
}

void basic_operations() {
  auto x = torch::ones({2, 2}, torch::requires_grad());
  auto y = x + 2;
  expect(y.grad_fn()->name().rfind("AddBackward", 0) == 0, "the name of an addition");
  auto z = y * y * 3;
  auto out = z.mean();
  expect(z.grad_fn()->name().rfind("MulBackward", 0) == 0, "the name of a product");
  expect(out.grad_fn()->name() == "MeanBackward0", "the name of a mean");
  out.backward();
  expect(same(x.grad(), torch::full({2, 2}, 4.5)), "the gradient of the mean");

  auto a = torch::randn({2, 2});
  a = ((a * 3) / (a - 1));
  expect(!a.requires_grad(), "requires_grad of plain tensors");
  a.requires_grad_(true);
  auto b = (a * a).sum();
  expect(b.requires_grad() && b.grad_fn() != nullptr, "the history of a sum");

  // A product of a vector with the Jacobian.
  x = torch::randn(3, torch::requires_grad());
  y = x * 2;
  double factor = 2;
  while (y.norm().item<double>() < 1000) {
    y = y * 2;
    factor *= 2;
  }
  const auto v = torch::tensor({0.1, 1.0, 0.0001}, torch::kFloat);
  y.backward(v);
  expect(same(x.grad(), v * factor), "a vector times the Jacobian");

  {
    torch::NoGradGuard no_grad;
    expect(!x.pow(2).requires_grad(), "requires_grad under NoGradGuard");
  }
  expect(x.pow(2).requires_grad(), "requires_grad after NoGradGuard");
  y = x.detach();
  expect(!y.requires_grad(), "requires_grad of a detached tensor");
  expect(x.eq(y).all().item<bool>(), "the values of a detached tensor");
  std::ostringstream printed;
  printed << x << std::endl << x.grad() << std::endl;
  expect(printed.str().size() > 20, "what a tensor prints");
}

void higher_order_gradients() {
  auto model = torch::nn::Linear(4, 3);
  auto input = torch::randn({3, 4}).requires_grad_(true);
  auto output = model(input);
  auto target = torch::randn({3, 3});
  auto loss = torch::nn::MSELoss()(output, target);

  auto grad_output = torch::ones_like(output);
  auto gradient = torch::autograd::grad({output}, {input}, /*grad_outputs=*/{grad_output},
                                        /*retain_graph=*/c10::nullopt, /*create_graph=*/true)[0];
  auto gradient_penalty = torch::pow((gradient.norm(2, /*dim=*/1) - 1), 2).mean();
  auto combined_loss = loss + gradient_penalty;
  combined_loss.backward();
  expect(input.grad().defined(), "the gradient of the combined loss");

  // d/dw of (|sum of rows of w| - 1)^2 by hand, beside the loss's own part.
  torch::Tensor w = model->weight.detach().clone().requires_grad_(true);
  auto by_hand =
      torch::nn::functional::mse_loss(
          torch::nn::functional::linear(input.detach(), w, model->bias.detach()), target) +
      (w.sum(0).norm() - 1).pow(2);
  by_hand.backward();
  expect(same(w.grad(), model->weight.grad()), "the gradient of the gradient penalty");

  auto x = torch::tensor({2.0}, torch::dtype(torch::kFloat64).requires_grad(true));
  auto y = x.pow(3);
  for (const double expected : {12.0, 12.0, 6.0}) {
    y = torch::autograd::grad({y}, {x}, {}, c10::nullopt, /*create_graph=*/true)[0];
    expect(y.item<double>() == expected, "a derivative of the cube");
  }
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor input, torch::Tensor weight,
                               torch::Tensor bias = torch::Tensor()) {
    ctx->save_for_backward({input, weight, bias});
    auto output = input.mm(weight.t());
    if (bias.defined()) output += bias.unsqueeze(0).expand_as(output);
    return output;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grad_outputs) {
    auto saved = ctx->get_saved_variables();
    auto input = saved[0];
    auto weight = saved[1];
    auto bias = saved[2];
    auto grad_output = grad_outputs[0];
    auto grad_input = grad_output.mm(weight);
    auto grad_weight = grad_output.t().mm(input);
    auto grad_bias = torch::Tensor();
    if (bias.defined()) grad_bias = grad_output.sum(0);
    return {grad_input, grad_weight, grad_bias};
  }
};

class MulConstant : public torch::autograd::Function<MulConstant> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor tensor, double constant) {
    ctx->saved_data["constant"] = constant;
    ctx->saved_data["factors"] = std::vector<int64_t>{1, 2};
    return tensor * constant;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grad_outputs) {
    expect(ctx->saved_data["factors"].toIntVector().size() == 2, "a saved list");
    return {grad_outputs[0] * ctx->saved_data["constant"].toDouble(), torch::Tensor()};
  }
};

/// Two results, of which one has no gradient.
class Halves : public torch::autograd::Function<Halves> {
 public:
  static torch::autograd::variable_list forward(AutogradContext* ctx, torch::Tensor x) {
    auto sign = x.sign();
    ctx->mark_non_differentiable({sign});
    ctx->save_for_backward({x});
    return {x / 2, sign};
  }
  static torch::autograd::variable_list backward(AutogradContext*,
                                                 torch::autograd::variable_list grad_outputs) {
    return {grad_outputs[0] / 2};
  }
};

void custom_functions() {
  auto x = torch::randn({2, 3}).requires_grad_();
  auto weight = torch::randn({4, 3}).requires_grad_();
  auto y = LinearFunction::apply(x, weight);
  y.sum().backward();
  expect(same(x.grad(), weight.detach().sum(0).expand({2, 3})),
         "the custom linear's input gradient");
  expect(same(weight.grad(), x.detach().sum(0).expand({4, 3})),
         "the custom linear's weight gradient");

  auto z = torch::randn({2}).requires_grad_();
  MulConstant::apply(z, 5.5).sum().backward();
  expect(same(z.grad(), torch::full({2}, 5.5)), "the gradient of a constant's product");

  z.mutable_grad() = torch::Tensor();
  auto halves = Halves::apply(z);
  expect(!halves[1].requires_grad(), "requires_grad of a result without gradient");
  halves[0].sum().backward();
  expect(same(z.grad(), torch::full({2}, 0.5)), "the gradient of a half");

  auto h = torch::ones({2}, torch::requires_grad());
  h.register_hook([](torch::Tensor grad) { return grad * 3; });
  (h * 2).sum().backward();
  expect(same(h.grad(), torch::full({2}, 6.0)), "the gradient after a hook");
}

}  // namespace programs::autograd_program

programs::Run programs::autograd() {
  using namespace autograd_program;
  torch::manual_seed(1);
  wrong = 0;
  basic_operations();
  higher_order_gradients();
  custom_functions();
  return {{}, static_cast<double>(wrong)};
}
