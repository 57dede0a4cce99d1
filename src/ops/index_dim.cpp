// Indexing along one dim by a vector: index_select, index_add, index_fill, index_copy. gather and
// scatter are in gather.cpp.
#include "kernels/copy.h"
#include "kernels/index.h"
#include "ops/index.h"
#include "ops/number_range.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

/// The dim of c's attribute 0 and the shape around it.
struct Along {
  int64_t dim, outer = 1, size, inner = 1;
};

Along along(const Call& c, const Tensor& self) {
  const Dims sizes = sizes_1d(self);
  const int64_t d = wrap_dim(c.name(), c.integer(0), self.dim());
  Along a{.dim = d, .size = sizes[static_cast<size_t>(d)]};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (static_cast<int64_t>(i) < d) a.outer *= sizes[i];
    if (static_cast<int64_t>(i) > d) a.inner *= sizes[i];
  }
  return a;
}

void check_index_vector(const Call& c, const Tensor& index) {
  check_index_dtype(c, index);
  PELLUCID_CHECK(index.dim() <= 1, ShapeError,
                 "{}: index must have at most 1 dimension, found sizes {}.", c.name(),
                 index.sizes());
}

void infer_index_select(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  check_index_vector(c, c.in(1));
  const int64_t d = wrap_dim("index_select", c.integer(0), c.in(0).dim());
  Dims sizes(c.in(0).sizes());
  if (sizes.empty()) {
    PELLUCID_CHECK(c.in(1).numel() == 1, ShapeError,
                   "index_select: a tensor without dimensions takes one index, found {}.",
                   c.in(1).numel());
  } else {
    sizes[static_cast<size_t>(d)] = c.in(1).numel();
  }
  c.make_output(sizes, c.in(0).dtype());
}

// The index of a call, all of it entries of dim.
Tensor checked_entries(const Call& c) {
  return checked_index(c, c.in(1), along(c, c.in(0)).size, false);
}
void check_entries(const Call& c) { checked_entries(c); }

void run_index_select(Call& c) {
  const Tensor self = contiguous_values(c.in(0)), index = checked_entries(c);
  const Along a = along(c, self);
  kernels::index_select(self.element_size(), self.raw_data(), a.outer, a.size, a.inner,
                        index.raw<int64_t>(), index.numel(), c.out().raw_data());
}

// index_add and index_copy: source has the sizes of self but for dim, where it has one entry for
// each index.
void infer_index_write(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  check_defined(c, 2, "source");
  check_index_vector(c, c.in(1));
  check_same_dtype(c, c.in(0), c.in(2));
  const int64_t d = wrap_dim(c.name(), c.integer(0), c.in(0).dim());
  Dims wanted = sizes_1d(c.in(0));
  wanted[static_cast<size_t>(d)] = c.in(1).numel();
  PELLUCID_CHECK(sizes_1d(c.in(2)) == wanted, ShapeError,
                 "{}: with self {}, dim {} and {} indices source must have sizes {}, found {}.",
                 c.name(), c.in(0).sizes(), d, c.in(1).numel(), wanted, c.in(2).sizes());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_index_add(Call& c) {
  const Along a = along(c, c.in(0));
  const Tensor index = checked_entries(c), source = contiguous_values(c.in(2));
  // PyTorch cuts the fraction of alpha off before it multiplies integers.
  const double alpha =
      is_floating(c.out().dtype()) ? c.number(1) : static_cast<double>(c.scalar(1).toLong());
  start_from_self(c);
  with_contiguous(c.out(), [&](const Tensor& out) {
    kernels::index_add(out.dtype(), out.raw_data(), a.outer, a.size, a.inner, index.raw<int64_t>(),
                       index.numel(), source.raw_data(), alpha);
  });
}

// Writes source, or one value where its strides are 0, to the entries of dim that the index names.
void write_entries(Call& c, const Tensor& index, const void* source, IntArrayRef source_strides) {
  const Tensor& out = c.out();
  const auto d = static_cast<size_t>(along(c, out).dim);
  const Dims sizes = sizes_1d(out), strides = strides_1d(out);
  std::vector<int64_t> offsets(static_cast<size_t>(index.numel()));
  for (size_t i = 0; i < offsets.size(); ++i) {
    const int64_t at = index.raw<int64_t>()[i];
    offsets[i] = (at < 0 ? at + sizes[d] : at) * strides[d];
  }
  kernels::index_put(
      out.element_size(),
      {sizes.ref().slice(0, d), strides.ref().slice(0, d), source_strides.slice(0, d),
       offsets.data(), index.numel(), source_strides[d], sizes.ref().slice(d + 1),
       strides.ref().slice(d + 1), source_strides.slice(d + 1)},
      out.raw_data(), source);
}

void run_index_copy(Call& c) {
  const Tensor index = checked_entries(c);
  start_from_self(c);
  if (c.in(2).numel() > 0) write_entries(c, index, c.in(2).raw_data(), strides_1d(c.in(2)));
}

// For index_fill negative indices count from the end.
Tensor checked_fill(const Call& c) {
  if (is_integral(c.out().dtype(), false)) check_fits(c.name(), c.in(2).item(), c.out().dtype());
  return checked_index(c, c.in(1), along(c, c.in(0)).size, true);
}

void run_index_fill(Call& c) {
  const Tensor index = checked_fill(c);
  start_from_self(c);
  if (c.out().numel() == 0 || index.numel() == 0) return;
  visit(c.out().dtype(), [&](auto v) {
    const auto value = c.in(2).item().to<decltype(v)>();
    write_entries(c, index, &value, Dims(sizes_1d(c.out()).size(), 0));
  });
}

// A gradient without dimensions as one with one element, of which several entries may be selected.
Tensor at_least_1d(const Tensor& grad) { return grad.dim() == 0 ? grad.reshape({1}) : grad; }

}  // namespace

