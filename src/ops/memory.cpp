// Making, filling and copying tensors: the ops that only move bytes.
#include <algorithm>
#include <cstring>

#include "kernels/copy.h"
#include "ops/common.h"
#include "ops/number_range.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"
#include "tensor/layout.h"

namespace pellucid {
namespace {

void infer_new(Call& c) { c.make_output(c.ints(0), c.dtype_if(1).value_or(get_default_dtype())); }

DType dtype_of_fill(const Scalar& value, std::optional<DType> given) {
  if (given) return *given;
  return value.isBoolean() ? kBool : value.isIntegral() ? kInt64 : get_default_dtype();
}

void fill_with(const Tensor& t, const Scalar& value) {
  if (t.numel() == 0) return;
  Dims sizes = t.impl().sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (t.raw_strides()[d] == 0) sizes[d] = 1;  // elements that share one location
  visit(t.dtype(), [&](auto v) {
    using T = decltype(v);
    const T x = value.to<T>();
    kernels::fill_strided(sizes, t.raw_data(), t.dtype(), t.raw_strides().data(), &x);
  });
}

void check_fill_value(const Call& c) {
  if (is_integral(c.out().dtype(), false)) check_fits(c.name(), c.in(1).item(), c.out().dtype());
}

// Strides of a copy of `self` in the asked memory format; "preserve" keeps a dense order.
void make_copy_output(Call& c, DType dtype, std::optional<MemoryFormat> format) {
  const Tensor& self = c.in(0);
  switch (format.value_or(MemoryFormat::Preserve)) {
    case MemoryFormat::Contiguous:
      c.make_output(self.sizes(), dtype);
      break;
    case MemoryFormat::ChannelsLast:
      check_dim(c, self, 4, "self");
      c.make_output(self.sizes(), detail::channels_last_strides(self.sizes()), dtype);
      break;
    case MemoryFormat::Preserve:
      c.make_output(self.sizes(), dense_strides_like(self), dtype, self.impl().hidden_layout);
      break;
  }
}

std::optional<MemoryFormat> format_if(const AttrReader& a, size_t i) {
  return a.has_attr(i) ? std::optional(a.attr(i).format()) : std::nullopt;
}

void run_copy_of_self(Call& c) {
  const detail::TensorImpl& to = c.out().impl();
  const detail::TensorImpl& from = c.in(0).impl();
  kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), from.data(), from.dtype,
                        from.strides.data());
}

void infer_copy(Call& c) {
  check_defined(c, 0, "self");
  check_defined(c, 1, "src");
  PELLUCID_CHECK(broadcasts_to(c.in(1).sizes(), c.in(0).sizes()), ShapeError,
                 "copy: sizes {} do not broadcast to the sizes {} of the tensor to be changed.",
                 c.in(1).sizes(), c.in(0).sizes());
  c.make_output(c.in(0).sizes(), c.in(0).dtype());
}

void run_copy(Call& c) {
  const detail::TensorImpl& to = c.out().impl();
  const detail::TensorImpl& from = c.in(1).impl();
  if (to.numel == 0) return;
  Dims strides(to.sizes.size(), 0);
  for (size_t i = 0; i < from.sizes.size(); ++i) {
    const size_t d = to.sizes.size() - from.sizes.size() + i;
    strides[d] = from.sizes[i] == 1 ? 0 : from.strides[i];
  }
  kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), from.data(), from.dtype,
                        strides.data());
}

void infer_fill(Call& c) {
  check_defined(c, 0, "self");
  PELLUCID_CHECK(c.in(1).dim() == 0, ShapeError,
                 "fill: the value must be a number or a 0-dimensional tensor, found sizes {}.",
                 c.in(1).sizes());
  c.make_output(c.in(0).sizes(), dense_strides_like(c.in(0)), c.in(0).dtype());
}

void infer_like(Call& c) {
  check_defined(c, 0, "self");
  make_copy_output(c, c.dtype_if(0).value_or(c.in(0).dtype()), format_if(c, 1));
}

