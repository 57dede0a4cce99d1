// Indexing along one dim by a tensor of as many dims: gather, scatter and take_along_dim.
// scatter with a reduction is in scatter_reduce.cpp.
#include "kernels/index.h"
#include "ops/index.h"
#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

// gather and scatter: an index of as many dims as self (and other), not larger except along dim.
// An empty index may have any dtype and sizes, as in PyTorch.
void check_gather(const Call& c, const Tensor& self, const Tensor& index, const Tensor* source) {
  const int64_t d = wrap_dim(c.name(), c.integer(0), self.dim());
  if (index.numel() == 0) return;
  check_index_dtype(c, index);
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

void check_positions(const Call& c) {
  if (c.in(1).numel() == 0) return;
  const int64_t d = wrap_dim(c.name(), c.integer(0), c.in(0).dim());
  checked_index(c, c.in(1), sizes_1d(c.in(0))[static_cast<size_t>(d)], false);
}

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

/// Whether the kernel may start the lines of the result on its way: every line is written to, and
/// is dense.
bool starts_lines(const Call& c) {
  const Tensor &self = c.in(0), &out = c.out();
  const size_t last = out.sizes().size() - 1;
  return !c.in_place() && out.dim() > 0 && self.sizes() == out.sizes() &&
         wrap_dim(c.name(), c.integer(0), out.dim()) == out.dim() - 1 &&
         out.impl().is_contiguous() && c.in(1).sizes().slice(0, last) == out.sizes().slice(0, last);
}

/// Whether t is one zero, expanded: what a gradient starts from.
bool is_zero(const Tensor& t) {
  for (const int64_t stride : t.raw_strides())
    if (stride != 0) return false;
  bool zero = false;
  visit(t.dtype(), [&](auto v) { zero = *t.raw<decltype(v)>() == decltype(v)(0); });
  return zero;
}

enum class ScatterAs { Copy, Add, Multiply, Extreme };

template <ScatterAs as> void run_scatter(Call& c) {
  if (c.in(1).numel() == 0) return start_from_self(c);
  GatherCall g(c, c.out(), strides_1d(c.in(2)));
  if (starts_lines(c) && c.in(0).impl().is_contiguous())
    g.args.initial = c.in(0).raw_data();
  else if (starts_lines(c) && is_zero(c.in(0)))
    g.args.zero_lines = true;
  else
    start_from_self(c);
  void* const to = c.out().raw_data();
  const void* const from = c.in(2).raw_data();
  const DType type = c.out().dtype();
  g.check(c, as == ScatterAs::Add        ? kernels::scatter_add(type, g.args, to, from)
             : as == ScatterAs::Multiply ? kernels::scatter_multiply(type, g.args, to, from)
             : as == ScatterAs::Extreme
                 ? kernels::scatter_extreme(type, c.flag(1), g.args, to, from)
                 : kernels::scatter(element_size(type), g.args, to, from));
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
Tensor source_gradient(const Vjp& v, Tensor g) {
  const IntArrayRef sizes = v.in_sizes(2);
  if (g.sizes() == sizes) return g;
  if (g.numel() == 0) return zeros(sizes, g.dtype());
  if (g.dim() == 0) g = g.reshape({1});
  Dims pad;
  for (size_t d = sizes.size(); d-- > 0;) {
    pad.push_back(0);
    pad.push_back(sizes[d] - g.sizes()[d]);
  }
  return constant_pad_nd(g, pad, 0);
}

// The part of src that the index reads.
Tensor read_source(const Tensor& src, const Tensor& index) {
  Tensor part = src;
  for (int64_t d = 0; d < index.dim(); ++d) part = part.narrow(d, 0, index.size(d));
  return part;
}

// A factor's derivative is the product of the others. Factors of 0 are set apart: where there is
// one at a place, the others' product belongs to it alone, where there are more, every derivative
// is 0.
Tensors scatter_multiply_vjp(const Vjp& v) {
  const int64_t d = v.integer(0);
  const Tensor &self = v.in(0), &index = v.in(1), &src = v.in(2);
  Tensors out(3);
  if (v.needs(0)) out[0] = _scatter_multiply(v.grad, d, index, src);
  if (!v.needs(2)) return out;
  const Tensor factors = read_source(src, index), zero = factors.eq(0);
  const Tensor zeros_at =
      self.eq(0).to(kInt64).scatter_add(d, index, zero.to(kInt64)).gather(d, index);
  const Tensor product =
      _scatter_multiply(self.masked_fill(self.eq(0), 1), d, index, factors.masked_fill(zero, 1));
  const Tensor others = product.gather(d, index) / factors.masked_fill(zero, 1);
  const Tensor none = zeros_at.sub(zero.to(kInt64)).gt(0);  // another factor is 0
  out[2] = source_gradient(v, (v.grad.gather(d, index) * others).masked_fill(none, 0));
  return out;
}

// The gradient of a place goes to what is equal to it, in equal shares.
Tensors scatter_extreme_vjp(const Vjp& v) {
  const int64_t d = v.integer(0);
  const Tensor &self = v.in(0), &index = v.in(1), &out = v.out();
  const Tensor self_is = self.eq(out),
               src_is = read_source(v.in(2), index).eq(out.gather(d, index));
  const DType type = v.grad.dtype();
  const Tensor count = self_is.to(type).scatter_add(d, index, src_is.to(type)).clamp_min(1);
  const Tensor share = v.grad / count;
  Tensors gradients(3);
  if (v.needs(0)) gradients[0] = share.masked_fill(self_is.logical_not(), 0);
  if (v.needs(2))
    gradients[2] = source_gradient(v, share.gather(d, index).masked_fill(src_is.logical_not(), 0));
  return gradients;
}

Cost gather_cost(const Call& c) {
  return {0, static_cast<double>(2 * c.out().nbytes() + c.in(1).nbytes())};
}

Cost scatter_cost(const Call& c) { return {0, moved_bytes(c)}; }

}  // namespace

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
    .check = check_positions,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      const Tensor start = zeros({}, v.grad.dtype()).expand(v.in_sizes(0));
      return {start.scatter_add(v.integer(0), v.in(1), v.grad), Tensor()};
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
    .kernel = run_scatter<ScatterAs::Copy>,
    .check = check_positions,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.needs(0) ? v.grad.scatter(v.integer(0), v.in(1), 0) : Tensor(), Tensor(),
              v.needs(2) ? source_gradient(v, v.grad.gather(v.integer(0), v.in(1))) : Tensor()};
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
    .writes_over = 1,
};

