// Views: ops whose result looks at the storage of their input. infer computes sizes, strides and
// offset, and the dispatcher shares the storage; there are no kernels. Other shape ops are
// compositions of these (shape.cpp).
#include <algorithm>

#include "base/parallel.h"
#include "core/vjp_tools.h"
#include "kernels/copy.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {
namespace {

Cost free_of_charge(const Call&) { return {}; }

// The strides that let `self` be seen with sizes `to` without copying, or nothing.
std::optional<Dims> strides_for_view(const detail::TensorImpl& self, IntArrayRef to) {
  if (self.numel == 0) return detail::contiguous_strides(to);
  Dims strides(to.size(), 1);
  // Walk from the end over chunks of input dims that are contiguous among themselves.
  int64_t view_d = static_cast<int64_t>(to.size()) - 1;
  int64_t chunk_stride = self.strides.empty() ? 1 : self.strides.back();
  int64_t tensor_numel = 1, view_numel = 1;
  for (int64_t d = static_cast<int64_t>(self.sizes.size()) - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    tensor_numel *= self.sizes[i];
    const bool chunk_ends =
        d == 0 || (self.sizes[i - 1] != 1 && self.strides[i - 1] != tensor_numel * chunk_stride);
    if (!chunk_ends) continue;
    while (view_d >= 0 && (view_numel < tensor_numel || to[static_cast<size_t>(view_d)] == 1)) {
      strides[static_cast<size_t>(view_d)] = view_numel * chunk_stride;
      view_numel *= to[static_cast<size_t>(view_d)];
      --view_d;
    }
    if (view_numel != tensor_numel) return std::nullopt;
    if (d > 0) {
      chunk_stride = self.strides[i - 1];
      tensor_numel = 1;
      view_numel = 1;
    }
  }
  if (view_d >= 0 && self.sizes.empty())
    while (view_d >= 0) strides[static_cast<size_t>(view_d--)] = 1;
  if (view_d != -1) return std::nullopt;
  return strides;
}

// Replaces one -1 by what is left over.
Dims complete_sizes(std::string_view op, IntArrayRef sizes, const Tensor& self) {
  Dims out(sizes);
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1) {
      PELLUCID_CHECK(unknown < 0, ValueError, "{}: only one size can be -1, found {}.", op, sizes);
      unknown = static_cast<int64_t>(i);
    } else {
      PELLUCID_CHECK(out[i] >= 0, ShapeError, "{}: sizes must be -1 or not negative, found {}.", op,
                     sizes);
      PELLUCID_CHECK(!__builtin_mul_overflow(known, out[i], &known), ValueError,
                     "{}: sizes {} pass 2^63 - 1 elements.", op, sizes);
    }
  }
  if (unknown >= 0) {
    PELLUCID_CHECK(known != 0, ShapeError,
                   "{}: with a size of 0 the size -1 in {} could be anything.", op, sizes);
    PELLUCID_CHECK(self.numel() % known == 0, ShapeError,
                   "{}: {} elements (sizes {}) cannot be seen as sizes {}.", op, self.numel(),
                   self.sizes(), sizes);
    out[static_cast<size_t>(unknown)] = self.numel() / known;
  }
  int64_t total = 1;
  for (int64_t s : out) total *= s;
  PELLUCID_CHECK(total == self.numel(), ShapeError,
                 "{}: {} elements (sizes {}) cannot be seen as sizes {}.", op, self.numel(),
                 self.sizes(), sizes);
  return out;
}

void infer_view(Call& c) {
  check_defined(c, 0, "self");
  const Tensor& self = c.in(0);
  const Dims sizes = complete_sizes("view", c.ints(0), self);
  const auto strides = strides_for_view(self.impl(), sizes);
  PELLUCID_CHECK(
      strides, ShapeError,
      "view: sizes {} with strides {} cannot be seen as {} without copying. Use reshape().",
      self.sizes(), self.strides(), sizes);
  c.make_view(sizes, *strides, self.impl().offset);
}

