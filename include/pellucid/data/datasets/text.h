// Token ids as pairs of windows, for training a language model.
#pragma once

#include "pellucid/data/datasets/base.h"

namespace pellucid::data::datasets {

/// Example i is data = ids[i * stride, … + length) and target = the same shifted by one.
class PELLUCID_API TextDataset : public Dataset<TextDataset> {
 public:
  using WholeType = Example<>;
  /// `ids` is a 1-dimensional integer tensor of more than `length` entries; stride 1 makes a window
  /// start at every token, stride `length` at every length-th.
  TextDataset(Tensor ids, int64_t length, int64_t stride = 1);
  Example<> get(size_t index) override;
  WholeType get_whole(ArrayRef<size_t> indices, const Normalization& normalization);
  std::optional<size_t> size() const override { return count_; }

 private:
  Tensor ids_;
  int64_t length_, stride_;
  size_t count_;
};

}  // namespace pellucid::data::datasets
