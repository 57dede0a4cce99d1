// Ops that put the same values elsewhere: flip, roll, triangles, diagonals, repetition of single
// entries.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/index.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

void infer_same(Call& c) {
  check_defined(c, 0, "self");
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

// Rows of `columns` elements written backwards; offset_of(r) is where row r of the source starts.
template <class E, class Offset>
void reverse_rows(const E* from, E* to, int64_t rows, int64_t columns, Offset offset_of) {
  parallel_for(0, rows, std::max<int64_t>(1, (1 << 15) / columns), [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) {
      const E* source = from + offset_of(r) + columns - 1;
      E* row = to + r * columns;
      for (int64_t i = 0; i < columns; ++i) row[i] = source[-i];
    }
  });
}

// The last dim is flipped and its elements are side by side: compilers reverse whole vectors.
void run_flip_rows(const detail::TensorImpl& from, const detail::TensorImpl& to, IntArrayRef dims) {
  const size_t last = to.sizes.size() - 1;
  const auto offset_of = [&](int64_t row) {
    int64_t offset = 0;
    for (size_t d = last; d-- > 0;) {
      int64_t i = row % to.sizes[d];
      row /= to.sizes[d];
      if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end())
        i = to.sizes[d] - 1 - i;
      offset += i * from.strides[d];
    }
    return offset;
  };
  const auto run = [&](auto element) {
    using E = decltype(element);
    reverse_rows(static_cast<const E*>(from.data()), static_cast<E*>(to.data()),
                 to.numel / to.sizes[last], to.sizes[last], offset_of);
  };
  switch (element_size(to.dtype)) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

// A flip is a copy from a view with negative strides that starts at the far end.
void run_flip(Call& c) {
  const detail::TensorImpl& from = c.in(0).impl();
  const detail::TensorImpl& to = c.out().impl();
  if (to.numel == 0) return;
  const Dims dims = wrap_dims("flip", c.ints(0), c.in(0).dim(), false);
  if (!dims.empty() && dims.back() == c.in(0).dim() - 1 && from.strides.back() == 1)
    return run_flip_rows(from, to, dims);
  Dims strides(from.strides);
  int64_t start = 0;
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    start += (from.sizes[d] - 1) * from.strides[d];
    strides[d] = -from.strides[d];
  }
  const char* source = static_cast<const char*>(from.data()) + start * element_size(from.dtype);
  kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), source, from.dtype,
                        strides.data());
}

// The shift of each dim, reduced to [0, size); without dims the tensor is rolled as one line.
Dims roll_shifts(const AttrReader& a, IntArrayRef sizes) {
  const IntArrayRef shifts = a.ints(0), dims = a.ints(1);
  PELLUCID_CHECK(!shifts.empty(), ValueError, "roll: at least one shift is needed.");
  PELLUCID_CHECK(shifts.size() == dims.size(), ValueError,
                 "roll: shifts {} and dims {} must have the same length.", shifts, dims);
  Dims out(sizes.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d =
        static_cast<size_t>(wrap_dim("roll", dims[i], static_cast<int64_t>(sizes.size())));
    if (sizes.empty() || sizes[d] == 0) continue;
    out[d] = (out[d] + shifts[i] % sizes[d] + sizes[d]) % sizes[d];
  }
  return out;
}

// Copies the block of `from` that starts at `at` in dim d and those after; each dim splits in two
// pieces.
void roll_block(const detail::TensorImpl& from, const detail::TensorImpl& to, IntArrayRef shifts,
                size_t d, Dims& sizes, int64_t from_offset, int64_t to_offset) {
  if (d == shifts.size()) {
    const int64_t bytes = element_size(from.dtype);
    kernels::copy_strided(sizes, static_cast<char*>(to.data()) + to_offset * bytes, to.dtype,
                          to.strides.data(),
                          static_cast<const char*>(from.data()) + from_offset * bytes, from.dtype,
                          from.strides.data());
    return;
  }
  const int64_t n = from.sizes[d], shift = shifts[d];
  sizes[d] = n - shift;
  roll_block(from, to, shifts, d + 1, sizes, from_offset, to_offset + shift * to.strides[d]);
  if (shift > 0) {
    sizes[d] = shift;
    roll_block(from, to, shifts, d + 1, sizes, from_offset + (n - shift) * from.strides[d],
               to_offset);
  }
}