void infer_expand(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const IntArrayRef to = c.ints(0);
  PELLUCID_CHECK(to.size() >= self.sizes.size(), ShapeError,
                 "expand: {} sizes were given for a tensor of {} dimensions (sizes {}).", to.size(),
                 self.sizes.size(), self.sizes);
  Dims sizes(to), strides(to.size(), 0);
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t from_end = to.size() - i;
    if (from_end > self.sizes.size()) {
      PELLUCID_CHECK(to[i] >= 0, ShapeError,
                     "expand: the new leading dimension {} cannot have size {}.", i, to[i]);
      continue;
    }
    const size_t d = self.sizes.size() - from_end;
    if (to[i] == -1 || to[i] == self.sizes[d]) {
      sizes[i] = self.sizes[d];
      strides[i] = self.strides[d];
    } else {
      PELLUCID_CHECK(self.sizes[d] == 1, ShapeError,
                     "expand: size {} at dimension {} cannot become {}; only size 1 is repeated "
                     "(sizes {} to {}).",
                     self.sizes[d], d, to[i], self.sizes, to);
    }
  }
  c.make_view(sizes, strides, self.offset);
}

void infer_permute(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const IntArrayRef dims = c.ints(0);
  PELLUCID_CHECK(dims.size() == self.sizes.size(), ShapeError,
                 "permute: {} dims were given for a tensor of {} dimensions.", dims.size(),
                 self.sizes.size());
  Dims sizes, strides, seen(dims.size(), 0);
  for (int64_t d : dims) {
    const auto w = static_cast<size_t>(wrap_dim("permute", d, static_cast<int64_t>(dims.size())));
    PELLUCID_CHECK(seen[w]++ == 0, ValueError, "permute: dim {} appears more than once in {}.", d,
                   dims);
    sizes.push_back(self.sizes[w]);
    strides.push_back(self.strides[w]);
  }
  c.make_view(sizes, strides, self.offset);
}

Tensors permute_vjp(const Vjp& v) {
  const IntArrayRef dims = v.ints(0);
  Dims inverse(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<size_t>(wrap_dim("permute", dims[i], static_cast<int64_t>(dims.size())))] =
        static_cast<int64_t>(i);
  return {v.grad.permute(inverse)};
}

struct SliceBounds {
  int64_t dim, start, length, step;
};

SliceBounds slice_bounds(const AttrReader& a, IntArrayRef sizes) {
  PELLUCID_CHECK(!sizes.empty(), IndexError, "slice: a 0-dimensional tensor has nothing to slice.");
  SliceBounds b{};
  b.dim = wrap_dim("slice", a.integer(0), static_cast<int64_t>(sizes.size()));
  b.step = a.integer(3);
  PELLUCID_CHECK(b.step > 0, ValueError,
                 "slice: the step must be positive, found {}. Use flip() for the other direction.",
                 b.step);
  const int64_t n = sizes[static_cast<size_t>(b.dim)];
  b.step = std::min(b.step, std::max<int64_t>(n, 1));  // a longer one takes the same elements
  const auto clip = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  b.start = a.has_attr(1) ? clip(a.integer(1)) : 0;
  const int64_t end = std::max(a.has_attr(2) ? clip(a.integer(2)) : n, b.start);
  b.length = (end - b.start) / b.step + ((end - b.start) % b.step != 0);
  return b;
}

void infer_slice(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const SliceBounds b = slice_bounds(c, self.sizes);
  const auto d = static_cast<size_t>(b.dim);
  Dims sizes(self.sizes), strides(self.strides);
  sizes[d] = b.length;
  strides[d] = b.length > 1 ? self.strides[d] * b.step : self.strides[d];
  c.make_view(sizes, strides, self.offset + b.start * self.strides[d]);
}

