// Joining tensors (cat, stack and their relatives) and repeating them. cat and stack copy each
// input once, straight to its place. Cutting tensors is in shape_split.cpp.
#include "kernels/copy.h"
#include "ops/common.h"
#include "pellucid/ops.h"

namespace pellucid {

namespace {

Tensors inputs_of(const Call& c) {
  Tensors out;
  out.reserve(c.input_count());
  for (const Tensor* t : c.inputs()) out.push_back(*t);
  return out;
}

// PyTorch lets cat skip tensors of sizes [0], whatever the others' sizes are.
bool is_skipped(IntArrayRef sizes) { return sizes.size() == 1 && sizes[0] == 0; }

// The dim along which a cat of inputs of `ndim` dimensions joins.
int64_t joined_dim(int64_t dim, int64_t ndim) { return wrap_dim("cat", dim, ndim); }

void infer_cat(Call& c) {
  PELLUCID_CHECK(c.input_count() > 0, ValueError,
                 "cat: at least one tensor is needed, the list is empty.");
  const Tensor* model = nullptr;
  for (size_t i = 0; i < c.input_count(); ++i) {
    check_defined(c, i, "tensors");
    PELLUCID_CHECK(c.in(i).dim() > 0, ShapeError,
                   "cat: tensor {} has no dimensions; use stack, or unsqueeze(0) it first.", i);
    if (!model && !is_skipped(c.in(i).sizes())) model = &c.in(i);
  }
  if (!model) model = &c.in(0);
  const auto d = static_cast<size_t>(joined_dim(c.integer(0), model->dim()));
  Dims sizes(model->sizes());
  sizes[d] = 0;
  bool channels_last = model->dim() == 4, hidden = false;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const Tensor& t = c.in(i);
    if (is_skipped(t.sizes())) continue;
    bool fits = t.dim() == model->dim();
    for (size_t k = 0; fits && k < sizes.size(); ++k) fits = k == d || t.sizes()[k] == sizes[k];
    PELLUCID_CHECK(fits, ShapeError,
                   "cat: tensors must have equal sizes except in dim {}; tensor {} has sizes {}, "
                   "the first {}.",
                   d, i, t.sizes(), model->sizes());
    PELLUCID_CHECK(!__builtin_add_overflow(sizes[d], t.sizes()[d], &sizes[d]), ValueError,
                   "cat: dim {} would pass 2^63 - 1 entries.", d);
    channels_last = channels_last && t.impl().is_channels_last() && !t.impl().is_contiguous();
    hidden |= t.impl().hidden_layout;
  }
  const DType dtype = result_type(c);
  if (channels_last)
    c.make_output(sizes, detail::channels_last_strides(sizes), dtype, hidden);
  else
    c.make_output(sizes, dtype);
}

void run_cat(Call& c) {
  const detail::TensorImpl& out = c.out().impl();
  const auto d = static_cast<size_t>(joined_dim(c.integer(0), c.out().dim()));
  int64_t start = 0;
  for (const Tensor* t : c.inputs()) {
    const detail::TensorImpl& from = t->impl();
    if (is_skipped(from.sizes)) continue;
    char* to = static_cast<char*>(out.data()) + start * out.strides[d] * element_size(out.dtype);
    kernels::copy_strided(from.sizes, to, out.dtype, out.strides.data(), from.data(), from.dtype,
                          from.strides.data());
    start += from.sizes[d];
  }
}

Tensors cat_vjp(const Vjp& v) {
  Tensors out(v.input_count());
  const int64_t d = joined_dim(v.integer(0), v.grad.dim());
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool skipped = is_skipped(v.in_sizes(i)) && (v.grad.dim() != 1);
    const int64_t length = skipped ? 0 : v.in_sizes(i)[static_cast<size_t>(d)];
    if (v.needs(i))
      out[i] = skipped ? zeros({0}, v.in_dtype(i)) : v.grad.slice(d, start, start + length, 1);
    start += length;
  }
  return out;
}

void infer_stack(Call& c) {
  PELLUCID_CHECK(c.input_count() > 0, ValueError,
                 "stack: at least one tensor is needed, the list is empty.");
  for (size_t i = 0; i < c.input_count(); ++i) {
    check_defined(c, i, "tensors");
    PELLUCID_CHECK(c.in(i).sizes() == c.in(0).sizes(), ShapeError,
                   "stack: tensors must have equal sizes; tensor {} has sizes {}, the first {}.", i,
                   c.in(i).sizes(), c.in(0).sizes());
  }
  const int64_t d = wrap_dim("stack", c.integer(0), c.in(0).dim() + 1);
  Dims sizes(c.in(0).sizes());
  sizes.insert(static_cast<size_t>(d), static_cast<int64_t>(c.input_count()));
  c.make_output(sizes, result_type(c));
}