void infer_full_like(Call& c) {
  check_defined(c, 0, "self");
  make_copy_output(c, c.dtype_if(1).value_or(c.in(0).dtype()), format_if(c, 2));
}

}  // namespace

extern constinit const OpDef empty_op = {
    .schema = "empty(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "A tensor whose values are whatever the memory held.",
    .kind = OpKind::Creation,
    .infer = infer_new,
    .cost = [](const Call&) { return Cost{}; },
    .kernel = [](Call&) {},
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({Value::ints({0, 3})});
          s.error({Value::ints({2, -1})}, "sizes must not be negative");
          s.error({Value::ints({int64_t{1} << 40, int64_t{1} << 40})},
                  "more than 2^63 - 1 elements");
        }};

extern constinit const OpDef empty_strided_op = {
    .schema =
        "empty_strided(int[] size, int[] stride, *, ScalarType? dtype=None, Device? device=None) "
        "-> Tensor",
    .doc = "A tensor with the given strides whose values are whatever the memory held.",
    .kind = OpKind::Creation,
    .infer =
        [](Call& c) {
          PELLUCID_CHECK(c.ints(0).size() == c.ints(1).size(), ShapeError,
                         "empty_strided: {} sizes but {} strides.", c.ints(0).size(),
                         c.ints(1).size());
          for (int64_t s : c.ints(1))
            PELLUCID_CHECK(s >= 0, ValueError,
                           "empty_strided: strides must not be negative, found {}.", c.ints(1));
          c.make_output(c.ints(0), c.ints(1), c.dtype_if(2).value_or(get_default_dtype()));
        },
    .cost = [](const Call&) { return Cost{}; },
    .kernel =
        [](Call& c) {
          // The dispatcher allocated numel elements; a geometry with gaps needs more.
          detail::TensorImpl& t = c.out().impl();
          int64_t last = 0;
          for (size_t i = 0; i < t.sizes.size() && t.numel > 0; ++i) {
            int64_t reach = 0;
            PELLUCID_CHECK(!__builtin_mul_overflow(t.sizes[i] - 1, t.strides[i], &reach) &&
                               !__builtin_add_overflow(last, reach, &last),
                           OutOfMemoryError,
                           "empty_strided: sizes {} and strides {} pass 2^63 elements.", t.sizes,
                           t.strides);
          }
          int64_t bytes = 0;
          PELLUCID_CHECK(
              !__builtin_mul_overflow(last + 1, element_size(t.dtype), &bytes), OutOfMemoryError,
              "empty_strided: sizes {} and strides {} pass 2^63 bytes.", t.sizes, t.strides);
          if (t.numel > 0 && static_cast<size_t>(bytes) > t.storage->bytes)
            t.storage = detail::new_storage(static_cast<size_t>(bytes));
        },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({Value::ints({0, 2}), Value::ints({1, 3})});
          s.error({Value::ints({2}), Value::ints({1, 3})}, "1 sizes but 2 strides");
        }};

extern constinit const OpDef zeros_op = {
    .schema = "zeros(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "A tensor of zeros.",
    .kind = OpKind::Creation,
    .infer = infer_new,
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), int64_t{0}); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({Value::ints({2, 3})});
          s.add({Value::ints({})}, {{"dtype", kInt16}});
          s.error({Value::ints({-2})}, "sizes must not be negative");
        }};

extern constinit const OpDef ones_op = {
    .schema = "ones(int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
    .doc = "A tensor of ones.",
    .kind = OpKind::Creation,
    .infer = infer_new,
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), int64_t{1}); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({Value::ints({2, 3})});
          s.add({Value::ints({3})}, {{"dtype", kBool}});
          s.error({Value::ints({-2})}, "sizes must not be negative");
        }};

