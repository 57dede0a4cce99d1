// Tensor::index and index_put_ with mixed indices: integers, slices, None and Ellipsis become views
// at once, tensors and bools are collected for the ops index and index_put_.
#include <string_view>

#include "ops/common.h"
#include "pellucid/indexing.h"
#include "pellucid/ops.h"

namespace pellucid {

using indexing::TensorIndex;

namespace indexing {

TensorIndex::TensorIndex(const char* text) : type_(TensorIndexType::Ellipsis) {
  PELLUCID_CHECK(text && std::string_view(text) == "...", ValueError,
                 "index: the only text in an index is \"...\", found \"{}\".",
                 text ? text : "null");
}

}  // namespace indexing

namespace {

// A bool in an index is a mask of one element over a new dim.
Tensor mask_of(bool value) { return full({1}, value, kBool); }

// How many dims an index tensor takes: a mask its own.
int64_t dims_of(const Tensor& t) { return t.dtype() == kBool || t.dtype() == kUInt8 ? t.dim() : 1; }

/// What is left of an index after the views were taken.
struct Sliced {
  Tensor view;
  Tensors indices;      ///< what the op takes: one for each dim of the view, a mask for several;
                        ///< undefined where a dim is taken whole
  int64_t covered = 0;  ///< dims of the view that `indices` speak of
  bool advanced = false;

  void select(int64_t dim, Tensor index) {
    indices.resize(indices.size() + static_cast<size_t>(dim - covered));
    covered = dim + dims_of(index);
    indices.push_back(std::move(index));
    advanced = true;
  }
};

// How many dims of the indexed tensor an entry takes.
int64_t dims_taken(const TensorIndex& i) {
  if (i.is_none() || i.is_ellipsis() || i.is_boolean()) return 0;
  return i.is_tensor() ? dims_of(i.tensor()) : 1;
}

// Whether a tensor stands for an integer.
bool is_integer_tensor(const Tensor& t) {
  return t.dim() == 0 && is_integral(t.dtype(), false) && t.dtype() != kUInt8;
}

Sliced apply_slicing(const Tensor& self, ArrayRef<TensorIndex> entries) {
  int64_t taken = 0;
  for (const TensorIndex& i : entries) taken += dims_taken(i);
  PELLUCID_CHECK(taken <= self.dim(), IndexError,
                 "index: too many indices: {} for a tensor of {} dimensions (sizes {}).", taken,
                 self.dim(), self.sizes());
  Sliced s{self};
  int64_t dim = 0;
  for (const TensorIndex& i : entries) {
    switch (i.type()) {
      case indexing::TensorIndexType::None:
        s.view = s.view.unsqueeze(dim++);
        break;
      case indexing::TensorIndexType::Ellipsis:
        dim += self.dim() - taken;
        break;
      case indexing::TensorIndexType::Integer: {
        const int64_t n = s.view.size(dim), at = i.integer();
        PELLUCID_CHECK(at >= -n && at < n, IndexError,
                       "index: {} is out of bounds for dimension {} with size {} (sizes {}).", at,
                       dim, n, self.sizes());
        s.view = s.view.select(dim, at);
        break;
      }
      case indexing::TensorIndexType::Slice: {
        const indexing::Slice& slice = i.slice();
        PELLUCID_CHECK(
            slice.step() > 0, ValueError,
            "index: the step of a slice must be positive, found {}. Use flip() to go backwards.",
            slice.step());
        if (slice.start() || slice.stop() || slice.step() != 1)
          s.view = s.view.slice(dim, slice.start(), slice.stop(), slice.step());
        ++dim;
        break;
      }
      case indexing::TensorIndexType::Boolean:
        s.view = s.view.unsqueeze(dim);
        s.select(dim++, mask_of(i.boolean()));
        break;
      case indexing::TensorIndexType::Tensor: {
        const Tensor& t = i.tensor();
        PELLUCID_CHECK(t.defined(), ValueError,
                       "index: an undefined tensor cannot be an index; use None for a new dim.");
        if (is_integer_tensor(t)) {
          s.view = s.view.select(dim, t.item<int64_t>());
        } else if (t.dim() == 0 && (t.dtype() == kBool || t.dtype() == kUInt8)) {
          s.view = s.view.unsqueeze(dim);
          s.select(dim++, mask_of(t.item<bool>()));
        } else {
          s.select(dim, t);
          dim += dims_taken(i);
        }
        break;
      }
    }
  }
  return s;
}

// A value may have leading dims of size 1 more than what it is written to.
Tensor without_leading_ones(const Tensor& value) {
  Tensor v = value;
  while (v.dim() > 0 && v.size(0) == 1) v = v.squeeze(0);
  return v;
}

void assign(const Tensor& self, ArrayRef<TensorIndex> entries, const Tensor& value) {
  const Sliced s = apply_slicing(self, entries);
  if (s.advanced)
    s.view.index_put_(TensorList(s.indices), without_leading_ones(value));
  else
    s.view.copy_(without_leading_ones(value));
}

}  // namespace

Tensor Tensor::index(ArrayRef<TensorIndex> entries) const {
  Sliced s = apply_slicing(*this, entries);
  if (s.advanced) return s.view.index(TensorList(s.indices));
  return s.view.is_same(*this) ? alias() : s.view;
}

Tensor Tensor::index(std::initializer_list<TensorIndex> entries) const {
  return index(ArrayRef<TensorIndex>(entries.begin(), entries.size()));
}

const Tensor& Tensor::index_put_(ArrayRef<TensorIndex> entries, const Tensor& values) const {
  assign(*this, entries, values);
  return *this;
}

const Tensor& Tensor::index_put_(ArrayRef<TensorIndex> entries, const Scalar& value) const {
  assign(*this, entries, full({}, value, dtype()));
  return *this;
}

const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> entries,
                                 const Tensor& values) const {
  return index_put_(ArrayRef<TensorIndex>(entries.begin(), entries.size()), values);
}

const Tensor& Tensor::index_put_(std::initializer_list<TensorIndex> entries,
                                 const Scalar& value) const {
  return index_put_(ArrayRef<TensorIndex>(entries.begin(), entries.size()), value);
}

Tensor Tensor::operator[](int64_t i) const { return select(0, i); }

Tensor Tensor::operator[](const Scalar& i) const {
  PELLUCID_CHECK(i.isIntegral(), IndexError, "operator[]: the index must be an integer, found {}.",
                 i);
  return select(0, i.toLong());
}

Tensor Tensor::operator[](const Tensor& i) const { return index({TensorIndex(i)}); }

}  // namespace pellucid
