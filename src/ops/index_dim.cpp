// Indexing along one dim: index_select, index_add, index_fill, index_copy, gather, scatter and
// embedding.
#include "kernels/copy.h"
#include "kernels/index.h"
#include "ops/index.h"
#include "ops/number_range.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

// Sizes and strides of a tensor without dimensions are those of one with one element.
Dims sizes_1d(const Tensor& t) { return t.dim() == 0 ? Dims{1} : Dims(t.sizes()); }
Dims strides_1d(const Tensor& t) { return t.dim() == 0 ? Dims{1} : Dims(t.raw_strides()); }

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

void run_index_select(Call& c) {
  const Tensor self = contiguous_values(c.in(0)),
               index = checked_index(c, c.in(1), along(c, c.in(0)).size, false);
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
  const Tensor index = checked_index(c, c.in(1), a.size, false),
               source = contiguous_values(c.in(2));
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
  const Tensor index = checked_index(c, c.in(1), along(c, c.in(0)).size, false);
  start_from_self(c);
  if (c.in(2).numel() > 0) write_entries(c, index, c.in(2).raw_data(), strides_1d(c.in(2)));
}

void run_index_fill(Call& c) {
  const Tensor index = checked_index(c, c.in(1), along(c, c.in(0)).size, true);
  check_fits(c.name(), c.in(2).item(), c.out().dtype());
  start_from_self(c);
  if (c.out().numel() == 0 || index.numel() == 0) return;
  visit(c.out().dtype(), [&](auto v) {
    const auto value = c.in(2).item().to<decltype(v)>();
    write_entries(c, index, &value, Dims(sizes_1d(c.out()).size(), 0));
  });
}

// gather and scatter: an index of as many dims as self (and other), not larger except along dim.
void check_gather(const Call& c, const Tensor& self, const Tensor& index, const Tensor* source) {
  check_index_dtype(c, index);
  const int64_t d = wrap_dim(c.name(), c.integer(0), self.dim());
  if (index.numel() == 0) return;
  const Dims own = sizes_1d(self), at = sizes_1d(index);
  bool fits = own.size() == at.size();
  for (size_t i = 0; fits && i < own.size(); ++i)
    fits = static_cast<int64_t>(i) == d || at[i] <= own[i];
  PELLUCID_CHECK(fits, ShapeError,
                 "{}: index must have as many dims as self and be no larger, except in dim {}; "
                 "found index {} and self {}.",
                 c.name(), d, index.sizes(), self.sizes());
  if (!source) return;
  const Dims from = sizes_1d(*source);
  fits = from.size() == at.size();
  for (size_t i = 0; fits && i < from.size(); ++i) fits = at[i] <= from[i];
  PELLUCID_CHECK(
      fits, ShapeError,
      "{}: index must have as many dims as src and be no larger; found index {} and src {}.",
      c.name(), index.sizes(), source->sizes());
}

/// The arguments of a gather or scatter kernel; owns the dims they refer to. The kernel looks at
/// the indices on its way, unless it writes to a tensor that must stay as it is where one is bad.
struct GatherCall {
  Dims sizes, index_strides, self_strides, other_strides;
  Tensor index;
  kernels::GatherArgs args;

  GatherCall(const Call& c, const Tensor& self, Dims other)
      : sizes(sizes_1d(c.in(1))), self_strides(strides_1d(self)), other_strides(std::move(other)) {
    const int64_t d = wrap_dim(c.name(), c.integer(0), self.dim());
    const int64_t limit = sizes_1d(self)[static_cast<size_t>(d)];
    const bool ahead = c.in_place() || limit == 0;
    index = ahead ? checked_index(c, c.in(1), limit, false) : contiguous_values(c.in(1).to(kInt64));
    index_strides = strides_1d(index);
    args = {sizes,
            d,
            index.raw<int64_t>(),
            index_strides,
            self_strides,
            other_strides,
            ahead ? 0 : limit};
  }
  /// Raises what the kernel found.
  void check(const Call& c, bool good) const {
    if (!good) checked_index(c, index, args.limit, false);
  }
};

void infer_gather(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  check_gather(c, c.in(0), c.in(1), nullptr);
  c.make_output(c.in(1).sizes(), c.in(0).dtype());
}

void infer_scatter(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "index");
  const bool has_source = c.input_count() > 2;
  if (has_source) {
    check_defined(c, 2, "src");
    check_same_dtype(c, c.in(0), c.in(2));
  }
  check_gather(c, c.in(0), c.in(1), has_source ? &c.in(2) : nullptr);
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