extern constinit const OpDef full_op = {
    .schema =
        "full(int[] size, Scalar fill_value, *, ScalarType? dtype=None, Device? device=None) -> "
        "Tensor",
    .doc = "A tensor with every element fill_value; the dtype follows the number unless given.",
    .kind = OpKind::Creation,
    .infer =
        [](Call& c) {
          const DType dtype = dtype_of_fill(c.scalar(1), c.dtype_if(2));
          check_fits(c.name(), c.scalar(1), dtype);
          c.make_output(c.ints(0), dtype);
        },
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), c.scalar(1)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({Value::ints({2, 3}), 0.5});
          s.add({Value::ints({2}), 7});
          s.add({Value::ints({2}), true});
          s.error({Value::ints({-2}), 1}, "sizes must not be negative");
          s.error({Value::ints({2}), 300}, "the value 300 does not fit uint8", {{"dtype", kUInt8}});
        }};

extern constinit const OpDef empty_like_op = {
    .schema =
        "empty_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? "
        "memory_format=None) -> Tensor",
    .doc = "empty with the sizes, dtype and memory order of self.",
    .kind = OpKind::Creation,
    .infer = infer_like,
    .cost = [](const Call&) { return Cost{}; },
    .kernel = [](Call&) {},
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({0, 3})});
        }};

extern constinit const OpDef zeros_like_op = {
    .schema =
        "zeros_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? "
        "memory_format=None) -> Tensor",
    .doc = "zeros with the sizes, dtype and memory order of self.",
    .kind = OpKind::Creation,
    .infer = infer_like,
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), int64_t{0}); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({2, 3})}, {{"dtype", kInt64}});
        }};

extern constinit const OpDef ones_like_op = {
    .schema =
        "ones_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? "
        "memory_format=None) -> Tensor",
    .doc = "ones with the sizes, dtype and memory order of self.",
    .kind = OpKind::Creation,
    .infer = infer_like,
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), int64_t{1}); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_ints({2}, 0, 5)});
        }};

extern constinit const OpDef full_like_op = {
    .schema =
        "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Device? device=None, "
        "MemoryFormat? memory_format=None) -> Tensor",
    .doc = "full with the sizes, dtype and memory order of self.",
    .kind = OpKind::Creation,
    .infer =
        [](Call& c) {
          infer_full_like(c);
          check_fits(c.name(), c.scalar(0), c.out().dtype());
        },
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), c.scalar(0)); },
    .vjp = no_gradient,
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 2.5});
        }};

extern constinit const OpDef copy_op = {
    .schema = "copy[_](Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
    .doc = "The values of src with the sizes and dtype of self; copy_ writes them into self.",
    .kind = OpKind::Index,
    .infer = infer_copy,
    .cost = move_cost,
    .kernel = run_copy,
    .vjp = [](const Vjp& v) -> Tensors {
      return {Tensor(), v.needs(1) ? v.grad : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), sample_randn({3})});
          s.add({sample_randn({2, 3}), sample_randn({2, 3})});
          s.error({sample_randn({2, 3}), sample_randn({4})},
                  "do not broadcast to the sizes [2, 3]");
        },
    .writes_over = 1};

extern constinit const OpDef clone_op = {
    .schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    .doc = "A copy with storage of its own.",
    .kind = OpKind::Pointwise,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          make_copy_output(c, c.in(0).dtype(), format_if(c, 0));
        },
    .cost = move_cost,
    .kernel = run_copy_of_self,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
    .onnx = {"Identity", 13},
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({2, 3}).permute({1, 0})});
          s.add({sample_randn({2, 3, 2, 2})}, {{"memory_format", MemoryFormat::ChannelsLast}});
          s.error({sample_randn({2, 3})}, "'self' must have 4 dimensions",
                  {{"memory_format", MemoryFormat::ChannelsLast}});
          s.large([] { return Values{randn({4096, 1024})}; });
        },
    .any_layout = true};

