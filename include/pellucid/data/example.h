// Example: one datum of a data set, or a stacked batch of them.
#pragma once

#include "pellucid/tensor.h"

namespace pellucid::data {

namespace example {
using NoTarget = void;
}  // namespace example

/// Data and target; each is usually a Tensor.
template <class Data = Tensor, class Target = Tensor> struct Example {
  using DataType = Data;
  using TargetType = Target;
  Example() = default;
  Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
  Data data;
  Target target;
};

/// Data without a target.
template <class Data> struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;
  Example() = default;
  Example(Data d) : data(std::move(d)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }
  Data data;
};
using TensorExample = Example<Tensor, example::NoTarget>;

}  // namespace pellucid::data