void run_stack(Call& c) {
  const detail::TensorImpl& out = c.out().impl();
  const auto d = static_cast<size_t>(wrap_dim("stack", c.integer(0), c.out().dim()));
  Dims strides(out.strides);
  strides.erase(d);
  char* to = static_cast<char*>(out.data());
  for (const Tensor* t : c.inputs()) {
    const detail::TensorImpl& from = t->impl();
    kernels::copy_strided(from.sizes, to, out.dtype, strides.data(), from.data(), from.dtype,
                          from.strides.data());
    to += out.strides[d] * element_size(out.dtype);
  }
}

Tensors stack_vjp(const Vjp& v) {
  Tensors out(v.input_count());
  for (size_t i = 0; i < out.size(); ++i)
    if (v.needs(i)) out[i] = v.grad.select(v.integer(0), static_cast<int64_t>(i));
  return out;
}

}  // namespace

extern constinit const OpDef cat_op = {
    .schema = "cat|concat|concatenate(Tensor[] tensors, int dim=0) -> Tensor",
    .doc = "Joins tensors along an existing dim.",
    .kind = OpKind::Index,
    .infer = infer_cat,
    .cost = move_cost,
    .kernel = run_cat,
    .vjp = cat_vjp,
    .onnx = {"Concat", 13},
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2, 3}), sample_randn({1, 3})})});
          s.add({Value::tensors({sample_randn({2, 3}), sample_randn({2, 2}), sample_randn({2, 1})}),
                 -1});
          s.add({Value::tensors({sample_randn({0}), sample_randn({2, 3})}), 1});
          s.add({Value::tensors({sample_randn({3, 2}).transpose(0, 1), sample_randn({2, 3})})});
          s.add_no_grad({Value::tensors({sample_ints({2}, 0, 9), sample_randn({3})})});
          s.error({Value::tensors({sample_randn({2, 3}), sample_randn({2, 4})})},
                  "tensor 1 has sizes [2, 4], the first [2, 3]");
          s.error({Value::tensors({sample_randn({}), sample_randn({})})}, "has no dimensions");
          s.error({Value(Values{})}, "the list is empty");
          s.large([] {
            return Values{Value::tensors({randn({2048, 1024}), randn({2048, 1024})}), 1};
          });
        },
    .any_layout = true,
};

extern constinit const OpDef stack_op = {
    .schema = "stack(Tensor[] tensors, int dim=0) -> Tensor",
    .doc = "Joins tensors of equal sizes along a new dim.",
    .kind = OpKind::Index,
    .infer = infer_stack,
    .cost = move_cost,
    .kernel = run_stack,
    .vjp = stack_vjp,
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2, 3}), sample_randn({2, 3})})});
          s.add({Value::tensors({sample_randn({2}), sample_randn({2}), sample_randn({2})}), -1});
          s.add({Value::tensors({sample_randn({}), sample_randn({})})});
          s.error({Value::tensors({sample_randn({2}), sample_randn({3})})},
                  "tensor 1 has sizes [3], the first [2]");
          s.large([] {
            return Values{Value::tensors({randn({2048, 1024}), randn({2048, 1024})})};
          });
        },
};

extern constinit const OpDef hstack_op = {
    .schema = "hstack(Tensor[] tensors) -> Tensor",
    .doc = "Joins along dim 1, or dim 0 for vectors.",
    .compose = [](const Call& c) -> Tensors {
      Tensors in = inputs_of(c);
      PELLUCID_CHECK(!in.empty(), ValueError,
                     "hstack: at least one tensor is needed, the list is empty.");
      for (Tensor& t : in) t = t.atleast_1d();
      return {cat(in, in[0].dim() == 1 ? 0 : 1)};
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2}), sample_randn({3})})});
          s.add({Value::tensors({sample_randn({2, 1}), sample_randn({2, 3})})});
        },
};

extern constinit const OpDef vstack_op = {
    .schema = "vstack|row_stack(Tensor[] tensors) -> Tensor",
    .doc = "Joins along dim 0; vectors become rows.",
    .compose = [](const Call& c) -> Tensors {
      Tensors in = inputs_of(c);
      for (Tensor& t : in) t = t.atleast_2d();
      return {cat(in, 0)};
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({3}), sample_randn({2, 3})})});
        },
};

