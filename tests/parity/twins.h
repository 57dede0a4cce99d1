// The C++ side of the table of twins (twins.txt): how a line's constructor is written in C++.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "pellucid/torch.h"

namespace pellucid::twins {

/// sin(0.7 i + phase) for element i, in float64.
inline Tensor wave(IntArrayRef sizes, double phase) {
  int64_t count = 1;
  for (const int64_t s : sizes) count *= s;
  return sin(arange(count, kFloat64) * 0.7 + phase).reshape(sizes);
}
/// What `pos(4)` in a constructor is.
inline Tensor pos(IntArrayRef sizes, double phase = 3) { return wave(sizes, phase).abs() + 0.1; }

/// A module, and its forward on tensors (a flag is a 0-dim bool tensor).
struct Made {
  std::shared_ptr<nn::Module> module;
  std::function<Tensors(const Tensors&)> forward;
};

template <class Result> Tensors defined_tensors(Result result) {
  std::vector<Tensor*> found;
  nn::detail::collect(found, result);
  Tensors out;
  for (const Tensor* t : found)
    if (t->defined()) out.push_back(*t);
  return out;
}

/// module->forward(in…), for modules that take so many tensors.
template <class M> Tensors forward(M& module, const Tensors& in) {
  const auto with = [&](const auto&... t) -> Tensors {
    if constexpr (requires { module.forward(t...); })
      return defined_tensors(module.forward(t...));
    else
      PELLUCID_CHECK(false, ValueError, "{} does not take {} tensors.", module.name(),
                     sizeof...(t));
    return {};
  };
  switch (in.size()) {
    case 1:
      return with(in[0]);
    case 2:
      return with(in[0], in[1]);
    case 3:
      return with(in[0], in[1], in[2]);
    case 4:
      return with(in[0], in[1], in[2], in[3]);
    default:
      return with(in[0], in[1], in[2], in[3], in[4].item<bool>(), in[5]);
  }
}

template <class M> Made made(M holder) {
  return {holder.ptr(), [holder](const Tensors& in) mutable { return forward(*holder, in); }};
}
template <class M> Made packed(M holder) {
  return {holder.ptr(), [holder](const Tensors& in) mutable {
            namespace rnn = nn::utils::rnn;
            const rnn::PackedSequence sequences =
                rnn::pack_padded_sequence(in[0], tensor({3, 6, 1, 3}), false, false);
            auto [out, states] = holder->forward_with_packed_input(sequences);
            Tensors all{std::get<0>(rnn::pad_packed_sequence(out, true, 0.25, 7))};
            for (const Tensor& t : defined_tensors(std::move(states))) all.push_back(t);
            return all;
          }};
}

using Modules = std::map<std::string, std::function<Made()>>;
using Optimizers =
    std::map<std::string, std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>>;

/// By the constructor's text, with "packed " where the table has it.
Modules activations_and_losses();
Modules layers();
Modules sequence_layers();
Modules built_in_models();
Optimizers optimizers();

}  // namespace pellucid::twins