extern constinit const OpDef index_select_op = {
    .schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    .doc = "The entries of a dim that a vector of indices names.",
    .kind = OpKind::Index,
    .infer = infer_index_select,
    .cost =
        [](const Call& c) {
          return Cost{0, static_cast<double>(2 * c.out().nbytes() + c.in(1).nbytes())};
        },
    .kernel = run_index_select,
    .check = check_entries,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {zeros(v.in_sizes(0), v.grad.dtype()).index_add_(v.integer(0), v.in(1), v.grad),
              Tensor()};
    },
    .onnx = {"Gather", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, sample_ints({5}, 0, 4)});
          s.add({sample_randn({2, 4, 3}), 1, sample_ints({2}, 0, 4)});
          s.add({sample_randn({4, 3}).transpose(0, 1), -1, sample_ints({2}, 0, 4)});
          s.add({sample_randn({3, 2}), 0, sample_ints({0}, 0, 1)});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4)},
                  "index 3 is out of bounds for dimension 0 with size 3");
          s.error({sample_randn({3}), 0, sample_randn({2})}, "index must be int64 or int32");
          s.error({sample_randn({3}), 0, sample_ints({2, 2}, 0, 3)}, "at most 1 dimension");
          s.large([] { return Values{randn({4096, 1024}), 0, randint(4096, {4096})}; });
        },
};

extern constinit const OpDef index_add_op = {
    .schema =
        "index_add[_](Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> "
        "Tensor",
    .doc = "self with alpha times entry i of source added to entry index[i] of a dim.",
    .kind = OpKind::Index,
    .infer = infer_index_write,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(2).numel()), moved_bytes(c)};
        },
    .kernel = run_index_add,
    .check = check_entries,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      Tensor source;
      if (v.needs(2)) {
        source = at_least_1d(v.grad).index_select(v.integer(0), v.in(1));
        if (v.number(1) != 1) source = source.mul(v.scalar(1));
      }
      return {v.grad, Tensor(), source.defined() ? source.reshape(v.in_sizes(2)) : source};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, sample_ints({5}, 0, 4), sample_randn({5, 3})});
          s.add({sample_randn({2, 4}), 1, sample_ints({3}, 0, 4), sample_randn({2, 3})},
                {{"alpha", -2.5}});
          s.add_no_grad({sample_ints({4}, 0, 9), 0, sample_ints({2}, 0, 4), sample_ints({2}, 0, 9)},
                        {{"alpha", -2.5}});
          s.error({sample_randn({4, 3}), 0, sample_ints({5}, 0, 4), sample_randn({4, 3})},
                  "source must have sizes [5, 3], found [4, 3]");
          s.error({sample_randn({3}), 0, sample_ints({1}, 3, 4), sample_randn({1})},
                  "index 3 is out of bounds");
          s.large([] {
            return Values{randn({4096, 1024}), 0, randint(4096, {4096}), randn({4096, 1024})};
          });
        },
    .writes_over = 1,
};

extern constinit const OpDef index_copy_op = {
    .schema = "index_copy[_](Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    .doc = "self with entry i of source written to entry index[i] of a dim.",
    .kind = OpKind::Index,
    .infer = infer_index_write,
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_index_copy,
    .check = check_entries,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.index_fill(v.integer(0), v.in(1), 0) : Tensor(), Tensor(),
              v.needs(2)
                  ? at_least_1d(v.grad).index_select(v.integer(0), v.in(1)).reshape(v.in_sizes(2))
                  : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, index_vector({2, 0}), sample_randn({2, 3})});
          s.add(
              {sample_randn({3, 4}).transpose(0, 1), -1, index_vector({1}), sample_randn({4, 1})});
          s.error({sample_randn({4}), 0, index_vector({4}), sample_randn({1})},
                  "index 4 is out of bounds");
        },
    .writes_over = 1,
};

extern constinit const OpDef index_fill_op = {
    .schema = "index_fill[_](Tensor self, int dim, Tensor index, Tensor|Scalar value) -> Tensor",
    .doc = "self with the entries of a dim that the index names set to value.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          check_index_vector(c, c.in(1));
          wrap_dim("index_fill", c.integer(0), c.in(0).dim());
          PELLUCID_CHECK(
              c.in(2).dim() == 0, ShapeError,
              "index_fill: value must be a number or a tensor without dimensions, found sizes {}.",
              c.in(2).sizes());
          c.make_output(c.in(0).sizes(), c.in(0).dtype());
        },
    .cost =
        [](const Call& c) {
          return Cost{0, moved_bytes(c)};
        },
    .kernel = run_index_fill,
    .check = [](const Call& c) { checked_fill(c); },
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      Tensor value;
      if (v.needs(2)) {
        const int64_t n = v.grad.dim() == 0 ? 1 : v.grad.size(v.integer(0));
        const Tensor places =
            std::get<0>(unique(v.in(1).remainder(n)));  // a repeated index counts once
        value = at_least_1d(v.grad).index_select(v.integer(0), places).sum();
      }
      return {v.needs(0) ? v.grad.index_fill(v.integer(0), v.in(1), 0) : Tensor(), Tensor(), value};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, index_vector({2, 0, 2}), 0.5});
          s.add({sample_randn({2, 3}), 1, index_vector({-1}), -2.0});
          s.add({sample_randn({2, 3}), 1, index_vector({2, 0}), sample_randn({})});
          s.error({sample_randn({4}), 0, index_vector({4}), 1}, "index 4 is out of bounds");
          s.error({sample_randn({4}), 0, index_vector({1}), sample_randn({2})},
                  "value must be a number or a tensor without dimensions");
        },
    .writes_over = 1,
};

}  // namespace pellucid