void infer_roll(Call& c) {
  roll_shifts(c, c.in(0).sizes());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_roll(Call& c) {
  const detail::TensorImpl& from = c.in(0).impl();
  if (from.numel == 0) return;
  Dims sizes(from.sizes);
  roll_block(from, c.out().impl(), roll_shifts(c, from.sizes), 0, sizes, 0, 0);
}

void infer_triangle(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(0).dim() >= 2, ShapeError,
                 "{}: a matrix or a batch of matrices is needed, found sizes {}.", c.name(),
                 c.in(0).sizes());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

template <bool lower> void run_triangle(Call& c) {
  const Tensor self = contiguous_values(c.in(0));
  const Tensor& out = c.out();
  if (out.numel() == 0) return;
  const int64_t rows = self.size(-2), columns = self.size(-1);
  kernels::tril_triu(self.element_size(), self.raw_data(), self.numel() / (rows * columns), rows,
                     columns, std::clamp(c.integer(0), -rows, columns), lower, out.raw_data());
}

struct Embedded {
  Dims sizes;
  size_t dim1, dim2;
};

Embedded embedded_sizes(const Call& c) {
  const int64_t n = c.in(0).dim() + 1, offset = c.integer(0);
  PELLUCID_CHECK(n >= 2, ShapeError,
                 "diag_embed: at least 1 dimension is needed, found a tensor without dimensions.");
  const int64_t a = wrap_dim("diag_embed", c.integer(1), n),
                b = wrap_dim("diag_embed", c.integer(2), n);
  PELLUCID_CHECK(a != b, ValueError, "diag_embed: dim1 and dim2 are both {}.", a);
  constexpr int64_t most = int64_t{1} << 62;
  PELLUCID_CHECK(offset > -most && offset < most && c.in(0).sizes().back() < most, ValueError,
                 "diag_embed: the offset {} is too large.", offset);
  const int64_t length = c.in(0).sizes().back() + std::abs(offset);
  Embedded e{Dims(c.in(0).sizes().slice(0, static_cast<size_t>(n) - 2)), static_cast<size_t>(a),
             static_cast<size_t>(b)};
  e.sizes.insert(std::min(e.dim1, e.dim2), length);
  e.sizes.insert(std::max(e.dim1, e.dim2), length);
  return e;
}

void run_diag_embed(Call& c) {
  const Embedded e = embedded_sizes(c);
  const detail::TensorImpl& from = c.in(0).impl();
  const detail::TensorImpl& to = c.out().impl();
  std::memset(to.data(), 0, c.out().nbytes());
  if (from.numel == 0) return;
  const int64_t offset = c.integer(0);
  Dims strides;
  for (size_t d = 0; d < to.sizes.size(); ++d)
    if (d != e.dim1 && d != e.dim2) strides.push_back(to.strides[d]);
  strides.push_back(to.strides[e.dim1] + to.strides[e.dim2]);
  const int64_t start = offset >= 0 ? offset * to.strides[e.dim2] : -offset * to.strides[e.dim1];
  char* data = static_cast<char*>(to.data()) + start * element_size(to.dtype);
  kernels::copy_strided(from.sizes, data, to.dtype, strides.data(), from.data(), from.dtype,
                        from.strides.data());
}

void triangle_samples(Samples& s) {
  s.add({sample_randn({3, 3})});
  s.add({sample_randn({2, 3, 4}), 1});
  s.add({sample_randn({4, 3}).transpose(0, 1), -1});
  s.add({sample_randn({0, 3})});
  s.error({sample_randn({3})}, "a matrix or a batch of matrices is needed");
  s.large([] { return Values{randn({4096, 1024})}; });
}

}  // namespace

extern constinit const OpDef flip_op = {
    .schema = "flip(Tensor self, int[] dims) -> Tensor",
    .doc = "Reverses the order of the entries of the given dims; a copy.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          wrap_dims("flip", c.ints(0), c.in(0).dim(), false);
          infer_same(c);
        },
    .cost = move_cost,
    .kernel = run_flip,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.flip(v.ints(0))}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({0, -1})});
          s.add({sample_randn({5}), Value::ints({0})});
          s.add({sample_randn({3, 2}).transpose(0, 1), Value::ints({0})});
          s.add({sample_randn({2, 3}), Value::ints({})});
          s.error({sample_randn({2, 3}), Value::ints({0, 0})}, "appears more than once");
          s.large([] { return Values{randn({4096, 1024}), Value::ints({1})}; });
        },
};

extern constinit const OpDef fliplr_op = {
    .schema = "fliplr(Tensor self) -> Tensor",
    .doc = "Reverses dim 1.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.in(0).dim() >= 2, ShapeError,
                     "fliplr: at least 2 dimensions are needed, found sizes {}.", c.in(0).sizes());
      return {c.in(0).flip({1})};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.error({sample_randn({2})}, "at least 2 dimensions");
        },
};

extern constinit const OpDef flipud_op = {
    .schema = "flipud(Tensor self) -> Tensor",
    .doc = "Reverses dim 0.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.in(0).dim() >= 1, ShapeError, "flipud: at least 1 dimension is needed.");
      return {c.in(0).flip({0})};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.error({sample_randn({})}, "at least 1 dimension");
        },
};