extern constinit const OpDef dstack_op = {
    .schema = "dstack(Tensor[] tensors) -> Tensor",
    .doc = "Joins along dim 2; vectors become [1, n, 1], matrices [m, n, 1].",
    .compose = [](const Call& c) -> Tensors {
      Tensors in = inputs_of(c);
      for (Tensor& t : in) t = t.atleast_3d();
      return {cat(in, 2)};
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2, 3}), sample_randn({2, 3})})});
        },
};

extern constinit const OpDef column_stack_op = {
    .schema = "column_stack(Tensor[] tensors) -> Tensor",
    .doc = "Joins along dim 1; vectors become columns.",
    .compose = [](const Call& c) -> Tensors {
      Tensors in = inputs_of(c);
      for (Tensor& t : in)
        if (t.dim() <= 1) t = t.reshape({t.numel(), 1});
      return {hstack(in)};
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2}), sample_randn({2, 3})})});
        },
};

extern constinit const OpDef block_diag_op = {
    .schema = "block_diag(Tensor[] tensors) -> Tensor",
    .doc = "A matrix with the given matrices along its diagonal and zeros elsewhere.",
    .compose = [](const Call& c) -> Tensors {
      Tensors in = inputs_of(c);
      int64_t columns = 0, left = 0;
      for (Tensor& t : in) {
        PELLUCID_CHECK(t.dim() <= 2, ShapeError,
                       "block_diag: tensors of at most 2 dimensions are needed, found sizes {}.",
                       t.sizes());
        t = t.atleast_2d();
        columns += t.size(1);
      }
      if (in.empty()) return {zeros({1, 0})};
      for (Tensor& t : in) {
        const int64_t width = t.size(1);
        t = constant_pad_nd(t, {left, columns - left - width}, 0);
        left += width;
      }
      return {cat(in, 0)};
    },
    .samples =
        [](Samples& s) {
          s.add({Value::tensors({sample_randn({2, 3}), sample_randn({2}), sample_randn({})})});
          s.error({Value::tensors({sample_randn({2, 3, 4})})}, "at most 2 dimensions");
        },
};

extern constinit const OpDef repeat_op = {
    .schema = "repeat(Tensor self, int[] repeats) -> Tensor",
    .doc = "The tensor repeated along each dim; more numbers than dims add dims in front.",
    .compose = [](const Call& c) -> Tensors {
      const Tensor& self = c.in(0);
      const IntArrayRef repeats = c.ints(0);
      PELLUCID_CHECK(repeats.size() >= static_cast<size_t>(self.dim()), ShapeError,
                     "repeat: {} numbers were given for a tensor of {} dimensions (sizes {}); give "
                     "one for each dim.",
                     repeats.size(), self.dim(), self.sizes());
      // Each dim becomes a pair [repeats, size]: one expanded view, then one copy.
      const size_t added = repeats.size() - static_cast<size_t>(self.dim());
      Dims pairs, expanded, result;
      for (size_t i = 0; i < repeats.size(); ++i) {
        PELLUCID_CHECK(repeats[i] >= 0, ValueError,
                       "repeat: numbers must not be negative, found {}.", repeats);
        const int64_t size = i < added ? 1 : self.sizes()[i - added];
        for (int64_t n : {int64_t{1}, size}) pairs.push_back(n);
        for (int64_t n : {repeats[i], size}) expanded.push_back(n);
        int64_t total = 0;
        PELLUCID_CHECK(!__builtin_mul_overflow(repeats[i], size, &total), ValueError,
                       "repeat: {} of sizes {} pass 2^63 - 1 elements.", repeats, self.sizes());
        result.push_back(total);
      }
      const Tensor wide = self.reshape(pairs).expand(expanded);
      return {wide.clone(MemoryFormat::Contiguous).view(result)};
    },
    .onnx = {"Tile", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({2, 2})});
          s.add({sample_randn({3}), Value::ints({2, 1})});
          s.add({sample_randn({}), Value::ints({3})});
          s.add({sample_randn({2}), Value::ints({0})});
          s.error({sample_randn({2, 3}), Value::ints({2})},
                  "1 numbers were given for a tensor of 2 dimensions");
          s.large([] { return Values{randn({1024, 1024}), Value::ints({2, 2})}; });
        },
};

extern constinit const OpDef tile_op = {
    .schema = "tile(Tensor self, int[] dims) -> Tensor",
    .doc = "repeat; missing leading numbers count as 1.",
    .compose = [](const Call& c) -> Tensors {
      Dims repeats(c.ints(0));
      while (repeats.size() < static_cast<size_t>(c.in(0).dim())) repeats.insert(0, 1);
      return {c.in(0).repeat(repeats)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), Value::ints({2})});
          s.add({sample_randn({3}), Value::ints({2, 2})});
        },
};

}  // namespace pellucid
