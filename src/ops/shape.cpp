// Views that rearrange or drop dims, and the compositions over them. The primitive views (view,
// as_strided, permute, slice, select, squeeze.dims…) are in view.cpp, joining and splitting in
// shape_join.cpp, what moves values in shape_move.cpp.
#include <numeric>

#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

Cost no_cost(const Call&) { return {}; }

void infer_swapped(Call& c, int64_t a, int64_t b) {
  Dims sizes(c.in(0).sizes()), strides(c.in(0).raw_strides());
  if (!sizes.empty()) {
    std::swap(sizes[static_cast<size_t>(a)], sizes[static_cast<size_t>(b)]);
    std::swap(strides[static_cast<size_t>(a)], strides[static_cast<size_t>(b)]);
  }
  c.make_view(sizes, strides, c.in(0).impl().offset);
}

// The order of dims that puts each source dim at its destination and keeps the others in sequence.
Dims moved_order(const Tensor& self, IntArrayRef source, IntArrayRef destination) {
  PELLUCID_CHECK(source.size() == destination.size(), ValueError,
                 "movedim: source {} and destination {} must have the same number of dims.", source,
                 destination);
  const int64_t n = self.dim();
  Dims order(static_cast<size_t>(n), -1);
  std::vector<bool> taken(static_cast<size_t>(n), false);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(wrap_dim("movedim", source[i], n));
    const auto to = static_cast<size_t>(wrap_dim("movedim", destination[i], n));
    if (n == 0) continue;
    PELLUCID_CHECK(!taken[from], ValueError, "movedim: dim {} appears more than once in source {}.",
                   source[i], source);
    PELLUCID_CHECK(order[to] < 0, ValueError,
                   "movedim: dim {} appears more than once in destination {}.", destination[i],
                   destination);
    taken[from] = true;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (size_t to = 0; to < order.size(); ++to) {
    if (order[to] >= 0) continue;
    while (taken[next]) ++next;
    order[to] = static_cast<int64_t>(next++);
  }
  return order;
}

Dims reversed_dims(int64_t n) {
  Dims order(static_cast<size_t>(n), 0);
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = n - 1 - i;
  return order;
}

// Checks dim, size and step against the sizes that windows are taken from; returns the dim.
int64_t check_windows(IntArrayRef from, int64_t dim, int64_t size, int64_t step) {
  const int64_t d = wrap_dim("unfold", dim, static_cast<int64_t>(from.size()));
  const int64_t length = from.empty() ? 1 : from[static_cast<size_t>(d)];
  PELLUCID_CHECK(
      size >= 0 && size <= length, ValueError,
      "unfold: size must be between 0 and the {} elements of dim {}, found {} (self {}).", length,
      d, size, from);
  PELLUCID_CHECK(step > 0, ValueError, "unfold: step must be at least 1, found {}.", step);
  return d;
}

void infer_unfold_backward(Call& c) {
  check_floating(c, c.in(0), "grad_in");
  const IntArrayRef to = c.ints(0);
  const int64_t d = check_windows(to, c.integer(1), c.integer(2), c.integer(3));
  Dims wanted(to);
  if (!to.empty())
    wanted[static_cast<size_t>(d)] = (to[static_cast<size_t>(d)] - c.integer(2)) / c.integer(3) + 1;
  wanted.push_back(c.integer(2));
  PELLUCID_CHECK(c.in(0).sizes() == wanted.ref(), ShapeError,
                 "unfold_backward: 'grad_in' must have sizes {}, found {}.", wanted,
                 c.in(0).sizes());
  c.make_output(to, c.in(0).dtype());
}

void infer_unfold(Call& c) {
  const Tensor& self = c.in(0);
  const int64_t size = c.integer(1), step = c.integer(2);
  const int64_t d = check_windows(self.sizes(), c.integer(0), size, step);
  const int64_t length = self.dim() == 0 ? 1 : self.size(d);
  Dims sizes(self.sizes()), strides(self.raw_strides());
  if (self.dim() == 0) {
    sizes = {size};
    strides = {1};
  } else {
    const auto k = static_cast<size_t>(d);
    sizes[k] = (length - size) / step + 1;
    sizes.push_back(size);
    strides.push_back(strides[k]);
    if (__builtin_mul_overflow(strides[k], step, &strides[k]))
      strides[k] = 0;  // of a single window, or of an empty tensor
  }
  c.make_view(sizes, strides, self.impl().offset);
}

