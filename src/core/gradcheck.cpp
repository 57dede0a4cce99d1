// gradcheck and gradgradcheck: analytic gradients against central differences, in float64.
#include <cmath>

#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::autograd {
namespace {

variable_list floating_outputs(const std::function<variable_list(const variable_list&)>& f,
                               const variable_list& inputs) {
  variable_list out;
  for (const Tensor& t : f(inputs))
    if (t.defined() && t.is_floating_point()) out.push_back(t);
  return out;
}

struct Mismatch {
  size_t output, input;
  int64_t row, column;
  double analytic, numeric;
};

// d outputs / d inputs[i][column], by central differences with the values of the input changed in
// place.
std::vector<Tensor> numeric_column(const std::function<variable_list(const variable_list&)>& f,
                                   const variable_list& inputs, const Tensor& input, int64_t column,
                                   double eps) {
  const NoGradGuard off;
  double* value = input.data_ptr<double>() + column;
  const double kept = *value;
  *value = kept + eps;
  variable_list plus = floating_outputs(f, inputs);
  for (Tensor& t : plus) t = t.clone();
  *value = kept - eps;
  variable_list minus = floating_outputs(f, inputs);
  for (Tensor& t : minus) t = t.clone();
  *value = kept;
  std::vector<Tensor> columns;
  for (size_t k = 0; k < plus.size(); ++k)
    columns.push_back(plus[k].sub(minus[k]).div(2 * eps).contiguous());
  return columns;
}

bool check(const std::function<variable_list(const variable_list&)>& f, const variable_list& given,
           double eps, double atol, double rtol, bool raise_exception, const char* what) {
  variable_list inputs;
  std::vector<size_t> checked;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || given[i].dtype() != kFloat64 || !given[i].requires_grad()) {
      inputs.push_back(given[i]);
      continue;
    }
    inputs.push_back(given[i].detach().contiguous().clone().requires_grad_());
    checked.push_back(i);
  }
  PELLUCID_CHECK(!checked.empty(), ValueError,
                 "{}: at least one float64 input must require a gradient.", what);
  const variable_list outputs = floating_outputs(f, inputs);
  // analytic[k][c]: row by row of the Jacobian, one vjp per output element.
  std::vector<std::vector<std::vector<double>>> analytic(outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    analytic[k].resize(checked.size());
    for (size_t c = 0; c < checked.size(); ++c)
      analytic[k][c].assign(static_cast<size_t>(outputs[k].numel() * inputs[checked[c]].numel()),
                            0.0);
    if (!outputs[k].requires_grad()) continue;
    variable_list wanted;
    for (size_t i : checked) wanted.push_back(inputs[i]);
    for (int64_t row = 0; row < outputs[k].numel(); ++row) {
      Tensor one = zeros(outputs[k].sizes(), kFloat64);
      one.data_ptr<double>()[row] = 1;
      const variable_list g = grad({outputs[k]}, wanted, {one}, true, false, true);
      for (size_t c = 0; c < checked.size(); ++c) {
        if (!g[c].defined()) continue;
        const Tensor dense = g[c].contiguous();
        const int64_t n = inputs[checked[c]].numel();
        std::copy_n(dense.const_data_ptr<double>(), n, analytic[k][c].data() + row * n);
      }
    }
  }
  for (size_t c = 0; c < checked.size(); ++c) {
    const Tensor& input = inputs[checked[c]];
    for (int64_t column = 0; column < input.numel(); ++column) {
      const std::vector<Tensor> numeric = numeric_column(f, inputs, input, column, eps);
      for (size_t k = 0; k < outputs.size(); ++k)
        for (int64_t row = 0; row < outputs[k].numel(); ++row) {
          const double a = analytic[k][c][static_cast<size_t>(row * input.numel() + column)];
          const double n = numeric[k].const_data_ptr<double>()[row];
          if (std::fabs(a - n) <= atol + rtol * std::fabs(n) || (std::isnan(a) && std::isnan(n)))
            continue;
          PELLUCID_CHECK(!raise_exception, AutogradError,
                         "{}: the gradient of output {} at flat index {} with respect to input {} "
                         "at flat index {} is {} "
                         "by backward and {} by differences (input {}, output {}).",
                         what, k, row, checked[c], column, a, n, describe(input),
                         describe(outputs[k]));
          return false;
        }
    }
  }
  return true;
}

}  // namespace

bool gradcheck(const std::function<variable_list(const variable_list&)>& f,
               const variable_list& inputs, double eps, double atol, double rtol,
               bool raise_exception) {
  return check(f, inputs, eps, atol, rtol, raise_exception, "gradcheck");
}

bool gradgradcheck(const std::function<variable_list(const variable_list&)>& f,
                   const variable_list& inputs, double eps, double atol, double rtol,
                   bool raise_exception) {
  // The function whose gradient is checked: (inputs, grad_outputs) -> gradients of f at them.
  const variable_list outputs = floating_outputs(f, inputs);
  variable_list all = inputs;
  uint64_t n = 0;
  for (const Tensor& t : outputs) {
    Tensor g = empty(t.sizes(), kFloat64);
    for (int64_t i = 0; i < g.numel(); ++i)
      g.data_ptr<double>()[i] = std::cos(1.0 + 0.7 * static_cast<double>(n++));
    all.push_back(g.requires_grad_());
  }
  const size_t count = inputs.size();
  const auto gradients = [&f, count](const variable_list& in) {
    const AutoGradMode on(true);
    variable_list point, wanted;
    for (size_t i = 0; i < count; ++i) {
      // Under numeric differences gradients are off and the inputs are plain: make them leaves
      // here.
      Tensor t = in[i];
      if (t.defined() && t.dtype() == kFloat64 && t.requires_grad()) wanted.push_back(t);
      point.push_back(t);
    }
    variable_list outputs_now = floating_outputs(f, point), used, seeds;
    for (size_t k = 0; k < outputs_now.size(); ++k)
      if (outputs_now[k].requires_grad()) {
        used.push_back(outputs_now[k]);
        seeds.push_back(in[count + k]);
      }
    variable_list result;
    if (used.empty()) return result;
    for (const Tensor& g : grad(used, wanted, seeds, true, true, true))
      if (g.defined()) result.push_back(g);
    return result;
  };
  return check(gradients, all, eps, atol, rtol, raise_exception, "gradgradcheck");
}

}  // namespace pellucid::autograd