extern constinit const OpDef scatter_value_op = {
    .schema = "scatter[_].value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    .doc = "self with one value written to the places that the index names.",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost = scatter_cost,
    .kernel = run_scatter_value,
    .check = check_positions,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad.scatter(v.integer(0), v.in(1), 0), Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 2}), 0, sample_ints({2, 2}, 0, 4), 1.5});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), 1}, "index 3 is out of bounds");
        },
    .writes_over = 1,
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
    .kernel = run_scatter<ScatterAs::Add>,
    .check = check_positions,
    .saved = Saved::input(1),
    .vjp = [](const Vjp& v) -> Tensors {
      return {v.grad, Tensor(),
              v.needs(2) ? source_gradient(v, v.grad.gather(v.integer(0), v.in(1))) : Tensor()};
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
    .writes_over = 1,
};

extern constinit const OpDef scatter_multiply_op = {
    .schema = "_scatter_multiply(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    .doc = "self with out[index[i][j]][j] multiplied by src[i][j] for dim 0, and so on.",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(1).numel()), moved_bytes(c)};
        },
    .kernel = run_scatter<ScatterAs::Multiply>,
    .check = check_positions,
    .saved = Saved::Inputs,
    .vjp = scatter_multiply_vjp,
    .samples =
        [](Samples& s) {
          s.add(
              {sample_randn({4, 2}, 0.1), 0, sample_ints({3, 2}, 0, 4), sample_randn({3, 2}, 0.1)});
          s.add({sample_randn({2, 4}, 0.1), -1, sample_ints({2, 2}, 0, 4),
                 sample_randn({2, 3}, 0.1)});
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2})},
                  "index 3 is out of bounds");
        },
};

extern constinit const OpDef scatter_extreme_op = {
    .schema =
        "_scatter_extreme(Tensor self, int dim, Tensor index, Tensor src, bool greatest) -> Tensor",
    .doc = "self with out[index[i][j]][j] the greatest (or the least) of it and src[i][j].",
    .kind = OpKind::Index,
    .infer = infer_scatter,
    .cost =
        [](const Call& c) {
          return Cost{static_cast<double>(c.in(1).numel()), moved_bytes(c)};
        },
    .kernel = run_scatter<ScatterAs::Extreme>,
    .check = check_positions,
    .saved = Saved::InputsAndOutputs,
    .vjp = scatter_extreme_vjp,
    .samples =
        [](Samples& s) {
          for (const bool greatest : {true, false}) {
            s.add({sample_randn({4, 2}), 0, sample_ints({6, 2}, 0, 4), sample_randn({6, 2}),
                   greatest});
            s.add({sample_randn({2, 4}), -1, sample_ints({2, 2}, 0, 4), sample_randn({2, 3}),
                   greatest});
          }
          s.error({sample_randn({3}), 0, sample_ints({2}, 3, 4), sample_randn({2}), true},
                  "index 3 is out of bounds");
        },
};

extern constinit const OpDef take_along_dim_op = {
    .schema = "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    .doc = "gather after broadcasting in the other dims; without dim over the flattened tensors.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor &self = c.in(0), &given = c.in(1);
      check_index_dtype(c, given);
      const int64_t size = c.has_attr(0) && self.dim() > 0 ? self.size(c.integer(0)) : self.numel();
      const Tensor indices = where(given.lt(0), given.add(size), given);  // negative: from the end
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
          s.add({sample_randn({4, 3}), sample_ints({2, 3}, -4, 4), 0});
          s.error({sample_randn({4, 3}), sample_ints({3}, 0, 4), 0}, "as many dims as self");
        },
};

}  // namespace pellucid