// Sums the windows of a gradient back into the tensor they were taken from.
template <class T, class Sum>
void fold_windows(const Tensor& grad, const Tensor& out, int64_t d, int64_t step) {
  const IntArrayRef sizes = out.sizes();
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < d; ++i) outer *= sizes[static_cast<size_t>(i)];
  for (size_t i = static_cast<size_t>(d) + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const int64_t length = sizes[static_cast<size_t>(d)], windows = grad.size(d),
                size = grad.size(-1);
  const T* from = grad.raw<T>();  // [outer, windows, inner, size]
  T* to = out.raw<T>();           // [outer, length, inner]
  std::vector<Sum> sums(static_cast<size_t>(length * inner));
  for (int64_t o = 0; o < outer; ++o) {
    std::fill(sums.begin(), sums.end(), Sum(0));
    for (int64_t w = 0; w < windows; ++w)
      for (int64_t i = 0; i < inner; ++i)
        for (int64_t k = 0; k < size; ++k)
          sums[static_cast<size_t>((w * step + k) * inner + i)] +=
              static_cast<Sum>(from[((o * windows + w) * inner + i) * size + k]);
    for (size_t i = 0; i < sums.size(); ++i)
      to[static_cast<size_t>(o * length * inner) + i] = static_cast<T>(sums[i]);
  }
}

void run_unfold_backward(Call& c) {
  const Tensor grad = contiguous_values(c.in(0));
  const Tensor& out = c.out();
  if (out.dim() == 0) {  // one element, seen by no window or by one
    const double value = grad.numel() == 0 ? 0 : grad.item<double>();
    visit(out.dtype(), [&](auto t) { *out.raw<decltype(t)>() = Scalar(value).to<decltype(t)>(); });
    return;
  }
  const int64_t d = wrap_dim("unfold_backward", c.integer(1), out.dim()), step = c.integer(3);
  switch (out.dtype()) {
    case kFloat64:
      return fold_windows<double, double>(grad, out, d, step);
    case kFloat32:
      return fold_windows<float, float>(grad, out, d, step);
    case kFloat16:
      return fold_windows<Half, float>(grad, out, d, step);
    default:
      return fold_windows<BFloat16, float>(grad, out, d, step);
  }
}

}  // namespace

extern constinit const OpDef transpose_op = {
    .schema = "transpose|swapdims[_].int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
    .doc = "Exchanges two dims; a view.",
    .kind = OpKind::View,
    .infer =
        [](Call& c) {
          const int64_t n = c.in(0).dim();
          infer_swapped(c, wrap_dim("transpose", c.integer(0), n),
                        wrap_dim("transpose", c.integer(1), n));
        },
    .cost = no_cost,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.transpose(v.integer(0), v.integer(1))}; },
    .onnx = {"Transpose", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 0, 1});
          s.add({sample_randn({2, 3, 4}), -1, 0});
          s.add({sample_randn({}), 0, -1});
          s.add({sample_randn({0, 3}), 0, 1});
          s.error({sample_randn({2, 3}), 0, 2}, "dim 2 is out of range");
        },
};

extern constinit const OpDef t_op = {
    .schema = "t[_](Tensor(a) self) -> Tensor(a)",
    .doc = "The transpose of a matrix; a tensor of fewer dimensions as it is.",
    .kind = OpKind::View,
    .infer =
        [](Call& c) {
          PELLUCID_CHECK(c.in(0).dim() <= 2, ShapeError,
                         "t: a tensor of at most 2 dimensions is needed, found {} (sizes {}). Use "
                         "mT() or transpose(dim0, dim1).",
                         c.in(0).dim(), c.in(0).sizes());
          infer_swapped(c, 0, c.in(0).dim() == 2 ? 1 : 0);
        },
    .cost = no_cost,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.t()}; },
    .onnx = {"Transpose", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({4})});
          s.add({sample_randn({})});
          s.error({sample_randn({2, 3, 4})}, "at most 2 dimensions");
        },
};

