// Transforms: what happens to examples between the data set and the loop. Normalize and Stack are
// fused with the gathering of a batch where the data set holds its data in one tensor.
#pragma once

#include <functional>
#include <vector>

#include "pellucid/creation.h"
#include "pellucid/data/example.h"
#include "pellucid/ops.h"

namespace pellucid::data::transforms {

/// Takes a whole batch.
template <class InputBatch, class OutputBatch> class BatchTransform {
 public:
  using InputBatchType = InputBatch;
  using OutputBatchType = OutputBatch;
  virtual ~BatchTransform() = default;
  virtual OutputBatch apply_batch(InputBatch batch) = 0;
};

/// Takes one example at a time.
template <class Input, class Output>
class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
 public:
  using InputType = Input;
  using OutputType = Output;
  virtual Output apply(Input input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> inputs) override {
    std::vector<Output> outputs;
    outputs.reserve(inputs.size());
    for (Input& e : inputs) outputs.push_back(apply(std::move(e)));
    return outputs;
  }
};

/// A function of a batch.
template <class Input, class Output = Input>
class BatchLambda : public BatchTransform<Input, Output> {
 public:
  using FunctionType = std::function<Output(Input)>;
  explicit BatchLambda(FunctionType function) : function_(std::move(function)) {}
  Output apply_batch(Input input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};

/// What makes one value of a batch, and a function that does.
template <class T, class Batch = std::vector<T>> using Collation = BatchTransform<Batch, T>;
template <class T, class Batch = std::vector<T>> using Collate = BatchLambda<Batch, T>;

/// A function of one example.
template <class Input, class Output = Input> class Lambda : public Transform<Input, Output> {
 public:
  using FunctionType = std::function<Output(Input)>;
  explicit Lambda(FunctionType function) : function_(std::move(function)) {}
  Output apply(Input input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};

/// Changes the data of an example and leaves the target.
template <class Target = Tensor>
class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
 public:
  using E = Example<Tensor, Target>;
  virtual Tensor operator()(Tensor input) = 0;
  E apply(E input) override {
    input.data = (*this)(std::move(input.data));
    return input;
  }
};

template <class Target = Tensor> class TensorLambda : public TensorTransform<Target> {
 public:
  using FunctionType = std::function<Tensor(Tensor)>;
  explicit TensorLambda(FunctionType function) : function_(std::move(function)) {}
  Tensor operator()(Tensor input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};

/// (x - mean) / stddev, with one number or one a channel (the first dimension of an example).
template <class Target = Tensor> struct Normalize : TensorTransform<Target> {
  Normalize(ArrayRef<double> mean_of, ArrayRef<double> stddev_of)
      : mean(tensor(mean_of, kFloat32).unsqueeze(1).unsqueeze(2)),
        stddev(tensor(stddev_of, kFloat32).unsqueeze(1).unsqueeze(2)) {}
  Tensor operator()(Tensor input) override { return input.sub(mean).div(stddev); }
  Tensor mean, stddev;
};

template <class E = Example<>> struct Stack;

/// Makes one example of tensors with a batch dimension out of many.
template <> struct Stack<Example<>> : BatchTransform<std::vector<Example<>>, Example<>> {
  Example<> apply_batch(std::vector<Example<>> examples) override {
    std::vector<Tensor> data, targets;
    for (Example<>& e : examples) {
      data.push_back(std::move(e.data));
      targets.push_back(std::move(e.target));
    }
    return {stack(data), stack(targets)};
  }
};
template <>
struct Stack<TensorExample> : BatchTransform<std::vector<TensorExample>, TensorExample> {
  TensorExample apply_batch(std::vector<TensorExample> examples) override {
    std::vector<Tensor> data;
    data.reserve(examples.size());
    for (TensorExample& e : examples) data.push_back(std::move(e.data));
    return stack(data);
  }
};

}  // namespace pellucid::data::transforms
