// Samples: the calls by which an op is tested. Inputs are float64 from a generator of their own, so
// they never change.
#include <cmath>

#include "base/philox.h"
#include "core/registry.h"
#include "pellucid/op.h"

namespace pellucid {
namespace {

thread_local uint64_t sample_counter = 0;

double next_uniform() {
  const auto block = philox4x32(20240229, sample_counter++);
  return (static_cast<double>(block[0]) * 4294967296.0 + block[1]) * 0x1p-64;
}

template <class T, class F> Tensor filled(IntArrayRef sizes, F&& next) {
  auto impl = detail::new_impl(dtype_of<T>, sizes);
  impl->storage = detail::new_storage(static_cast<size_t>(impl->numel) * sizeof(T));
  T* data = static_cast<T*>(impl->data());
  for (int64_t i = 0; i < impl->numel; ++i) data[i] = next();
  return Tensor(std::move(impl));
}

}  // namespace

Tensor sample_uniform(IntArrayRef sizes, double low, double high) {
  return filled<double>(sizes, [&] { return low + (high - low) * next_uniform(); });
}

Tensor sample_randn(IntArrayRef sizes, double away_from_zero) {
  return filled<double>(sizes, [&] {
    const double r = std::sqrt(-2 * std::log(1 - next_uniform()));
    const double v = r * std::cos(6.283185307179586 * next_uniform());
    return v + std::copysign(away_from_zero, v);
  });
}

Tensor sample_ints(IntArrayRef sizes, int64_t low, int64_t high) {
  return filled<int64_t>(sizes, [&] {
    return low + static_cast<int64_t>(std::floor(static_cast<double>(high - low) * next_uniform()));
  });
}

Sample& Samples::add(std::vector<Value> args, std::vector<NamedValue> kwargs) {
  valid.push_back({.op = &op_, .args = std::move(args), .kwargs = std::move(kwargs)});
  return valid.back();
}

Sample& Samples::add_no_grad(std::vector<Value> args, std::vector<NamedValue> kwargs) {
  Sample& s = add(std::move(args), std::move(kwargs));
  s.gradients = false;
  return s;
}

void Samples::large(std::function<std::vector<Value>()> make, std::vector<NamedValue> kwargs) {
  make_large = [op = &op_, make = std::move(make), kwargs = std::move(kwargs)] {
    return Sample{.op = op, .args = make(), .kwargs = kwargs, .large = true};
  };
}

void Samples::error(std::vector<Value> args, std::string message, std::vector<NamedValue> kwargs) {
  failing.push_back({.op = &op_,
                     .args = std::move(args),
                     .kwargs = std::move(kwargs),
                     .error = std::move(message)});
}

Samples samples_of(const OpDef& op) {
  info_of(op);
  sample_counter = 0;
  Samples s(op);
  if (op.samples) op.samples(s);
  return s;
}

}  // namespace pellucid