extern constinit const OpDef mT_op = {
    .schema = "mT|mH|adjoint(Tensor(a) self) -> Tensor(a)",
    .doc = "Exchanges the last two dims of a batch of matrices.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.in(0).dim() >= 2, ShapeError,
                     "mT: at least 2 dimensions are needed, found {} (sizes {}).", c.in(0).dim(),
                     c.in(0).sizes());
      return {c.in(0).transpose(-2, -1)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4})});
          s.error({sample_randn({3})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef numpy_T_op = {
    .schema = "numpy_T(Tensor(a) self) -> Tensor(a)",
    .doc = "Reverses the order of the dims.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).permute(reversed_dims(c.in(0).dim()))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4})});
        },
};

extern constinit const OpDef swapaxes_op = {
    .schema = "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
    .doc = "transpose under NumPy's name.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).transpose(c.integer(0), c.integer(1))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 0, 1});
        },
};

extern constinit const OpDef movedim_op = {
    .schema =
        "movedim|moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
    .doc = "Moves dims to new places; the others keep their order.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).permute(moved_order(c.in(0), c.ints(0), c.ints(1)))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4}), Value::ints({0, 1}), Value::ints({-1, 0})});
          s.error({sample_randn({2, 3, 4}), Value::ints({0, 0}), Value::ints({1, 2})},
                  "appears more than once in source");
          s.error({sample_randn({2, 3}), Value::ints({0}), Value::ints({1, 0})},
                  "same number of dims");
        },
};

extern constinit const OpDef movedim_int_op = {
    .schema = "movedim|moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    .doc = "Moves one dim to a new place; the others keep their order.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).permute(moved_order(c.in(0), {c.integer(0)}, {c.integer(1)}))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4}), 0, 2});
        },
};

extern constinit const OpDef squeeze_op = {
    .schema = "squeeze[_](Tensor(a) self) -> Tensor(a)",
    .doc = "Drops every dim of size 1; a view.",
    .compose = [](const Call& c) -> Tensors {
      Dims dims;
      for (int64_t d = 0; d < c.in(0).dim(); ++d)
        if (c.in(0).size(d) == 1) dims.push_back(d);
      return {c.in(0).squeeze(dims.ref())};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 3, 1})});
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({})});
        },
};

extern constinit const OpDef squeeze_dim_op = {
    .schema = "squeeze[_].dim(Tensor(a) self, int dim) -> Tensor(a)",
    .doc = "Drops the dim if its size is 1; a view.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).squeeze(IntArrayRef({c.integer(0)}))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({1, 3, 1}), -1});
          s.add({sample_randn({2, 3}), 0});
          s.error({sample_randn({2, 3}), 2}, "out of range");
        },
};

extern constinit const OpDef flatten_op = {
    .schema = "flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    .doc = "Joins the dims from start_dim to end_dim into one; a view where the strides allow it.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      const int64_t first = wrap_dim("flatten", c.integer(0), self.dim()),
                    last = wrap_dim("flatten", c.integer(1), self.dim());
      PELLUCID_CHECK(first <= last, ValueError,
                     "flatten: start_dim {} comes after end_dim {} (self {}).", first, last,
                     self.sizes());
      if (self.dim() == 0) return {self.reshape({1})};
      if (first == last) return {self};
      Dims sizes;
      int64_t joined = 1;
      for (int64_t d = 0; d < self.dim(); ++d) {
        if (d < first || d > last)
          sizes.push_back(self.size(d));
        else
          PELLUCID_CHECK(!__builtin_mul_overflow(joined, self.size(d), &joined), ValueError,
                         "flatten: dims {} to {} of sizes {} pass 2^63 - 1 elements.", first, last,
                         self.sizes());
        if (d == last) sizes.push_back(joined);
      }
      return {self.reshape(sizes)};
    },
    .onnx = {"Flatten", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3, 4}), 1});
          s.add({sample_randn({2, 3, 4})});
          s.add({sample_randn({})});
          s.add({sample_randn({3, 2}).transpose(0, 1)});
          s.error({sample_randn({2, 3, 4}), 2, 0}, "start_dim 2 comes after end_dim 0");
        },
};

