// Data sets over tensors, and the gathering of a whole batch.
#include "pellucid/data/datasets/base.h"
#include "pellucid/data/datasets/tensor.h"
#include "pellucid/memory.h"

namespace pellucid::data::datasets {

Normalization Normalization::then(const Normalization& next) const {
  if (!mean.defined()) return next;
  if (!next.mean.defined()) return *this;
  // ((x - m1) / s1 - m2) / s2 = (x - (m1 + m2 s1)) / (s1 s2)
  return {mean.add(next.mean.mul(stddev)), stddev.mul(next.stddev)};
}

namespace detail {

void check_index(const char* who, size_t index, size_t size) {
  PELLUCID_CHECK(index < size, IndexError, "{}: index {} is outside the {} examples.", who, index,
                 size);
}

Tensor gather(const Tensor& data, ArrayRef<size_t> indices, double scale,
              const Normalization& normalization) {
  static_assert(sizeof(size_t) == sizeof(int64_t));
  const MemoryCategoryGuard category(MemoryCategory::Data);
  const Tensor index = from_blob(const_cast<size_t*>(indices.data()),
                                 {static_cast<int64_t>(indices.size())}, kInt64);
  const bool fusable = (data.dtype() == kUInt8 || data.dtype() == kFloat32) && data.dim() >= 2;
  if (!normalization.mean.defined()) {
    if (scale == 1) return data.index_select(0, index);
    return fusable ? gather_normalize(data, index, {}, {}, scale)
                   : data.index_select(0, index).div(scale);
  }
  const auto by_channel = [&](const Tensor& t) {
    return t.numel() == 1 && data.dim() >= 2 ? t.reshape({1}).expand({data.size(1)}).contiguous()
                                             : t.reshape({t.numel()});
  };
  // Numbers for another dimension than the channels are left to broadcasting.
  if (fusable && data.dim() == 4 &&
      (normalization.mean.numel() == 1 || normalization.mean.numel() == data.size(1)) &&
      (normalization.stddev.numel() == 1 || normalization.stddev.numel() == data.size(1)))
    return gather_normalize(data, index, by_channel(normalization.mean),
                            by_channel(normalization.stddev), scale);
  // An example of fewer dimensions grows to three by broadcasting, as it does on its own.
  Tensor batch = data.index_select(0, index);
  if (scale != 1) batch = batch.div(scale);
  while (batch.dim() < 4) batch = batch.unsqueeze(1);
  return batch.sub(normalization.mean).div(normalization.stddev);
}

namespace {
size_t rows(const char* who, const Tensor& t) {
  PELLUCID_CHECK(t.dim() >= 1, ShapeError, "{}: the tensor needs a dimension for the examples.",
                 who);
  return static_cast<size_t>(t.size(0));
}
}  // namespace
}  // namespace detail

TensorDataset::TensorDataset(const std::vector<Tensor>& tensors) : TensorDataset(stack(tensors)) {}
TensorDataset::TensorDataset(Tensor t) : tensor(std::move(t)) {
  detail::rows("TensorDataset", tensor);
}

TensorExample TensorDataset::get(size_t index) {
  detail::check_index("TensorDataset", index, *size());
  return tensor[static_cast<int64_t>(index)];
}

TensorExample TensorDataset::get_whole(ArrayRef<size_t> indices,
                                       const Normalization& normalization) {
  return detail::gather(tensor, indices, 1, normalization);
}

std::optional<size_t> TensorDataset::size() const { return static_cast<size_t>(tensor.size(0)); }

PairDataset::PairDataset(Tensor d, Tensor t) : data(std::move(d)), targets(std::move(t)) {
  PELLUCID_CHECK(detail::rows("PairDataset", data) == detail::rows("PairDataset", targets),
                 ShapeError, "PairDataset: {} examples but {} targets (sizes {} and {}).",
                 data.size(0), targets.size(0), data.sizes(), targets.sizes());
}

Example<> PairDataset::get(size_t index) {
  detail::check_index("PairDataset", index, *size());
  const auto i = static_cast<int64_t>(index);
  return {data[i], targets[i]};
}

Example<> PairDataset::get_whole(ArrayRef<size_t> indices, const Normalization& normalization) {
  return {detail::gather(data, indices, 1, normalization), detail::gather(targets, indices)};
}

std::optional<size_t> PairDataset::size() const { return static_cast<size_t>(data.size(0)); }

}  // namespace pellucid::data::datasets
