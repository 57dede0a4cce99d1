// Indexing by tensors, as x[i, :, j] with i and j tensors: index and index_put. Index tensors
// broadcast against each other; a bool mask stands for the positions where it is true. Where index
// tensors are side by side their common dims take their place, otherwise they come first. Indexing
// by numbers and slices is indexing_api.cpp's.
#include "kernels/index.h"

#include "kernels/copy.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == kBool || t.dtype() == kUInt8; }

/// The index tensors of a call; undefined entries take a dim whole.
using Indices = std::span<const Tensor* const>;

// Everything that can be known without reading masks: dtypes, how many dims are indexed, the shapes
// of masks.
void check_indices(const Call& c, Indices indices) {
  const IntArrayRef sizes = c.in(0).sizes();
  size_t dim = 0, defined = 0;
  for (const Tensor* t : indices) {
    if (!t->defined()) {
      ++dim;
      continue;
    }
    ++defined;
    PELLUCID_CHECK(is_mask(*t) || t->dtype() == kInt64 || t->dtype() == kInt32, TypeError,
                   "{}: tensors used as indices must be int64, int32, bool or uint8, found {}.",
                   c.name(), t->dtype());
    if (is_mask(*t)) {
      PELLUCID_CHECK(t->dim() > 0, IndexError,
                     "{}: a mask must have at least 1 dimension; unsqueeze(0) self and the mask.",
                     c.name());
      for (size_t i = 0; i < t->sizes().size(); ++i)
        PELLUCID_CHECK(
            dim + i < sizes.size() && t->sizes()[i] == sizes[dim + i], IndexError,
            "{}: the mask has sizes {} but must match those of self from dim {} on (self {}).",
            c.name(), t->sizes(), dim, sizes);
      dim += t->sizes().size();
    } else {
      ++dim;
    }
  }
  PELLUCID_CHECK(defined > 0, ValueError, "{}: at least one index tensor is needed.", c.name());
  PELLUCID_CHECK(dim <= sizes.size(), IndexError,
                 "{}: too many indices: {} for a tensor of {} dimensions (sizes {}).", c.name(),
                 dim, sizes.size(), sizes);
}

bool has_mask(Indices indices) {
  for (const Tensor* t : indices)
    if (t->defined() && is_mask(*t)) return true;
  return false;
}

// int64 tensors by dim; masks become the coordinates of their true elements.
Tensors by_dim(Indices indices) {
  Tensors out;
  for (const Tensor* t : indices) {
    if (!t->defined())
      out.emplace_back();
    else if (!is_mask(*t))
      out.push_back(t->to(kInt64));
    else
      for (Tensor& coordinate : t->nonzero().unbind(1)) out.push_back(coordinate);
  }
  return out;
}

/// Where the dims of self and of the result come from.
struct Layout {
  Dims common;         ///< the shape to which the index tensors broadcast
  Dims before, after;  ///< dims of self around the common ones, not indexed
  Dims sizes() const {
    Dims out;
    for (int64_t n : before) out.push_back(n);
    for (int64_t n : common) out.push_back(n);
    for (int64_t n : after) out.push_back(n);
    return out;
  }
};

/// Dims of self (numbers of dims, not sizes) before and after the common dims.
struct DimOrder {
  std::vector<size_t> before, indexed, after;
};

DimOrder order_of(const Tensors& indices, size_t ndim) {
  DimOrder o;
  for (size_t d = 0; d < indices.size(); ++d)
    if (indices[d].defined()) o.indexed.push_back(d);
  const bool adjacent = o.indexed.back() - o.indexed.front() + 1 == o.indexed.size();
  for (size_t d = 0; d < ndim; ++d) {
    if (d < indices.size() && indices[d].defined()) continue;
    (adjacent && d < o.indexed.front() ? o.before : o.after).push_back(d);
  }
  return o;
}

Layout layout_of(std::string_view op, const Tensors& indices, const DimOrder& order,
                 IntArrayRef sizes) {
  Layout l;
  bool first = true;
  for (size_t d : order.indexed) {
    l.common = first ? Dims(indices[d].sizes()) : broadcast_sizes(op, l.common, indices[d].sizes());
    first = false;
  }
  for (size_t d : order.before) l.before.push_back(sizes[d]);
  for (size_t d : order.after) l.after.push_back(sizes[d]);
  return l;
}

Dims strides_over(const Tensor& t, IntArrayRef shape) {
  Dims out(shape.size(), 0);
  broadcast_strides(t, shape, out.data());
  return out;
}