Tensors slice_vjp(const Vjp& v) {
  const SliceBounds b = slice_bounds(v, v.in_sizes(0));
  const auto add_slice = [&](const Tensor& sum) {
    sum.slice(b.dim, b.start, b.start + b.length * b.step, b.step).add_(v.grad);
  };
  if (b.length > 0 && tape::add_to_gradient(0, add_slice)) return {Tensor()};
  const Dims whole = detail::contiguous_strides(v.in_sizes(0));
  Dims part = whole;
  const auto d = static_cast<size_t>(b.dim);
  part[d] = whole[d] * b.step;
  return {as_strided_backward(v.grad, v.in_sizes(0), whole, 0, part, b.start * whole[d])};
}

int64_t select_index(const AttrReader& a, IntArrayRef sizes, int64_t dim) {
  const int64_t n = sizes[static_cast<size_t>(dim)], i = a.integer(1);
  PELLUCID_CHECK(i >= -n && i < n, IndexError,
                 "select: index {} is out of range for dimension {} of size {} (sizes {}).", i, dim,
                 n, sizes);
  return i < 0 ? i + n : i;
}

void infer_select(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  PELLUCID_CHECK(!self.sizes.empty(), IndexError,
                 "select: a 0-dimensional tensor cannot be indexed; use item().");
  const int64_t dim = wrap_dim("select", c.integer(0), static_cast<int64_t>(self.sizes.size()));
  const int64_t i = select_index(c, self.sizes, dim);
  Dims sizes(self.sizes), strides(self.strides);
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  c.make_view(sizes, strides, self.offset + i * self.strides[static_cast<size_t>(dim)]);
}

Tensors select_vjp(const Vjp& v) {
  const int64_t dim = wrap_dim("select", v.integer(0), static_cast<int64_t>(v.in_sizes(0).size()));
  const auto add_slice = [&](const Tensor& sum) { sum.select(dim, v.integer(1)).add_(v.grad); };
  if (tape::add_to_gradient(0, add_slice)) return {Tensor()};
  const Dims whole = detail::contiguous_strides(v.in_sizes(0));
  const int64_t offset = select_index(v, v.in_sizes(0), dim) * whole[static_cast<size_t>(dim)];
  Dims part = whole;
  part.erase(static_cast<size_t>(dim));
  return {as_strided_backward(v.grad, v.in_sizes(0), whole, 0, part, offset)};
}

struct DiagonalGeometry {
  Dims sizes, strides;
  int64_t offset;
};

DiagonalGeometry diagonal_geometry(const AttrReader& a, IntArrayRef sizes, IntArrayRef strides) {
  const auto n = static_cast<int64_t>(sizes.size());
  PELLUCID_CHECK(n >= 2, ShapeError, "diagonal: at least 2 dimensions are needed, found sizes {}.",
                 sizes);
  const int64_t shift = a.integer(0), d1 = wrap_dim("diagonal", a.integer(1), n),
                d2 = wrap_dim("diagonal", a.integer(2), n);
  PELLUCID_CHECK(d1 != d2, ValueError, "diagonal: dim1 and dim2 are both {}.", d1);
  const auto i1 = static_cast<size_t>(d1), i2 = static_cast<size_t>(d2);
  const int64_t length = std::max<int64_t>(0, shift >= 0 ? std::min(sizes[i1], sizes[i2] - shift)
                                                         : std::min(sizes[i1] + shift, sizes[i2]));
  DiagonalGeometry g{{},
                     {},
                     length == 0  ? 0
                     : shift >= 0 ? shift * strides[i2]
                                  : -shift * strides[i1]};
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != i1 && i != i2) {
      g.sizes.push_back(sizes[i]);
      g.strides.push_back(strides[i]);
    }
  g.sizes.push_back(length);
  g.strides.push_back(strides[i1] + strides[i2]);
  return g;
}

void infer_diagonal(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const DiagonalGeometry g = diagonal_geometry(c, self.sizes, self.strides);
  c.make_view(g.sizes, g.strides, self.offset + g.offset);
}

Tensors diagonal_vjp(const Vjp& v) {
  const Dims whole = detail::contiguous_strides(v.in_sizes(0));
  const DiagonalGeometry g = diagonal_geometry(v, v.in_sizes(0), whole);
  return {as_strided_backward(v.grad, v.in_sizes(0), whole, 0, g.strides, g.offset)};
}

