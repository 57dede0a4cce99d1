// MNIST and sets of its format (Fashion-MNIST): images and labels as IDX files, plain or .gz.
#pragma once

#include <string>

#include "pellucid/data/datasets/base.h"

namespace pellucid::data::datasets {

/// Reads an IDX file of unsigned bytes, plain or gzipped; throws IoError with the path.
PELLUCID_API Tensor read_idx(const std::string& path);

/// Images of 1 x 28 x 28 in [0, 1] and int64 labels, kept in memory as bytes.
class PELLUCID_API MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  using WholeType = Example<>;
  /// Reads train-images-idx3-ubyte (or t10k-…) and the labels, each possibly with .gz, from the
  /// folder `root`.
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain);
  /// From bytes [N, height, width] and labels [N], whatever made them.
  MNIST(Tensor images, Tensor labels, Mode mode = Mode::kTrain);
  Example<> get(size_t index) override;
  WholeType get_whole(ArrayRef<size_t> indices, const Normalization& normalization);
  std::optional<size_t> size() const override;
  bool is_train() const { return mode_ == Mode::kTrain; }
  /// All images as float32; made anew at each call.
  Tensor images() const;
  const Tensor& targets() const { return targets_; }
  /// All images as they are kept, uint8 [N, 1, height, width].
  const Tensor& bytes() const { return bytes_; }

 private:
  Tensor bytes_, targets_;
  Mode mode_;
};

}  // namespace pellucid::data::datasets
