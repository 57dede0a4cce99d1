#include "view_dtype.h"

#include "pellucid/ops.h"

namespace pellucid::python {
namespace {

// Elements become `ratio` times as many, each a part of what it was.
void split(detail::TensorImpl& made, int64_t ratio) {
  for (int64_t& step : made.strides) step *= ratio;
  made.strides.back() = 1;
  made.sizes.back() *= ratio;
  made.offset *= ratio;
}

void join(detail::TensorImpl& made, int64_t ratio, const Tensor& t, DType to) {
  bool fits = made.sizes.back() % ratio == 0 && made.offset % ratio == 0;
  for (size_t d = 0; d + 1 < made.strides.size(); ++d) fits = fits && made.strides[d] % ratio == 0;
  PELLUCID_CHECK(
      fits, ShapeError,
      "view: {} elements of {} in a row, strides and offset must be whole elements of {} "
      "(sizes {}, strides {}, offset {}); clone() first.",
      ratio, t.dtype(), to, t.sizes(), t.strides(), t.storage_offset());
  for (int64_t& step : made.strides) step /= ratio;
  made.strides.back() = 1;
  made.sizes.back() /= ratio;
  made.offset /= ratio;
}

}  // namespace

Tensor view_bytes_as(const Tensor& t, DType to) {
  if (to == t.dtype()) return t.view(t.sizes());
  const auto from_size = static_cast<int64_t>(element_size(t.dtype())),
             to_size = static_cast<int64_t>(element_size(to));
  const IntArrayRef strides = t.strides();  // a layout that an op chose becomes row-major here
  PELLUCID_CHECK(from_size == to_size || (t.dim() > 0 && strides.back() == 1), ShapeError,
                 "view: elements of {} can be seen as {} only where the last dim lies in one piece "
                 "(sizes {}, strides {}); call contiguous() first.",
                 t.dtype(), to, t.sizes(), strides);
  auto made = detail::alias_impl(t.impl());
  made->dtype = to;
  if (from_size > to_size) split(*made, from_size / to_size);
  if (from_size < to_size) join(*made, to_size / from_size, t, to);
  made->numel = 1;
  for (const int64_t n : made->sizes) made->numel *= n;
  return Tensor(std::move(made));
}

}  // namespace pellucid::python