void infer_squeeze(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const Dims dims = wrap_dims("squeeze", c.ints(0), static_cast<int64_t>(self.sizes.size()), false);
  Dims sizes, strides;
  for (size_t i = 0; i < self.sizes.size(); ++i) {
    const bool listed = std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) != dims.end();
    if (listed && self.sizes[i] == 1) continue;
    sizes.push_back(self.sizes[i]);
    strides.push_back(self.strides[i]);
  }
  c.make_view(sizes, strides, self.offset);
}

Tensors reshape_vjp(const Vjp& v) { return {v.grad.reshape(v.in_sizes(0))}; }

void infer_unsqueeze(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const auto n = static_cast<int64_t>(self.sizes.size());
  const auto d = static_cast<size_t>(wrap_dim("unsqueeze", c.integer(0), n + 1));
  Dims sizes(self.sizes), strides(self.strides);
  int64_t stride = 1;
  if (d < self.sizes.size() && __builtin_mul_overflow(self.sizes[d], self.strides[d], &stride))
    stride = 0;  // only an empty tensor gets here
  sizes.insert(d, 1);
  strides.insert(d, stride);
  c.make_view(sizes, strides, self.offset);
}

// First and last element that a geometry touches; beyond 2^62 it is 2^62.
std::pair<int64_t, int64_t> extent(IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  __int128 low = offset, high = offset;
  for (size_t i = 0; i < sizes.size(); ++i)
    (strides[i] < 0 ? low : high) += static_cast<__int128>(sizes[i] - 1) * strides[i];
  constexpr __int128 kMost = int64_t{1} << 62;
  return {static_cast<int64_t>(std::max(low, -kMost)), static_cast<int64_t>(std::min(high, kMost))};
}