extern constinit const OpDef roll_dims_op = {
    .schema = "_roll(Tensor self, int[] shifts, int[] dims) -> Tensor",
    .doc =
        "Moves the entries of each given dim by its shift, those that leave at the end coming back "
        "at the start.",
    .kind = OpKind::Index,
    .infer = infer_roll,
    .cost = move_cost,
    .kernel = run_roll,
    .vjp = [](const Vjp& v) -> Tensors {
      Dims back = roll_shifts(v, v.in_sizes(0)), dims;
      for (size_t d = 0; d < back.size(); ++d) {
        back[d] = -back[d];
        dims.push_back(static_cast<int64_t>(d));
      }
      return {back.empty() ? v.grad : _roll(v.grad, back, dims)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({1, -1}), Value::ints({0, 1})});
          s.add({sample_randn({0, 3}), Value::ints({1}), Value::ints({0})});
          s.error({sample_randn({2, 3}), Value::ints({1, 2}), Value::ints({0})},
                  "must have the same length");
        },
};

extern constinit const OpDef roll_op = {
    .schema = "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
    .doc = "Moves entries cyclically; without dims the tensor is rolled as one line.",
    .compose = [](const Call& c) -> Tensors {
      if (!c.ints(1).empty()) {
        PELLUCID_CHECK(c.in(0).dim() > 0, IndexError,
                       "roll: dims {} were given, but the tensor has no dimensions.", c.ints(1));
        return {_roll(c.in(0), c.ints(0), c.ints(1))};
      }
      PELLUCID_CHECK(c.ints(0).size() == 1, ValueError,
                     "roll: shifts {} and dims {} must have the same length.", c.ints(0),
                     c.ints(1));
      return {_roll(c.in(0).reshape({-1}), c.ints(0), {0}).view(c.in(0).sizes())};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 1});
          s.add({sample_randn({2, 3}), Value::ints({1, -4}), Value::ints({0, 1})});
          s.error({sample_randn({2, 3}), Value::ints({1, 2})}, "must have the same length");
          s.error({sample_randn({}), 0, 0}, "the tensor has no dimensions");
          s.large([] { return Values{randn({4096, 1024}), 5, 1}; });
        },
};

extern constinit const OpDef rot90_op = {
    .schema = "rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor",
    .doc =
        "Turns by k times 90 degrees in the plane of two dims, from the first towards the second.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& x = c.in(0);
      PELLUCID_CHECK(c.ints(1).size() == 2, ValueError, "rot90: two dims are needed, found {}.",
                     c.ints(1));
      const int64_t a = wrap_dim("rot90", c.ints(1)[0], x.dim()),
                    b = wrap_dim("rot90", c.ints(1)[1], x.dim());
      PELLUCID_CHECK(a != b && x.dim() >= 2, ValueError,
                     "rot90: two different dims are needed, found {} (self {}).", c.ints(1),
                     x.sizes());
      switch (((c.integer(0) % 4) + 4) % 4) {
        case 1:
          return {x.flip({b}).transpose(a, b)};
        case 2:
          return {x.flip({a, b})};
        case 3:
          return {x.flip({a}).transpose(a, b)};
        default:
          return {x.clone(MemoryFormat::Contiguous)};
      }
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({2, 3}), 2});
          s.add({sample_randn({2, 3, 2}), -1, Value::ints({1, 2})});
          s.error({sample_randn({2, 3}), 1, Value::ints({0, 0})}, "two different dims");
        },
};

extern constinit const OpDef tril_op = {
    .schema = "tril[_](Tensor self, int diagonal=0) -> Tensor",
    .doc = "The lower triangle: elements with column <= row + diagonal, zeros elsewhere.",
    .kind = OpKind::Index,
    .infer = infer_triangle,
    .cost = move_cost,
    .kernel = run_triangle<true>,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.tril(v.integer(0))}; },
    .onnx = {"Trilu", 14},
    .samples = triangle_samples,
};

extern constinit const OpDef triu_op = {
    .schema = "triu[_](Tensor self, int diagonal=0) -> Tensor",
    .doc = "The upper triangle: elements with column >= row + diagonal, zeros elsewhere.",
    .kind = OpKind::Index,
    .infer = infer_triangle,
    .cost = move_cost,
    .kernel = run_triangle<false>,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad.triu(v.integer(0))}; },
    .onnx = {"Trilu", 14},
    .samples = triangle_samples,
};

extern constinit const OpDef diag_embed_op = {
    .schema = "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
    .doc = "Square matrices with the last dim of self along a diagonal and zeros elsewhere.",
    .kind = OpKind::Index,
    .infer = [](Call& c) { c.make_output(embedded_sizes(c).sizes, c.in(0).dtype()); },
    .cost = move_cost,
    .kernel = run_diag_embed,
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad.diagonal(v.integer(0), v.integer(1), v.integer(2))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({3}), 1});
          s.add({sample_randn({2, 2}), -1, 0, 2});
          s.error({sample_randn({})}, "at least 1 dimension");
          s.error({sample_randn({3}), 0, 1, 1}, "dim1 and dim2 are both 1");
        },
};