// The one stride with which several dims are walked as a line, or nothing.
std::optional<int64_t> line_stride(IntArrayRef sizes, IntArrayRef strides) {
  std::optional<int64_t> step;
  int64_t expected = 0;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (!step)
      step = strides[i];
    else if (strides[i] != expected)
      return std::nullopt;
    expected = strides[i] * sizes[i];
  }
  return step.value_or(0);
}

/// The call of a kernel: offsets of the common positions in self, and the strides around them.
struct Prepared {
  Layout layout;
  std::vector<int64_t> offsets;
  Dims outer_self, inner_self, outer_other, inner_other;
  int64_t other_stride = 1;

  kernels::IndexArgs args() const {
    return {layout.before,
            outer_self,
            outer_other,
            offsets.data(),
            static_cast<int64_t>(offsets.size()),
            other_stride,
            layout.after,
            inner_self,
            inner_other};
  }
};

Prepared prepare(std::string_view op, const detail::TensorImpl& self, const Tensors& indices) {
  const DimOrder order = order_of(indices, self.sizes.size());
  Prepared p;
  p.layout = layout_of(op, indices, order, self.sizes);
  for (size_t d : order.before) p.outer_self.push_back(self.strides[d]);
  for (size_t d : order.after) p.inner_self.push_back(self.strides[d]);
  std::vector<Dims> strides;
  std::vector<kernels::IndexTensor> tensors;
  strides.reserve(order.indexed.size());
  for (size_t d : order.indexed) {
    strides.push_back(strides_over(indices[d], p.layout.common));
    tensors.push_back({indices[d].raw<int64_t>(), strides.back(), self.sizes[d], self.strides[d]});
  }
  p.offsets.resize(static_cast<size_t>(detail::checked_numel(p.layout.common)));
  const kernels::BadIndex bad = kernels::index_offsets(tensors, p.layout.common, p.offsets.data());
  PELLUCID_CHECK(bad.tensor < 0, IndexError,
                 "{}: index {} is out of bounds for dimension {} with size {} (self {}).", op,
                 bad.value, order.indexed[static_cast<size_t>(bad.tensor)],
                 self.sizes[order.indexed[static_cast<size_t>(bad.tensor)]], self.sizes);
  return p;
}

// Fills in the strides of the result or the values, which must allow the common dims to be walked
// as a line.
bool set_other(Prepared& p, IntArrayRef strides) {
  const size_t before = p.layout.before.size(), common = p.layout.common.size();
  const auto step = line_stride(p.layout.common, strides.slice(before, common));
  if (!step) return false;
  p.other_stride = *step;
  p.outer_other.assign(strides.slice(0, before));
  p.inner_other.assign(strides.slice(before + common));
  return true;
}

// Only for calls without masks: the shapes say everything.
Dims result_sizes(const Call& c, Indices indices) {
  Tensors list;
  for (const Tensor* t : indices) list.push_back(*t);
  return layout_of(c.name(), list, order_of(list, c.in(0).sizes().size()), c.in(0).sizes()).sizes();
}

void infer_index(Call& c) {
  check_defined(c, 0, "self");
  const Indices indices = c.inputs().subspan(1);
  check_indices(c, indices);
  if (has_mask(indices))
    c.make_unknown_output(c.in(0).dtype());
  else
    c.make_output(result_sizes(c, indices), c.in(0).dtype());
}

void run_index(Call& c) {
  const Tensor& self = c.in(0);
  const Indices indices = c.inputs().subspan(1);
  Prepared p = prepare("index", self.impl(), by_dim(indices));
  if (has_mask(indices)) c.set_output(0, empty(p.layout.sizes(), self.dtype()));
  if (c.out().numel() == 0) return;
  PELLUCID_ASSERT(set_other(p, c.out().raw_strides()));
  kernels::index_get(self.element_size(), p.args(), self.raw_data(), c.out().raw_data());
}

Tensors saved_indices(const Vjp& v, size_t end) {
  Tensors out(end - 1);
  for (size_t i = 1; i < end; ++i)
    if (v.has_in(i)) out[i - 1] = v.in(i);
  return out;
}