bool empty_sizes(IntArrayRef sizes) {
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

void infer_as_strided(Call& c) {
  check_defined(c, 0, "self");
  const detail::TensorImpl& self = c.in(0).impl();
  const IntArrayRef sizes = c.ints(0), strides = c.ints(1);
  const int64_t offset = c.integer(2);
  PELLUCID_CHECK(sizes.size() == strides.size(), ShapeError,
                 "as_strided: {} sizes but {} strides were given.", sizes.size(), strides.size());
  PELLUCID_CHECK(offset >= 0, ValueError,
                 "as_strided: the storage offset must not be negative, found {}.", offset);
  detail::checked_numel(sizes);
  for (int64_t s : strides)
    PELLUCID_CHECK(s >= 0, ValueError, "as_strided: strides must not be negative, found {}.",
                   strides);
  if (!empty_sizes(sizes) && self.storage) {
    __int128 last = offset;
    for (size_t i = 0; i < sizes.size(); ++i)
      last += static_cast<__int128>(sizes[i] - 1) * strides[i];
    const auto held = static_cast<__int128>(self.storage->bytes) / element_size(self.dtype);
    PELLUCID_CHECK(
        last < held, IndexError,
        "as_strided: sizes {}, strides {} and offset {} reach beyond the storage of {} elements.",
        sizes, strides, offset, static_cast<int64_t>(held));
  }
  c.make_view(sizes, strides, offset);
}

// Adds (or, without overlap, copies) the gradient into a zeroed run of memory along the view's
// geometry, then reads that memory along the input's. Attributes: input_sizes, input_stride,
// input_offset, stride, offset.
void infer_as_strided_backward(Call& c) {
  check_defined(c, 0, "grad_output");
  PELLUCID_CHECK(c.ints(0).size() == c.ints(1).size() && c.ints(3).size() == c.in(0).sizes().size(),
                 ShapeError,
                 "as_strided_backward: input_sizes {} and input_stride {} must be as long as each "
                 "other, and stride {} as the sizes {}.",
                 c.ints(0), c.ints(1), c.ints(3), c.in(0).sizes());
  check_floating(c, c.in(0), "grad_output");
  if (!empty_sizes(c.in(0).sizes())) {
    const auto [low, high] = extent(c.in(0).sizes(), c.ints(3), c.integer(4));
    PELLUCID_CHECK(low >= 0 && high < (int64_t{1} << 48), ValueError,
                   "as_strided_backward: stride {} and offset {} reach outside memory.", c.ints(3),
                   c.integer(4));
  }
  if (!empty_sizes(c.ints(0))) {
    const auto [low, high] = extent(c.ints(0), c.ints(1), c.integer(2));
    PELLUCID_CHECK(low >= 0 && high < (int64_t{1} << 48), ValueError,
                   "as_strided_backward: input_stride {} and input_offset {} reach outside memory.",
                   c.ints(1), c.integer(2));
  }
  const bool plain = c.ints(1) == detail::contiguous_strides(c.ints(0)).ref() && c.integer(2) == 0;
  if (plain && !empty_sizes(c.in(0).sizes())) {
    const int64_t elements = detail::checked_numel(c.ints(0));
    PELLUCID_CHECK(
        extent(c.in(0).sizes(), c.ints(3), c.integer(4)).second < elements, ValueError,
        "as_strided_backward: stride {} and offset {} reach beyond the {} elements of the input.",
        c.ints(3), c.integer(4), elements);
  }
  c.make_output(c.ints(0), c.in(0).dtype());
}

bool may_overlap(IntArrayRef sizes, IntArrayRef strides) {
  std::vector<std::pair<int64_t, int64_t>> order;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1) order.emplace_back(strides[i], sizes[i]);
  std::sort(order.begin(), order.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : order) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

template <class T>
void scatter_add(IntArrayRef sizes, IntArrayRef strides, int64_t offset, const Tensor& grad,
                 T* memory) {
  const Tensor dense = contiguous_values(grad);
  const T* from = dense.raw<T>();
  Dims index(sizes.size(), 0);
  for (int64_t n = 0, at = offset; n < dense.numel(); ++n) {
    memory[at] = static_cast<T>(memory[at] + from[n]);
    for (size_t d = sizes.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < sizes[d]) break;
      at -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }
}

void run_as_strided_backward(Call& c) {
  const Tensor& grad = c.in(0);
  const Tensor& out = c.out();
  const IntArrayRef sizes = grad.sizes(), strides = c.ints(3), in_sizes = c.ints(0),
                    in_strides = c.ints(1);
  const DType t = grad.dtype();
  const auto bytes = static_cast<size_t>(element_size(t));
  const bool plain = in_strides == detail::contiguous_strides(in_sizes).ref() && c.integer(2) == 0;
  Tensor buffer = out;
  if (!plain) {
    int64_t high = 0;
    if (!empty_sizes(in_sizes)) high = extent(in_sizes, in_strides, c.integer(2)).second + 1;
    if (!empty_sizes(sizes)) high = std::max(high, extent(sizes, strides, c.integer(4)).second + 1);
    buffer = empty({high}, t);
  }
  auto* const zeroed = static_cast<char*>(buffer.raw_data());
  parallel_for(0, static_cast<int64_t>(buffer.nbytes()), 1 << 18, [&](int64_t begin, int64_t end) {
    std::memset(zeroed + begin, 0, static_cast<size_t>(end - begin));
  });
  if (!may_overlap(sizes, strides)) {
    if (grad.numel())
      kernels::copy_strided(
          sizes, static_cast<char*>(buffer.raw_data()) + static_cast<size_t>(c.integer(4)) * bytes,
          t, strides.data(), grad.raw_data(), t, grad.raw_strides().data());
  } else {
    visit(t, [&](auto v) {
      using T = decltype(v);
      if constexpr (is_floating(dtype_of<T>))
        scatter_add<T>(sizes, strides, c.integer(4), grad, buffer.raw<T>());
    });
  }
  if (!plain && out.numel())
    kernels::copy_strided(
        in_sizes, out.raw_data(), t, out.raw_strides().data(),
        static_cast<const char*>(buffer.raw_data()) + static_cast<size_t>(c.integer(2)) * bytes, t,
        in_strides.data());
}

Tensors as_strided_backward_vjp(const Vjp& v) {
  // The same geometry forward: lay the gradient out as the input was, and look at it as the view
  // did.
  const Tensor laid = empty_strided(v.ints(0), v.ints(1), v.in_dtype(0)).copy_(v.grad);
  return {laid.as_strided(v.in_sizes(0), v.ints(3), v.integer(4) - v.integer(2))};
}

}  // namespace

