// What the families of index ops share: checks of index tensors, and writing into a copy of self or
// self itself.
#pragma once

#include "ops/common.h"

namespace pellucid {

/// An index must be int64, or int32, which is converted.
void check_index_dtype(const Call& c, const Tensor& index);
/// The index as int64, all of it in [0, limit) or, with `wrap`, in [-limit, limit); throws
/// IndexError.
Tensor checked_index(const Call& c, const Tensor& index, int64_t limit, bool wrap);
/// Unless the call is in place: copies self to output 0.
void start_from_self(const Call& c);
/// Copies between tensors of equal sizes, of any strides.
void copy_values(const Tensor& to, const Tensor& from);
/// An int64 vector, for samples.
Tensor index_vector(std::initializer_list<int64_t> values);

/// Sizes and strides of a tensor without dimensions are those of one with one element.
inline Dims sizes_1d(const Tensor& t) { return t.dim() == 0 ? Dims{1} : Dims(t.sizes()); }
inline Dims strides_1d(const Tensor& t) { return t.dim() == 0 ? Dims{1} : Dims(t.raw_strides()); }

/// Calls f with t if it is row-major, else with a row-major copy that is written back.
template <class F> void with_contiguous(const Tensor& t, F&& f) {
  const Tensor dense = contiguous_values(t);
  f(dense);
  if (!dense.is_same(t)) copy_values(t, dense);
}

}  // namespace pellucid
