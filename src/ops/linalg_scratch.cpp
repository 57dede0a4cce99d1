// What the kernels of matrix products take for themselves, for ops' `scratch`: packed operands
// and copies of those whose strides BLAS cannot read.
#include <algorithm>

#include "ops/linalg.h"
#include "pellucid/parallel.h"

namespace pellucid {
namespace {

// The last two dimensions without their data: an estimate's tensors have none.
template <class T> kernels::MatrixView<const T> layout_of(const Tensor& t) {
  const IntArrayRef strides = t.raw_strides();
  return {nullptr, strides[strides.size() - 2], strides[strides.size() - 1]};
}

}  // namespace

int64_t matrices_scratch(const Tensor& a, const Tensor& b, int64_t count) {
  const int64_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  int64_t bytes = 0;
  visit(a.dtype(), [&](auto v) {
    using T = decltype(v);
    bytes = kernels::gemm_scratch<T>(m, n, k, layout_of<T>(a), layout_of<T>(b));
  });
  // Small products run side by side; the tasks of a large one do.
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return bytes * (work < kernels::kTaskWork ? std::min<int64_t>(count, get_num_threads()) : 1);
}

int64_t product_scratch(const Call& c) {
  const int64_t matrix = std::max<int64_t>(c.out().size(-1) * c.out().size(-2), 1);
  return matrices_scratch(c.in(0), c.in(1), c.out().numel() / matrix);
}

int64_t rows_scratch(const Tensor& rows, const Tensor& weight, int64_t count) {
  int64_t bytes = 0;
  visit(rows.dtype(), [&](auto v) {
    using T = decltype(v);
    const int64_t k = weight.size(-1);
    bytes = kernels::gemm_scratch<T>(
        count, weight.dim() == 2 ? weight.size(0) : 1, k,
        {nullptr, row_step(rows), rows.raw_strides().back()},
        {nullptr, weight.raw_strides().back(), weight.dim() == 2 ? weight.raw_strides()[0] : 1});
  });
  return bytes;
}

}  // namespace pellucid
