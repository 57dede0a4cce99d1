// Checks and copies of the index ops.
#include <algorithm>

#include "kernels/copy.h"
#include "kernels/index.h"
#include "ops/index.h"
#include "pellucid/ops.h"

namespace pellucid {

void check_index_dtype(const Call& c, const Tensor& index) {
  PELLUCID_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32, TypeError,
                 "{}: index must be int64 or int32, found {}. Convert it with .to(kInt64).",
                 c.name(), index.dtype());
}

Tensor checked_index(const Call& c, const Tensor& index, int64_t limit, bool wrap) {
  const Tensor wide = contiguous_values(index.to(kInt64));
  const int64_t n = wide.numel();
  const int64_t bad = kernels::first_bad_index(wide.raw<int64_t>(), {n}, {1}, limit, wrap);
  if (bad >= 0) {
    // Ops without a dim argument index dim 0.
    const int64_t dim =
        !c.attrs().empty() && c.attr(0).kind() == Attr::Kind::Int && c.in(0).dim() > 0
            ? c.integer(0)
            : 0;
    detail::raise<IndexError>(
        "{}: index {} is out of bounds for dimension {} with size {} (self {}).", c.name(),
        wide.raw<int64_t>()[bad], dim, limit, c.in(0).sizes());
  }
  return wide;
}

void copy_values(const Tensor& to, const Tensor& from) {
  kernels::copy_strided(to.sizes(), to.raw_data(), to.dtype(), to.raw_strides().data(),
                        from.raw_data(), from.dtype(), from.raw_strides().data());
}

void start_from_self(const Call& c) {
  if (!c.in_place() && c.out().numel() > 0) copy_values(c.out(), c.in(0));
}

Tensor index_vector(std::initializer_list<int64_t> values) {
  const Tensor t = empty({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), t.raw<int64_t>());
  return t;
}

}  // namespace pellucid