/// Whether the kernel may copy self line by line: every line is written to, and is dense.
bool copies_by_line(const Call& c) {
  const Tensor &self = c.in(0), &out = c.out();
  const size_t last = out.sizes().size() - 1;
  return !c.in_place() && out.dim() > 0 && self.sizes() == out.sizes() &&
         wrap_dim(c.name(), c.integer(0), out.dim()) == out.dim() - 1 &&
         self.impl().is_contiguous() && out.impl().is_contiguous() &&
         c.in(1).sizes().slice(0, last) == out.sizes().slice(0, last);
}

template <bool add> void run_scatter(Call& c) {
  if (c.in(1).numel() == 0) return start_from_self(c);
  GatherCall g(c, c.out(), strides_1d(c.in(2)));
  if (copies_by_line(c))
    g.args.initial = c.in(0).raw_data();
  else
    start_from_self(c);
  void* const to = c.out().raw_data();
  const void* const from = c.in(2).raw_data();
  g.check(c, add ? kernels::scatter_add(c.out().dtype(), g.args, to, from)
                 : kernels::scatter(c.out().element_size(), g.args, to, from));
}

void run_scatter_value(Call& c) {
  if (c.in(1).numel() == 0) return start_from_self(c);
  const GatherCall g(c, c.out(), Dims(sizes_1d(c.in(1)).size(), 0));
  start_from_self(c);
  visit(c.out().dtype(), [&](auto v) {
    const auto value = c.scalar(1).to<decltype(v)>();
    g.check(c, kernels::scatter(c.out().element_size(), g.args, c.out().raw_data(), &value));
  });
}

// src may be larger than the index: what was not read has gradient 0.
Tensor source_gradient(const Vjp& v) {
  Tensor g = v.grad.gather(v.integer(0), v.in(1));
  if (g.sizes() == v.in_sizes(2)) return g;
  if (g.numel() == 0) return zeros(v.in_sizes(2), g.dtype());
  if (g.dim() == 0) g = g.reshape({1});
  Dims pad;
  for (size_t d = v.in_sizes(2).size(); d-- > 0;) {
    pad.push_back(0);
    pad.push_back(v.in_sizes(2)[d] - g.sizes()[d]);
  }
  return constant_pad_nd(g, pad, 0);
}

// A gradient without dimensions as one with one element, of which several entries may be selected.
Tensor at_least_1d(const Tensor& grad) { return grad.dim() == 0 ? grad.reshape({1}) : grad; }

Cost gather_cost(const Call& c) {
  return {0, static_cast<double>(2 * c.out().nbytes() + c.in(1).nbytes())};
}

Cost scatter_cost(const Call& c) { return {0, moved_bytes(c)}; }

}  // namespace

extern constinit const OpDef index_select_op = {
    .schema = "index_select(Tensor self, int dim, Tensor index) -> Tensor",
    .doc = "The entries of a dim that a vector of indices names.",
    .kind = OpKind::Index,
    .infer = infer_index_select,
    .cost = gather_cost,
    .kernel = run_index_select,
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
    .writes_self = true,
};

extern constinit const OpDef index_copy_op = {
    .schema = "index_copy[_](Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    .doc = "self with entry i of source written to entry index[i] of a dim.",
    .kind = OpKind::Index,
    .infer = infer_index_write,
    .cost = scatter_cost,
    .kernel = run_index_copy,
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
    .writes_self = true,
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
    .cost = scatter_cost,
    .kernel = run_index_fill,
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
    .writes_self = true,
};

extern constinit const OpDef gather_op = {
    .schema = "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    .doc = "out[i][j] = self[index[i][j]][j] for dim 0, and so on for other dims.",
    .kind = OpKind::Index,
    .infer = infer_gather,
    .cost = gather_cost,
    .kernel =
        [](Call& c) {
          if (c.out().numel() == 0) return;
          const GatherCall g(c, c.in(0), strides_1d(c.out()));
          g.check(c, kernels::gather(c.out().element_size(), g.args, c.in(0).raw_data(),
                                     c.out().raw_data()));
        },
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {zeros(v.in_sizes(0), v.grad.dtype()).scatter_add_(v.integer(0), v.in(1), v.grad),
              Tensor()};
    },
    .onnx = {"GatherElements", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), 0, sample_ints({2, 3}, 0, 4)});
          s.add({sample_randn({2, 4}), -1, sample_ints({2, 6}, 0, 4)});
          s.add({sample_randn({3, 4}).transpose(0, 1), 1, sample_ints({2, 2}, 0, 3)});
          s.add({sample_randn({}), 0, sample_ints({1}, 0, 1)});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4)},
                  "index 3 is out of bounds for dimension 0 with size 3");
          s.error({sample_randn({3, 2}), 0, sample_ints({3, 3}, 0, 3)},
                  "be no larger, except in dim 0");
          s.error({sample_randn({3, 2}), 0, sample_ints({3}, 0, 3)}, "as many dims as self");
          s.large([] { return Values{randn({4096, 1024}), 1, randint(1024, {4096, 1024})}; });
        },
};