extern constinit const OpDef unflatten_op = {
    .schema = "unflatten.int(Tensor(a) self, int dim, int[] sizes) -> Tensor(a)",
    .doc = "Splits one dim into several; one of the sizes may be -1.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      const int64_t d = wrap_dim("unflatten", c.integer(0), self.dim());
      PELLUCID_CHECK(!c.ints(1).empty(), ValueError, "unflatten: sizes must not be empty.");
      int64_t known = 1, unknown = 0;
      bool fits = true;
      for (int64_t n : c.ints(1)) {
        if (n == -1)
          ++unknown;
        else
          fits = fits && n >= 0 && !__builtin_mul_overflow(known, n, &known);
      }
      const int64_t length = self.dim() == 0 ? 1 : self.size(d);
      PELLUCID_CHECK(
          fits && unknown <= 1 && (unknown ? known != 0 && length % known == 0 : known == length),
          ShapeError, "unflatten: sizes {} do not multiply to the {} elements of dim {} (self {}).",
          c.ints(1), length, d, self.sizes());
      Dims sizes;
      for (int64_t i = 0; i < d; ++i) sizes.push_back(self.size(i));
      for (int64_t n : c.ints(1)) sizes.push_back(n == -1 ? length / known : n);
      for (int64_t i = d + 1; i < self.dim(); ++i) sizes.push_back(self.size(i));
      return {self.view(sizes)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 6}), 1, Value::ints({2, -1})});
          s.add({sample_randn({6, 2}), 0, Value::ints({3, 2})});
          s.error({sample_randn({2, 6}), 1, Value::ints({4, 2})},
                  "do not multiply to the 6 elements");
        },
};

extern constinit const OpDef ravel_op = {
    .schema = "ravel(Tensor self) -> Tensor",
    .doc = "All elements in one dim, contiguous; a view where they are so already.",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).contiguous().reshape({-1})}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({4}).expand({3, 4})});
        },
};

extern constinit const OpDef view_as_op = {
    .schema = "view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    .doc = "self.view(other.sizes()).",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).view(c.in(1).sizes())}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({2, 1, 3})});
        },
};

extern constinit const OpDef reshape_as_op = {
    .schema = "reshape_as(Tensor self, Tensor other) -> Tensor",
    .doc = "self.reshape(other.sizes()).",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).reshape(c.in(1).sizes())}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2}).transpose(0, 1), sample_randn({6})});
        },
};

extern constinit const OpDef expand_as_op = {
    .schema = "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)",
    .doc = "self.expand(other.sizes()).",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).expand(c.in(1).sizes())}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 1}), sample_randn({2, 3, 4})});
        },
};

extern constinit const OpDef broadcast_to_op = {
    .schema = "broadcast_to(Tensor(a) self, int[] size) -> Tensor(a)",
    .doc = "expand under NumPy's name.",
    .compose = [](const Call& c) -> Tensors { return {c.in(0).expand(c.ints(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 1}), Value::ints({2, 3, 4})});
        },
};

extern constinit const OpDef broadcast_tensors_op = {
    .schema = "broadcast_tensors(Tensor[] tensors) -> Tensor[]",
    .doc = "Every tensor expanded to the sizes they share by broadcasting; views.",
    .compose = [](const Call& c) -> Tensors {
      Dims sizes;
      for (size_t i = 0; i < c.input_count(); ++i)
        sizes = broadcast_sizes("broadcast_tensors", sizes, c.in(i).sizes());
      Tensors out;
      for (size_t i = 0; i < c.input_count(); ++i) out.push_back(c.in(i).expand(sizes));
      return out;
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({3, 1}), sample_randn({4})})});
          s.error({Value::tensors({sample_randn({3}), sample_randn({4})})}, "do not broadcast");
        },
};

