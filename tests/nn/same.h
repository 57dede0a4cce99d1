// Compares a module with PyTorch 2.13: both are given the same parameters and inputs (waves), and
// one number stands for all outputs, another for all gradients.
#pragma once

#include <doctest/doctest.h>

#include <sstream>

#include "pellucid/torch.h"

namespace pellucid::nn_tests {

/// sin(0.7 i + phase) for element i, in float64.
inline Tensor wave(IntArrayRef sizes, double phase) {
  int64_t count = 1;
  for (const int64_t s : sizes) count *= s;
  return sin(arange(count, kFloat64) * 0.7 + phase).reshape(sizes);
}
/// A wave that gets a gradient.
inline Tensor leaf(IntArrayRef sizes, double phase) { return wave(sizes, phase).requires_grad_(); }
inline Tensor pos(IntArrayRef sizes, double phase) { return wave(sizes, phase).abs() + 0.1; }
inline Tensor prob(IntArrayRef sizes, double phase) { return (wave(sizes, phase) + 1.2) / 2.5; }
inline Tensor sign_of(IntArrayRef sizes, double phase) {
  return where(wave(sizes, phase) > 0, ones(sizes, kFloat64), -ones(sizes, kFloat64));
}
template <class M> M in_eval(M module) {
  module->eval();
  return module;
}

/// Parameter k becomes half a wave of phase k.
inline void fill_parameters(nn::Module& module) {
  module.to(kFloat64);
  const NoGradGuard off;
  double phase = 0;
  for (const Tensor& p : module.parameters()) p.copy_(wave(p.sizes(), phase++) * 0.5);
}

/// Checks the weighted sums of outputs and of gradients against PyTorch's.
template <class M, class... In>
void same(M module, double value, double gradient, const In&... inputs) {
  std::ostringstream text;
  text << module;
  CAPTURE(text.str());
  fill_parameters(*module);
  auto result = module(inputs...);
  std::vector<Tensor*> outputs;
  nn::detail::collect(outputs, result);
  Tensor total = zeros({}, kFloat64);
  double phase = 1;
  for (const Tensor* t : outputs)
    if (t->defined()) total = total + (*t * wave(t->sizes(), phase++)).sum();
  CHECK(total.item<double>() == doctest::Approx(value).epsilon(1e-8));
  if (!total.requires_grad()) return;
  total.backward();
  Tensors leaves;
  const auto add = [&](const auto& x) {
    if constexpr (std::is_same_v<std::decay_t<decltype(x)>, Tensor>)
      if (x.requires_grad()) leaves.push_back(x);
  };
  (add(inputs), ...);
  for (const Tensor& p : module->parameters()) leaves.push_back(p);
  double sum = 0;
  phase = 2;
  for (const Tensor& t : leaves) {
    if (t.grad().defined())
      sum += (t.grad() * wave(t.sizes(), phase)).sum().template item<double>();
    ++phase;
  }
  // PyTorch has some constants of gradients (1/6 of hardsigmoid) in float32.
  CHECK(sum == doctest::Approx(gradient).epsilon(1e-7));
}

}  // namespace pellucid::nn_tests