extern constinit const OpDef scatter_src_op = {
    .schema = "scatter[_].src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    .doc = "self with out[index[i][j]][j] = src[i][j] for dim 0, and so on for other dims.",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost = scatter_cost,
    .kernel = run_scatter<false>,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.scatter(v.integer(0), v.in(1), 0) : Tensor(), Tensor(),
              v.needs(2) ? source_gradient(v) : Tensor()};
    },
    .onnx = {"ScatterElements", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), 0, index_vector({3, 1, 0, 2}).view({2, 2}),
                 sample_randn({2, 2})});
          s.add({sample_randn({2, 4}), 1, index_vector({3, 1, 0, 2}).view({2, 2}),
                 sample_randn({2, 3})});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2})},
                  "index 3 is out of bounds");
          s.error({sample_randn({3}), 0, sample_ints({2}, 0, 3), sample_randn({1})},
                  "as many dims as src and be no larger");
          s.large([] {
            return Values{randn({4096, 1024}), 1, randint(1024, {4096, 1024}), randn({4096, 1024})};
          });
        },
    .writes_self = true,
};

extern constinit const OpDef scatter_value_op = {
    .schema = "scatter[_].value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    .doc = "self with one value written to the places that the index names.",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost = scatter_cost,
    .kernel = run_scatter_value,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad.scatter(v.integer(0), v.in(1), 0), Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), 0, sample_ints({2, 2}, 0, 4), 1.5});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), 1}, "index 3 is out of bounds");
        },
    .writes_self = true,
};

extern constinit const OpDef scatter_add_op = {
    .schema = "scatter_add[_](Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    .doc = "self with src[i][j] added to out[index[i][j]][j] for dim 0, and so on for other dims.",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(1).numel()), moved_bytes(c)};
        },
    .kernel = run_scatter<true>,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad, Tensor(), v.needs(2) ? source_gradient(v) : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), 0, sample_ints({3, 2}, 0, 4), sample_randn({3, 2})});
          s.add({sample_randn({2, 4}), -1, sample_ints({2, 2}, 0, 4), sample_randn({2, 3})});
          s.add({sample_randn({}), 0, sample_ints({}, 0, 1), sample_randn({})});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2})},
                  "index 3 is out of bounds");
          s.large([] {
            return Values{randn({4096, 1024}), 1, randint(1024, {4096, 1024}), randn({4096, 1024})};
          });
        },
    .writes_self = true,
};

extern constinit const OpDef take_along_dim_op = {
    .schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    .doc = "gather after broadcasting in the other dims; without dim over the flattened tensors.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor &self = c.in(0), &indices = c.in(1);
      if (!c.has_attr(0)) return {self.reshape({-1}).gather(0, indices.reshape({-1}))};
      PELLUCID_CHECK(self.dim() == indices.dim(), ShapeError,
                     "take_along_dim: indices must have as many dims as self, found {} and {}.",
                     indices.sizes(), self.sizes());
      const auto d = static_cast<size_t>(wrap_dim("take_along_dim", c.integer(0), self.dim()));
      Dims own(self.sizes()), at(indices.sizes());
      if (own.empty()) return {self.gather(0, indices)};
      own[d] = at[d] = 1;
      Dims sizes = broadcast_sizes("take_along_dim", own, at);
      Dims self_sizes = sizes;
      self_sizes[d] = self.size(static_cast<int64_t>(d));
      sizes[d] = indices.size(static_cast<int64_t>(d));
      return {self.expand(self_sizes).gather(static_cast<int64_t>(d), indices.expand(sizes))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), sample_ints({1, 3}, 0, 4), 0});
          s.add({sample_randn({4, 3}), sample_ints({4, 1}, 0, 3), 1});
          s.add({sample_randn({4, 3}), sample_ints({5}, 0, 12)});
          s.error({sample_randn({4, 3}), sample_ints({3}, 0, 4), 0}, "as many dims as self");
        },
};

}  // namespace pellucid