extern constinit const OpDef relayout_op = {
    .schema = "_relayout(Tensor self) -> Tensor",
    .doc = "The same values in row-major order, for a tensor whose layout an op chose.",
    .kind = OpKind::Pointwise,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          c.make_output(c.in(0).sizes(), c.in(0).dtype());
        },
    .cost = move_cost,
    .kernel = run_copy_of_self,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
          s.add({sample_randn({2, 3, 2, 2}).permute({0, 3, 1, 2})});
          s.error({Value()}, "must be a Tensor");
        },
    .any_layout = true};

extern constinit const OpDef to_copy_op = {
    .schema =
        "_to_copy(Tensor self, *, ScalarType dtype, MemoryFormat? memory_format=None) -> Tensor",
    .doc = "A copy converted to another dtype.",
    .kind = OpKind::Pointwise,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          make_copy_output(c, c.dtype(0), format_if(c, 1));
        },
    .cost = move_cost,
    .kernel = run_copy_of_self,
    .vjp = [](const Vjp& v) -> Tensors { return {v.grad}; },
    .onnx = {"Cast", 13},
    .samples =
        [](Samples& s) {
          s.add_no_grad({sample_randn({2, 3})}, {{"dtype", kFloat32}});
          s.add_no_grad({sample_uniform({2, 3}, -100, 100)}, {{"dtype", kInt32}});
          s.add_no_grad({sample_randn({2, 3})}, {{"dtype", kBFloat16}});
          s.add({sample_randn({2, 3})}, {{"dtype", kFloat64}});
        },
    .any_layout = true};

extern constinit const OpDef contiguous_op = {
    .schema = "contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format) -> Tensor",
    .doc = "self if it is laid out so already, a copy otherwise.",
    .kind = OpKind::Opaque,
    .compose = [](const Call& c) -> Tensors {
      check_defined(c, 0, "self");
      const MemoryFormat format = c.has_attr(0) ? c.attr(0).format() : MemoryFormat::Contiguous;
      if (c.in(0).is_contiguous(format)) return {c.in(0)};
      return {clone(c.in(0), format)};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}).permute({1, 0})});
          s.add({sample_randn({2, 3})});
        }};

extern constinit const OpDef fill_op = {
    .schema = "fill[_](Tensor self, Tensor|Scalar value) -> Tensor",
    .doc = "Every element set to value.",
    .kind = OpKind::Index,
    .infer = infer_fill,
    .cost = write_cost,
    .kernel =
        [](Call& c) {
          check_fill_value(c);
          fill_with(c.out(), c.in(1).item());
        },
    .check = check_fill_value,
    .vjp = [](const Vjp& v) -> Tensors {
      return {Tensor(), v.needs(1) ? v.grad.sum() : Tensor()};
    },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3}), 0.5});
          s.add({sample_randn({2, 3}), sample_randn({})});
          s.error({sample_randn({2, 3}), sample_randn({3})},
                  "must be a number or a 0-dimensional tensor");
          s.error({sample_ints({2}, 0, 9), 1e300}, "does not fit int64");
        },
    .writes_over = 1};

extern constinit const OpDef zero_op = {
    .schema = "zero[_](Tensor self) -> Tensor",
    .doc = "Every element set to 0.",
    .kind = OpKind::Index,
    .infer =
        [](Call& c) {
          check_defined(c, 0, "self");
          c.make_output(c.in(0).sizes(), dense_strides_like(c.in(0)), c.in(0).dtype());
        },
    .cost = write_cost,
    .kernel = [](Call& c) { fill_with(c.out(), int64_t{0}); },
    .vjp = [](const Vjp&) -> Tensors { return {Tensor()}; },
    .samples =
        [](Samples& s) {
          s.add({sample_randn({2, 3})});
        },
    .writes_over = 1};

Tensor detail::row_major(const Tensor& t) {
  const AutoGradMode off(false);
  const MemoryCategoryGuard same_category(t.impl().storage->category);
  return _relayout(t);
}

}  // namespace pellucid