extern constinit const OpDef diag_op = {
    .schema = "diag(Tensor self, int diagonal=0) -> Tensor",
    .doc = "A vector becomes the diagonal of a matrix; of a matrix the diagonal is copied.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& x = c.in(0);
      PELLUCID_CHECK(x.dim() == 1 || x.dim() == 2, ShapeError,
                     "diag: a vector or a matrix is needed, found sizes {}.", x.sizes());
      return {x.dim() == 1 ? x.diag_embed(c.integer(0))
                           : x.diagonal(c.integer(0)).clone(MemoryFormat::Contiguous)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3})});
          s.add({sample_randn({3, 4}), 1});
          s.error({sample_randn({2, 2, 2})}, "a vector or a matrix is needed");
        },
};

extern constinit const OpDef diagflat_op = {
    .schema = "diagflat(Tensor self, int offset=0) -> Tensor",
    .doc = "A matrix with all elements of self along a diagonal.",
    .compose = [](const Call& c) -> Tensors {
      return {c.in(0).reshape({-1}).diag_embed(c.integer(0))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 2}), 1});
        },
};

extern constinit const OpDef repeat_interleave_int_op = {
    .schema =
        "repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? "
        "output_size=None) -> Tensor",
    .doc =
        "Each entry of a dim repeated in place; without dim, each element of the flattened tensor.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor self = c.has_attr(1) ? c.in(0).atleast_1d() : c.in(0).reshape({-1});
      const int64_t d = c.has_attr(1) ? wrap_dim("repeat_interleave", c.integer(1), self.dim()) : 0,
                    n = c.integer(0);
      PELLUCID_CHECK(n >= 0, ValueError,
                     "repeat_interleave: repeats must not be negative, found {}.", n);
      Dims sizes(self.sizes());
      sizes.insert(static_cast<size_t>(d) + 1, n);
      Dims result(self.sizes());
      int64_t& length = result[static_cast<size_t>(d)];
      PELLUCID_CHECK(!__builtin_mul_overflow(length, n, &length), ValueError,
                     "repeat_interleave: {} repeats of sizes {} pass 2^63 - 1 entries.", n,
                     self.sizes());
      return {self.unsqueeze(d + 1).expand(sizes).clone(MemoryFormat::Contiguous).view(result)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 2});
          s.add({sample_randn({2, 3}), 2, 1});
          s.error({sample_randn({2, 3}), -1}, "must not be negative");
        },
};

extern constinit const OpDef repeat_interleave_tensor_op = {
    .schema =
        "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? "
        "output_size=None) -> Tensor",
    .doc = "Entry i of a dim repeated repeats[i] times in place.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor self = c.has_attr(0) ? c.in(0) : c.in(0).reshape({-1});
      const int64_t d = c.has_attr(0) ? wrap_dim("repeat_interleave", c.integer(0), self.dim()) : 0;
      Tensor repeats = c.in(1);
      PELLUCID_CHECK(repeats.dtype() == kInt64 || repeats.dtype() == kInt32, TypeError,
                     "repeat_interleave: repeats must be int32 or int64, found {}.",
                     repeats.dtype());
      PELLUCID_CHECK(
          repeats.dim() <= 1 && (repeats.numel() == 1 || repeats.numel() == self.size(d)),
          ShapeError, "repeat_interleave: repeats needs 1 or {} elements, found sizes {}.",
          self.size(d), repeats.sizes());
      repeats = repeats.to(kInt64).reshape({-1}).expand({self.size(d)}).contiguous();
      const int64_t* n = repeats.const_data_ptr<int64_t>();
      int64_t total = 0;
      for (int64_t i = 0; i < repeats.numel(); ++i) {
        PELLUCID_CHECK(n[i] >= 0, ValueError,
                       "repeat_interleave: repeats must not be negative, found {}.", n[i]);
        PELLUCID_CHECK(!__builtin_add_overflow(total, n[i], &total), ValueError,
                       "repeat_interleave: the repeats sum to more than 2^63 - 1.");
      }
      const Tensor index = empty({total}, kInt64);
      int64_t* at = index.raw<int64_t>();
      for (int64_t i = 0; i < repeats.numel(); ++i) at = std::fill_n(at, n[i], i);
      return {self.index_select(d, index)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 2}), sample_ints({3}, 0, 4), 0});
          s.error({sample_randn({3}), sample_ints({2}, 0, 4)}, "repeats needs 1 or 3 elements");
        },
};

}  // namespace pellucid