void infer_index_put(Call& c) {
  check_defined(c, 0, "self");
  const size_t last = c.input_count() - 1;
  check_defined(c, last, "values");
  const Indices indices = c.inputs().subspan(1, last - 1);
  check_indices(c, indices);
  PELLUCID_CHECK(c.in(0).dtype() == c.in(last).dtype(), TypeError,
                 "index_put: self is {} but values is {}; convert one with .to(dtype).",
                 c.in(0).dtype(), c.in(last).dtype());
  if (!has_mask(indices)) {
    const Dims sizes = result_sizes(c, indices);
    PELLUCID_CHECK(
        broadcasts_to(c.in(last).sizes(), sizes), ShapeError,
        "index_put: values of sizes {} do not broadcast to the indexed sizes {} (self {}).",
        c.in(last).sizes(), sizes, c.in(0).sizes());
  }
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

/// What index_put writes to, and whether the values broadcast to it.
Prepared prepare_put(const Call& c, const Tensors& indices) {
  const Tensor& values = c.in(c.input_count() - 1);
  Prepared p = prepare("index_put", c.out().impl(), indices);
  const Dims sizes = p.layout.sizes();
  PELLUCID_CHECK(
      broadcasts_to(values.sizes(), sizes), ShapeError,
      "index_put: values of sizes {} do not broadcast to the indexed sizes {} (self {}).",
      values.sizes(), sizes, c.in(0).sizes());
  return p;
}

// A mask alone, with one value, cannot be wrong: it need not be computed.
void check_index_put(const Call& c) {
  const size_t last = c.input_count() - 1;
  const Indices indices = c.inputs().subspan(1, last - 1);
  const Tensor& values = c.in(last);
  if (indices.size() == 1 && is_mask(*indices[0]) && values.numel() == 1 && values.dim() <= 1)
    return;
  prepare_put(c, by_dim(indices));
}

// Sums whole rows where one dim is indexed and all is row-major: the gradient of x[i], with the
// faster kernel.
bool add_rows(const Tensor& out, const Prepared& p, const Tensors& indices, const Tensor& values,
              IntArrayRef sizes) {
  const DimOrder order = order_of(indices, out.sizes().size());
  if (order.indexed.size() != 1 || !out.impl().is_contiguous() || !values.impl().is_contiguous() ||
      values.sizes() != sizes)
    return false;
  const size_t d = order.indexed[0];
  const int64_t outer = detail::checked_numel(p.layout.before),
                inner = detail::checked_numel(p.layout.after), stride = out.raw_strides()[d];
  std::vector<int64_t> rows(p.offsets);
  for (int64_t& r : rows) r = r == 0 ? 0 : r / stride;  // the stride of a dim of size 1 may be 0
  kernels::index_add(out.dtype(), out.raw_data(), outer, out.sizes()[d], inner, rows.data(),
                     static_cast<int64_t>(rows.size()), values.raw_data(), 1);
  return true;
}

void run_index_put(Call& c) {
  const Tensor& self = c.in(0);
  const Tensor& out = c.out();
  const size_t last = c.input_count() - 1;
  const Tensors indices = by_dim(c.inputs().subspan(1, last - 1));
  Prepared p = prepare_put(c, indices);
  const Dims sizes = p.layout.sizes();
  Tensor values = c.in(last);
  if (!c.in_place())
    kernels::copy_strided(out.sizes(), out.raw_data(), out.dtype(), out.raw_strides().data(),
                          self.raw_data(), self.dtype(), self.raw_strides().data());
  if (detail::checked_numel(sizes) == 0) return;
  if (c.flag(0) && out.dtype() != kBool && add_rows(out, p, indices, values, sizes)) return;
  if (!set_other(p, strides_over(values, sizes))) {
    values = values.detach().expand(sizes).contiguous();
    PELLUCID_ASSERT(set_other(p, values.raw_strides()));
  }
  if (c.flag(0))
    kernels::index_put_add(out.dtype(), p.args(), out.raw_data(), values.raw_data());
  else
    kernels::index_put(out.element_size(), p.args(), out.raw_data(), values.raw_data());
}

Value list_of(std::initializer_list<Value> entries) { return Value(Values(entries)); }

}  // namespace