extern constinit const OpDef narrow_op = {
    .schema = "narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)",
    .doc = "The `length` entries of a dim from `start` on; a view.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      PELLUCID_CHECK(self.dim() > 0, ShapeError,
                     "narrow: a tensor without dimensions cannot be narrowed.");
      const int64_t d = wrap_dim("narrow", c.integer(0), self.dim()), size = self.size(d),
                    length = c.integer(2);
      int64_t start = c.integer(1);
      PELLUCID_CHECK(start >= -size && start <= size, IndexError,
                     "narrow: start {} is out of range for dim {} of size {} (self {}).", start, d,
                     size, self.sizes());
      if (start < 0) start += size;
      PELLUCID_CHECK(length >= 0 && length <= size - start, ValueError,
                     "narrow: start {} and length {} pass the end of dim {} of size {} (self {}).",
                     start, length, d, size, self.sizes());
      return {self.slice(d, start, start + length, 1)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, 1, 2});
          s.add({sample_randn({4, 3}), -1, -2, 2});
          s.add({sample_randn({4, 3}), 0, 4, 0});
          s.error({sample_randn({4, 3}), 0, 3, 2}, "pass the end of dim 0 of size 4");
        },
};

extern constinit const OpDef unfold_op = {
    .schema = "unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)",
    .doc =
        "Windows of `size` entries of a dim, every `step` entries; a view with the window as last "
        "dim.",
    .kind = OpKind::View,
    .infer = infer_unfold,
    .cost = no_cost,
    .vjp = [](const Vjp& v) -> Tensors {
      return {unfold_backward(v.grad, v.in_sizes(0), v.integer(0), v.integer(1), v.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({7}), 0, 3, 2});
          s.add({sample_randn({2, 5, 2}), 1, 2, 1});
          s.add({sample_randn({}), 0, 1, 1});
          s.error({sample_randn({4}), 0, 5, 1}, "between 0 and the 4 elements");
          s.error({sample_randn({4}), 0, 2, 0}, "step must be at least 1");
        },
};

extern constinit const OpDef unfold_backward_op = {
    .schema =
        "unfold_backward(Tensor grad_in, int[] input_sizes, int dim, int size, int step) -> Tensor",
    .doc = "Sums the windows of unfold back into a tensor of the given sizes.",
    .infer = infer_unfold_backward,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(0).numel()), moved_bytes(c)};
        },
    .kernel = run_unfold_backward,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad.unfold(v.integer(1), v.integer(2), v.integer(3))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 3}), Value::ints({7}), 0, 3, 2});
          s.error({sample_ints({3, 3}, 0, 5), Value::ints({7}), 0, 3, 2},
                  "must be a floating tensor");
        },
};

extern constinit const OpDef atleast_1d_op = {
    .schema = "atleast_1d(Tensor self) -> Tensor",
    .doc = "A tensor without dimensions gets one.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).dim() == 0 ? c.in(0).reshape({1}) : c.in(0)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({})});
          s.add({sample_randn({2})});
        },
};

extern constinit const OpDef atleast_2d_op = {
    .schema = "atleast_2d(Tensor self) -> Tensor",
    .doc = "A tensor of fewer dimensions gets dims of size 1 in front, up to two.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& x = c.in(0);
      return {x.dim() == 0 ? x.reshape({1, 1}) : x.dim() == 1 ? x.unsqueeze(0) : x};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({})});
          s.add({sample_randn({2})});
          s.add({sample_randn({2, 2})});
        },
};

extern constinit const OpDef atleast_3d_op = {
    .schema = "atleast_3d(Tensor self) -> Tensor",
    .doc = "A tensor of fewer dimensions becomes [1, n, 1] or [m, n, 1].",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& x = c.in(0);
      switch (x.dim()) {
        case 0:
          return {x.reshape({1, 1, 1})};
        case 1:
          return {x.unsqueeze(0).unsqueeze(-1)};
        case 2:
          return {x.unsqueeze(-1)};
        default:
          return {x};
      }
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({})});
          s.add({sample_randn({2})});
          s.add({sample_randn({2, 2})});
        },
};

}  // namespace pellucid
