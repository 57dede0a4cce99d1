// Data sets over tensors in memory.
#pragma once

#include "pellucid/data/datasets/base.h"

namespace pellucid::data::datasets {

/// The rows of a tensor (dim 0), without targets.
class PELLUCID_API TensorDataset : public Dataset<TensorDataset, TensorExample> {
 public:
  using WholeType = TensorExample;
  explicit TensorDataset(const std::vector<Tensor>& tensors);
  explicit TensorDataset(Tensor tensor);
  TensorExample get(size_t index) override;
  WholeType get_whole(ArrayRef<size_t> indices, const Normalization& normalization);
  std::optional<size_t> size() const override;
  Tensor tensor;
};

/// The rows of two tensors as data and target.
class PELLUCID_API PairDataset : public Dataset<PairDataset> {
 public:
  using WholeType = Example<>;
  PairDataset(Tensor data, Tensor targets);
  Example<> get(size_t index) override;
  WholeType get_whole(ArrayRef<size_t> indices, const Normalization& normalization);
  std::optional<size_t> size() const override;
  Tensor data, targets;
};

}  // namespace pellucid::data::datasets