extern constinit const OpDef view_op = {
    .schema = "view(Tensor(a) self, int[] size) -> Tensor(a)",
    .doc =
        "The same elements seen with other sizes; one size may be -1. Throws where that needs a "
        "copy.",
    .kind = OpKind::View,
    .infer = infer_view,
    .cost = free_of_charge,
    .vjp = reshape_vjp,
    .onnx = {"Reshape", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 6}), Value::ints({3, 4})});
      s.add({sample_randn({2, 6}), Value::ints({-1, 2, 2})});
      s.add({sample_randn({}), Value::ints({1, 1})});
      s.add({sample_randn({0, 3}), Value::ints({3, 0})});
      s.add({sample_randn({4, 3, 2}).permute({1, 0, 2}), Value::ints({3, 2, 2, 2})});
      s.error({sample_randn({2, 3}), Value::ints({4, 2})},
              "6 elements (sizes [2, 3]) cannot be seen as sizes [4, 2]");
      s.error({sample_randn({2, 3}).permute({1, 0}), Value::ints({6})}, "Use reshape()");
      s.error({sample_randn({2, 3}), Value::ints({-1, -1})}, "only one size can be -1");
    }};

extern constinit const OpDef expand_op = {
    .schema = "expand(Tensor(a) self, int[] size) -> Tensor(a)",
    .doc = "Repeats dimensions of size 1 to the given sizes without copying; -1 keeps a size.",
    .kind = OpKind::View,
    .infer = infer_expand,
    .cost = free_of_charge,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
    .onnx = {"Expand", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 1}), Value::ints({2, 3})});
          s.add({sample_randn({1, 3}), Value::ints({4, 2, -1})});
          s.add({sample_randn({}), Value::ints({2, 2})});
          s.error({sample_randn({2, 3}), Value::ints({2, 4})}, "only size 1 is repeated");
          s.error({sample_randn({2, 3}), Value::ints({3})},
                  "1 sizes were given for a tensor of 2 dimensions");
        }};

extern constinit const OpDef permute_op = {
    .schema = "permute(Tensor(a) self, int[] dims) -> Tensor(a)",
    .doc = "The dimensions in another order: result.size(i) = self.size(dims[i]).",
    .kind = OpKind::View,
    .infer = infer_permute,
    .cost = free_of_charge,
    .vjp = permute_vjp,
    .onnx = {"Transpose", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3, 4}), Value::ints({2, 0, 1})});
      s.add({sample_randn({2, 3}), Value::ints({-1, 0})});
      s.add({sample_randn({}), Value::ints({})});
      s.error({sample_randn({2, 3}), Value::ints({0, 0})}, "appears more than once");
      s.error({sample_randn({2, 3}), Value::ints({0})},
              "1 dims were given for a tensor of 2 dimensions");
      s.error({sample_randn({2, 3}), Value::ints({0, 5})}, "dim 5 is out of range");
    }};

extern constinit const OpDef slice_op = {
    .schema =
        "slice(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)",
    .doc = "self[start:end:step] along one dimension.",
    .kind = OpKind::View,
    .infer = infer_slice,
    .cost = free_of_charge,
    .vjp = slice_vjp,
    .onnx = {"Slice", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({5, 3}), 0, 1, 4, 2});
      s.add({sample_randn({2, 6}), 1, -4, Value(), 1});
      s.add({sample_randn({3, 4}), -1, 2, 1, 1});
      s.add({sample_randn({4}), 0, 1, 100});
      s.error({sample_randn({3}), 0, 0, 2, 0}, "the step must be positive");
      s.error({sample_randn({3}), 1}, "dim 1 is out of range");
      s.error({sample_randn({}), 0}, "0-dimensional");
    }};

