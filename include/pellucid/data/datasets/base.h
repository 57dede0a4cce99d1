// Data sets: BatchDataset, Dataset, and MapDataset, which applies a transform. A data set that
// holds its data in tensors also has get_whole, which gathers a batch in one pass; MapDataset uses
// it where its transforms allow, so that Normalize and Stack cost no small tensors.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <vector>

#include "pellucid/array_ref.h"
#include "pellucid/data/transforms.h"

namespace pellucid::data::datasets {

template <class S, class T> class MapDataset;

/// Gives batches for requests.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  static constexpr bool is_stateful = false;
  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  /// The number of examples, if there is one.
  virtual std::optional<size_t> size() const = 0;
  /// This data set followed by a transform.
  template <class Transform> MapDataset<Self, Transform> map(Transform transform) & {
    return {static_cast<Self&>(*this), std::move(transform)};
  }
  template <class Transform> MapDataset<Self, Transform> map(Transform transform) && {
    return {std::move(static_cast<Self&>(*this)), std::move(transform)};
  }
};

/// Gives one example for an index.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual SingleExample get(size_t index) = 0;
  std::vector<SingleExample> get_batch(ArrayRef<size_t> indices) override {
    std::vector<SingleExample> batch;
    batch.reserve(indices.size());
    for (const size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

/// Gives the next examples of a stream, as many as asked for while there are any; visited with a
/// StreamSampler.
template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

/// What is still to be done to gathered data: (x - mean) / stddev by channel; undefined for
/// nothing.
struct Normalization {
  Tensor mean, stddev;
  /// This one first, then `next`.
  PELLUCID_API Normalization then(const Normalization& next) const;
};

/// A data set that gathers a stacked batch in one pass.
template <class D>
concept WholeBatches = requires(D& d, ArrayRef<size_t> indices, const Normalization& n) {
  typename D::WholeType;
  { d.get_whole(indices, n) } -> std::same_as<typename D::WholeType>;
};

namespace detail {
template <class T> inline constexpr bool is_stack = false;
template <class E> inline constexpr bool is_stack<transforms::Stack<E>> = true;
template <class T> inline constexpr bool is_normalize = false;
template <class E> inline constexpr bool is_normalize<transforms::Normalize<E>> = true;
/// The rows of `data` (dim 0) at the indices, divided by `scale` and normalised.
PELLUCID_API Tensor gather(const Tensor& data, ArrayRef<size_t> indices, double scale = 1,
                           const Normalization& normalization = {});
/// Throws IndexError where an index is not below the size.
PELLUCID_API void check_index(const char* who, size_t index, size_t size);

template <class D, bool = WholeBatches<D>> struct WholeTypeOf {};
template <class D> struct WholeTypeOf<D, true> { using WholeType = typename D::WholeType; };
}  // namespace detail

/// A data set followed by a transform.
template <class SourceDataset, class AppliedTransform>
class MapDataset : public BatchDataset<MapDataset<SourceDataset, AppliedTransform>,
                                       typename AppliedTransform::OutputBatchType,
                                       typename SourceDataset::BatchRequestType>,
                   public detail::WholeTypeOf<SourceDataset> {
 public:
  using DatasetType = SourceDataset;
  using TransformType = AppliedTransform;
  using BatchRequestType = typename SourceDataset::BatchRequestType;
  using OutputBatchType = typename AppliedTransform::OutputBatchType;
  static_assert(
      std::is_same_v<typename SourceDataset::BatchType, typename AppliedTransform::InputBatchType>,
      "the transform must take what the data set gives");

  MapDataset(SourceDataset dataset, AppliedTransform transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

  OutputBatchType get_batch(BatchRequestType indices) override {
    if constexpr (WholeBatches<SourceDataset> && detail::is_stack<AppliedTransform>)
      return dataset_.get_whole(indices, {});
    else
      return transform_.apply_batch(dataset_.get_batch(std::move(indices)));
  }
  auto get_whole(BatchRequestType indices, const Normalization& next) requires(
      WholeBatches<SourceDataset>&& detail::is_normalize<AppliedTransform>) {
    return dataset_.get_whole(indices,
                              Normalization{transform_.mean, transform_.stddev}.then(next));
  }
  std::optional<size_t> size() const override { return dataset_.size(); }
  const SourceDataset& dataset() { return dataset_; }
  const AppliedTransform& transform() { return transform_; }

 private:
  SourceDataset dataset_;
  AppliedTransform transform_;
};

/// A data set that all copies share, for one that must not be copied into each worker; it must bear
/// calls from several threads.
template <class D>
class SharedBatchDataset : public BatchDataset<SharedBatchDataset<D>, typename D::BatchType,
                                               typename D::BatchRequestType> {
 public:
  SharedBatchDataset(std::shared_ptr<D> dataset) : dataset_(std::move(dataset)) {}
  typename D::BatchType get_batch(typename D::BatchRequestType request) override {
    return dataset_->get_batch(std::move(request));
  }
  std::optional<size_t> size() const override { return dataset_->size(); }
  D& operator*() { return *dataset_; }
  const D& operator*() const { return *dataset_; }
  D* operator->() { return dataset_.get(); }
  const D* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<D> dataset_;
};

template <class D, class... Args> SharedBatchDataset<D> make_shared_dataset(Args&&... args) {
  return std::make_shared<D>(std::forward<Args>(args)...);
}

template <class DatasetType, class TransformType>
MapDataset<DatasetType, TransformType> map(DatasetType dataset, TransformType transform) {
  return {std::move(dataset), std::move(transform)};
}

}  // namespace pellucid::data::datasets