extern constinit const OpDef index_op = {
    .schema = "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    .doc = "The elements at the positions that index tensors or masks give; a copy.",
    .kind = OpKind::Index,
    .infer = infer_index,
    .cost =
        [](const Call& c) {
          double bytes = 2.0 * static_cast<double>(c.out().nbytes());
          for (size_t i = 1; i < c.input_count(); ++i)
            if (c.has_in(i)) bytes += static_cast<double>(c.in(i).nbytes());
          return Cost{0, bytes};
        },
    .kernel = run_index,
    .check = [](const Call& c) { prepare("index", c.in(0).impl(), by_dim(c.inputs().subspan(1))); },
    .saved = {0xfffffffeu, 0, false},  // the indices
    .vjp = [](const Vjp& v) -> Tensors {
      Tensors out(v.input_count());
      if (v.needs(0))
        out[0] = zeros(v.in_sizes(0), v.grad.dtype())
                     .index_put_(TensorList(saved_indices(v, v.input_count())), v.grad, true);
      return out;
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), list_of({sample_ints({5}, -4, 4)})});
          s.add({sample_randn({3, 4, 2}),
                 list_of({sample_ints({2, 1}, 0, 3), sample_ints({3}, 0, 4)})});
          s.add({sample_randn({3, 2, 4}),
                 list_of({sample_ints({2}, 0, 3), Value(), sample_ints({2}, 0, 4)})});
          s.add({sample_randn({2, 3, 4}), list_of({Value(), sample_ints({2}, 0, 3)})});
          s.add({sample_randn({3, 4}), list_of({sample_randn({3, 4}).gt(0)})});
          s.add({sample_randn({4, 3}).transpose(0, 1), list_of({sample_randn({3}).gt(-9)})});
          s.add({sample_randn({3, 4}), list_of({sample_ints({0}, 0, 1)})});
          s.error({sample_randn({3}), list_of({sample_ints({2}, 5, 6)})},
                  "index 5 is out of bounds for dimension 0 with size 3");
          s.error({sample_randn({3}), list_of({sample_randn({2})})},
                  "must be int64, int32, bool or uint8");
          s.error({sample_randn({3}), list_of({sample_ints({2}, 0, 1), sample_ints({2}, 0, 1)})},
                  "too many indices: 2");
          s.error({sample_randn({3, 4}), list_of({sample_randn({2}).gt(0)})},
                  "must match those of self from dim 0 on");
          s.large([] { return Values{randn({4096, 1024}), Value(Values{randint(4096, {4096})})}; });
        },
};

extern constinit const OpDef index_put_op = {
    .schema =
        "index_put[_](Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> "
        "Tensor",
    .doc = "self with values written, or added, at the positions that index tensors or masks give.",
    .kind = OpKind::Index,
    .infer = infer_index_put,
    .cost =
        [](const Call& c) {
          return Cost{c.flag(0) ? static_cast<double>(c.in(c.input_count() - 1).numel()) : 0,
                      moved_bytes(c)};
        },
    .kernel = run_index_put,
    .check = check_index_put,
    .saved = {0xfffffffeu, 0,
              false},  // the indices; the list's length varies, so values is kept with them, unread
    .vjp = [](const Vjp& v) -> Tensors {
      Tensors out(v.input_count());
      const size_t last = v.input_count() - 1;
      const Tensors indices = saved_indices(v, last);
      if (v.needs(0))
        out[0] = v.flag(0)
                     ? v.grad
                     : v.grad.index_put(TensorList(indices), zeros({}, v.grad.dtype()), false);
      if (v.needs(last)) out[last] = v.grad.index(TensorList(indices));
      return out;
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({4, 3}), list_of({sample_ints({5}, -4, 4)}), sample_randn({5, 3}),
                 true});
          s.add({sample_randn({4, 3}), list_of({sample_ints({1}, 1, 2)}), sample_randn({3})});
          s.add({sample_randn({3, 2, 4}),
                 list_of({sample_ints({2, 1}, 0, 3), Value(), sample_ints({3}, 0, 4)}),
                 sample_randn({2, 1, 2}), true});
          s.add({sample_randn({3, 4}), list_of({sample_randn({3, 4}).gt(0)}), sample_randn({})});
          s.error({sample_randn({3}), list_of({sample_ints({2}, 0, 3)}), sample_randn({3})},
                  "do not broadcast to the indexed sizes [2]");
          s.error({sample_randn({3}), list_of({sample_ints({2}, -9, -8)}), sample_randn({2})},
                  "index -9 is out of bounds");
          s.error({sample_randn({3}), list_of({sample_ints({2}, 0, 3)}), sample_ints({2}, 0, 3)},
                  "self is float64 but values is int64");
          s.large([] {
            return Values{randn({4096, 1024}), Value(Values{randint(4096, {4096})}),
                          randn({4096, 1024}), true};
          });
        },
    .writes_over = 1,
};

extern constinit const OpDef take_op = {
    .schema = "take(Tensor self, Tensor index) -> Tensor",
    .doc = "The elements at the given positions of the flattened tensor.",
    .compose = [](const Call& c) -> Tensors {
      PELLUCID_CHECK(c.in(1).dtype() == kInt64, TypeError, "take: index must be int64, found {}.",
                     c.in(1).dtype());
      const Tensor indices[] = {c.in(1)};
      return {c.in(0).reshape({-1}).index(TensorList(indices))};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({3, 4}), sample_ints({2, 2}, -12, 12)});
          s.error({sample_randn({3}), sample_ints({2}, 7, 8)}, "index 7 is out of bounds");
        },
};

}  // namespace pellucid