extern constinit const OpDef select_op = {
    .schema = "select(Tensor(a) self, int dim, int index) -> Tensor(a)",
    .doc = "The slice at one index of one dimension, which disappears.",
    .kind = OpKind::View,
    .infer = infer_select,
    .cost = free_of_charge,
    .vjp = select_vjp,
    .onnx = {"Gather", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({3, 4}), 0, 1});
      s.add({sample_randn({3, 4}), 1, -1});
      s.add({sample_randn({3}), 0, 2});
      s.error({sample_randn({3, 4}), 0, 3}, "index 3 is out of range for dimension 0 of size 3");
      s.error({sample_randn({}), 0, 0}, "0-dimensional");
    }};

extern constinit const OpDef diagonal_op = {
    .schema = "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
    .doc =
        "The elements where the indices of dim1 and dim2 differ by offset, as the last dimension.",
    .kind = OpKind::View,
    .infer = infer_diagonal,
    .cost = free_of_charge,
    .vjp = diagonal_vjp,
    .samples = [](Samples& s) {
      s.add({sample_randn({3, 4})});
      s.add({sample_randn({2, 3, 4}), 1, 1, 2});
      s.add({sample_randn({4, 3}), -2});
      s.add({sample_randn({3, 3}), 5});
      s.error({sample_randn({3})}, "at least 2 dimensions");
      s.error({sample_randn({3, 3}), 0, 1, 1}, "dim1 and dim2 are both 1");
    }};

extern constinit const OpDef squeeze_dims_op = {
    .schema = "squeeze[_].dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    .doc = "Without those of the given dimensions that have size 1.",
    .kind = OpKind::View,
    .infer = infer_squeeze,
    .cost = free_of_charge,
    .vjp = reshape_vjp,
    .onnx = {"Squeeze", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({1, 3, 1}), Value::ints({0, 2})});
      s.add({sample_randn({1, 3}), Value::ints({1})});
      s.add({sample_randn({}), Value::ints({})});
      s.error({sample_randn({1, 3}), Value::ints({2})}, "dim 2 is out of range");
    }};

extern constinit const OpDef unsqueeze_op = {
    .schema = "unsqueeze[_](Tensor(a) self, int dim) -> Tensor(a)",
    .doc = "With a new dimension of size 1 at dim.",
    .kind = OpKind::View,
    .infer = infer_unsqueeze,
    .cost = free_of_charge,
    .vjp = reshape_vjp,
    .onnx = {"Unsqueeze", 13},
    .samples = [](Samples& s) {
      s.add({sample_randn({2, 3}), 0});
      s.add({sample_randn({2, 3}), -1});
      s.add({sample_randn({}), 0});
      s.error({sample_randn({2, 3}), 3}, "dim 3 is out of range");
    }};

extern constinit const OpDef detach_op = {.schema = "detach(Tensor(a) self) -> Tensor(a)",
                                          .doc = "The same values, cut from their history.",
                                          .kind = OpKind::View,
                                          .infer =
                                              [](Call& c) {
                                                check_defined(c, 0, "self");
                                                c.make_view(c.in(0).sizes(), c.in(0).raw_strides(),
                                                            c.in(0).impl().offset);
                                              },
                                          .cost = free_of_charge,
                                          .vjp = no_gradient,
                                          .samples =
                                              [](Samples& s) {
                                                s.add({sample_randn({2, 3})});
                                              }};

extern constinit const OpDef alias_op = {.schema = "alias(Tensor(a) self) -> Tensor(a)",
                                         .doc = "A view of the whole tensor.",
                                         .kind = OpKind::View,
                                         .infer =
                                             [](Call& c) {
                                               check_defined(c, 0, "self");
                                               c.make_view(c.in(0).sizes(), c.in(0).raw_strides(),
                                                           c.in(0).impl().offset);
                                             },
                                         .cost = free_of_charge,
                                         .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
                                         .samples =
                                             [](Samples& s) {
                                               s.add({sample_randn({2, 3})});
                                             }};

extern constinit const OpDef as_strided_view_op = {
    .schema =
        "as_strided_view(Tensor(a) self, int[] size, int[] stride, int storage_offset, int[] "
        "self_stride, int self_offset) -> Tensor(a)",
    .doc = "as_strided with the geometry of self given too, which the gradient needs.",
    .kind = OpKind::View,
    .infer = infer_as_strided,
    .cost = free_of_charge,
    .vjp = [](const Vjp& v) -> Tensors {
      return {as_strided_backward(v.grad, v.in_sizes(0), v.ints(3), v.integer(4), v.ints(1),
                                  v.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), Value::ints({2, 2}), Value::ints({4, 1}), 1,
                 Value::ints({4, 1}), 0});
          s.error({sample_randn({3, 4}), Value::ints({2}), Value::ints({4, 1}), 1,
                   Value::ints({4, 1}), 0},
                  "1 sizes but 2 strides");
        }};

extern constinit const OpDef as_strided_op = {
    .schema =
        "as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> "
        "Tensor(a)",
    .doc = "The storage of self seen with any sizes, strides and offset that stay inside it.",
    .kind = OpKind::View,
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      return {as_strided_view(self, c.ints(0), c.ints(1),
                              c.has_attr(2) ? c.integer(2) : self.storage_offset(), self.strides(),
                              self.storage_offset())};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), Value::ints({2, 2}), Value::ints({4, 1})});
          s.add({sample_randn({10}), Value::ints({4, 3}), Value::ints({2, 1}), 1});
          s.add(
              {sample_randn({3, 4}).permute({1, 0}), Value::ints({2, 2}), Value::ints({1, 1}), 2});
          s.error({sample_randn({3, 4}), Value::ints({4, 4}), Value::ints({4, 1})},
                  "reach beyond the storage of 12 elements");
          s.error({sample_randn({3, 4}), Value::ints({2}), Value::ints({-1})},
                  "strides must not be negative");
        }};

extern constinit const OpDef as_strided_backward_op = {
    .schema =
        "as_strided_backward(Tensor grad_output, int[] input_sizes, int[] input_stride, int "
        "input_offset, int[] stride, int offset) -> Tensor",
    .doc = "The gradient of a strided view: grad_output added into zeros where the view looked.",
    .kind = OpKind::Index,
    .infer = infer_as_strided_backward,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_as_strided_backward,
    .vjp = as_strided_backward_vjp,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2}), Value::ints({3, 4}), Value::ints({4, 1}), 0,
                 Value::ints({4, 1}), 1});
          s.add({sample_randn({4, 3}), Value::ints({10}), Value::ints({1}), 0, Value::ints({2, 1}),
                 1});
          s.add({sample_randn({2, 2}), Value::ints({4, 3}), Value::ints({1, 4}), 0,
                 Value::ints({4, 1}), 1});
          s.error({sample_randn({2}), Value::ints({3}), Value::ints({1}), 0, Value::ints({4}), 1},
                  "reach beyond the 3 elements");
          s.error({sample_randn({2}), Value::ints({3}), Value::ints({}), 0, Value::ints({4}), 1},
                  "must be as long as each other");
        }};

extern constinit const OpDef reshape_op = {
    .schema = "reshape(Tensor(a) self, int[] shape) -> Tensor(a)",
    .doc = "The same elements with other sizes: a view where strides allow, a copy otherwise.",
    .kind = OpKind::View,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const Tensor& self = c.in(0);
      self.expose();
      const Dims sizes = complete_sizes("reshape", c.ints(0), self);
      if (strides_for_view(self.impl(), sizes)) return {self.view(sizes)};
      return {self.clone(MemoryFormat::Contiguous).view(sizes)};
    },
    .onnx = {"Reshape", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 6}), Value::ints({3, -1})});
          s.add({sample_randn({2, 3}).permute({1, 0}), Value::ints({6})});
          s.error({sample_randn({2, 3}), Value::ints({5})}, "cannot be seen as sizes [5]");
        }};

}  // namespace pellucid
