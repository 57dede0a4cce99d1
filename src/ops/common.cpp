// Shapes, dtypes and dims of calls.
#include "ops/common.h"

#include <algorithm>
#include <numeric>

#include "core/generated_support.h"
#include "kernels/convert.h"
#include "kernels/tiles.h"
#include "pellucid/ops.h"
#include "tensor/strides.h"

namespace pellucid {

Dims broadcast_sizes(std::string_view op, IntArrayRef a, IntArrayRef b) {
  const size_t n = std::max(a.size(), b.size());
  Dims out(n, 1);
  for (size_t i = 0; i < n; ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    PELLUCID_CHECK(x == y || x == 1 || y == 1, ShapeError,
                   "{}: sizes {} and {} do not broadcast: {} and {} differ at dimension {} from "
                   "the end, and neither is 1.",
                   op, a, b, x, y, i + 1);
    out[n - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

bool broadcasts_to(IntArrayRef from, IntArrayRef to) {
  if (from.size() > to.size()) return false;
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t x = from[from.size() - 1 - i];
    if (x != 1 && x != to[to.size() - 1 - i]) return false;
  }
  return true;
}

DType result_type(std::span<const Tensor* const> inputs) {
  // Nearly always all dtypes are equal.
  if (!inputs.empty() && inputs[0]->defined() && !inputs[0]->impl().wrapped_number) {
    const DType first = inputs[0]->impl().dtype;
    bool equal = true;
    for (const Tensor* t : inputs.subspan(1))
      equal = equal && t->defined() && t->impl().dtype == first;
    if (equal) return first;
  }
  // Three classes: tensors with dimensions, 0-dim tensors, wrapped numbers. A weaker class decides
  // only when its category (bool < integer < floating) is higher.
  std::optional<DType> best[3];
  for (const Tensor* t : inputs) {
    if (!t->defined()) continue;
    DType d = t->dtype();
    const size_t rank = t->impl().wrapped_number ? 2 : t->dim() == 0 ? 1 : 0;
    if (rank == 2 && d == kFloat64) d = get_default_dtype();
    best[rank] = best[rank] ? promote_types(*best[rank], d) : d;
  }
  const auto category = [](DType t) { return t == kBool ? 0 : is_floating(t) ? 2 : 1; };
  std::optional<DType> result;
  for (const auto& b : best) {
    if (!b) continue;
    if (!result)
      result = b;
    else if (category(*b) > category(*result))
      result = promote_types(*result, *b);
  }
  return result.value_or(get_default_dtype());
}

DType to_float(DType t) { return is_floating(t) ? t : get_default_dtype(); }

DType compute_type(DType t) {
  switch (t) {
    case kFloat64:
      return kFloat64;
    case kFloat32:
    case kFloat16:
    case kBFloat16:
      return kFloat32;
    case kInt64:
      return kInt64;
    default:
      return kInt32;
  }
}

int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim) {
  const int64_t n = std::max<int64_t>(ndim, 1);
  PELLUCID_CHECK(dim >= -n && dim < n, IndexError,
                 "{}: dim {} is out of range; a tensor of {} dimensions has dims {} to {}.", op,
                 dim, ndim, -n, n - 1);
  return dim < 0 ? dim + n : dim;
}

Dims wrap_dims(std::string_view op, OptionalIntArrayRef dims, int64_t ndim, bool empty_is_all) {
  Dims out;
  if (!dims || (dims->empty() && empty_is_all)) {
    for (int64_t d = 0; d < ndim; ++d) out.push_back(d);
    return out;
  }
  for (int64_t d : *dims) out.push_back(wrap_dim(op, d, ndim));
  std::sort(out.begin(), out.end());
  for (size_t i = 1; i < out.size(); ++i)
    PELLUCID_CHECK(out[i] != out[i - 1], ValueError, "{}: dim {} appears more than once in {}.", op,
                   out[i], *dims);
  if (ndim == 0) out.clear();
  return out;
}

Dims reduced_sizes(IntArrayRef sizes, IntArrayRef dims, bool keepdim) {
  Dims out;
  size_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (next < dims.size() && dims[next] == static_cast<int64_t>(i)) {
      ++next;
      if (keepdim) out.push_back(1);
    } else {
      out.push_back(sizes[i]);
    }
  }
  return out;
}

Tensor restore_dims(const Tensor& reduced, IntArrayRef dims, int64_t ndim, bool keepdim) {
  if (keepdim || ndim == 0) return reduced;
  Dims sizes;
  size_t next = 0, from = 0;
  for (int64_t i = 0; i < ndim; ++i) {
    if (next < dims.size() && dims[next] == i) {
      ++next;
      sizes.push_back(1);
    } else
      sizes.push_back(reduced.size(static_cast<int64_t>(from++)));
  }
  return reduced.reshape(sizes);
}

void check_floating(const Call& c, const Tensor& t, std::string_view argument) {
  PELLUCID_CHECK(t.is_floating_point(), TypeError,
                 "{}: '{}' must be a floating tensor, found {}. Convert it with .to(kFloat32).",
                 c.name(), argument, t.dtype());
}

void check_same_dtype(const Call& c, const Tensor& a, const Tensor& b) {
  PELLUCID_CHECK(
      a.dtype() == b.dtype(), TypeError,
      "{}: both tensors must have one dtype, found {} and {}. Convert one with .to(dtype).",
      c.name(), a.dtype(), b.dtype());
}

void raise_undefined(const Call& c, std::string_view argument) {
  detail::raise<ValueError>("{}: '{}' is an undefined tensor.", c.name(), argument);
}

void check_dim(const Call& c, const Tensor& t, int64_t dims, std::string_view argument) {
  PELLUCID_CHECK(t.dim() == dims, ShapeError,
                 "{}: '{}' must have {} dimensions, found {} (sizes {}).", c.name(), argument, dims,
                 t.dim(), t.sizes());
}

bool is_dense(const Tensor& t) { return detail::is_dense(t.impl()); }

Dims dense_strides_like(const Tensor& like) {
  const detail::TensorImpl& impl = like.impl();
  if (impl.is_contiguous()) return detail::contiguous_strides(impl.sizes);
  if (is_dense(like)) return impl.strides;
  // Keep the order of the strides, close the gaps.
  const size_t n = impl.sizes.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return impl.strides[a] > impl.strides[b]; });
  for (size_t d = 0; d < n; ++d)
    if (impl.strides[d] == 0 && impl.sizes[d] != 1)
      return detail::contiguous_strides(impl.sizes);  // expanded
  Dims strides(n, 1);
  int64_t step = 1;
  for (size_t i = n; i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(impl.sizes[order[i]], 1);
  }
  return strides;
}

void make_pointwise_output(Call& c, DType dtype) {
  const Tensor* shape_of = nullptr;  // an input that has the output's sizes already
  bool same = true, all_contiguous = true, any_hidden = false;
  for (const Tensor* t : c.inputs()) {
    if (!t->defined()) continue;
    const detail::TensorImpl& impl = t->impl();
    if (!shape_of)
      shape_of = t;
    else if (!(impl.sizes == shape_of->impl().sizes))
      same = false;
    all_contiguous = all_contiguous && impl.is_contiguous();
    any_hidden |= impl.hidden_layout;
  }
  if (same && all_contiguous) {
    c.make_output(shape_of->impl().sizes, dtype);
    return;
  }
  Dims sizes(shape_of->sizes());
  for (const Tensor* t : c.inputs())
    if (t->defined()) sizes = broadcast_sizes(c.name(), sizes, t->impl().sizes);
  // The first input with the result's sizes that is not row-major decides, as PyTorch's iterator
  // does.
  for (const Tensor* t : c.inputs()) {
    if (!t->defined() || !(t->impl().sizes == sizes)) continue;
    if (t->impl().is_contiguous() && !any_hidden) break;
    if (any_hidden && !t->impl().hidden_layout) continue;
    c.make_output(sizes, dense_strides_like(*t), dtype, t->impl().hidden_layout);
    return;
  }
  c.make_output(sizes, dtype);
}

double moved_bytes(const Call& c) {
  double bytes = 0;
  for (const Tensor* t : c.inputs())
    if (t->defined()) bytes += static_cast<double>(t->nbytes());
  for (size_t k = 0; k < c.output_count(); ++k)
    if (c.out(k).defined()) bytes += static_cast<double>(c.out(k).nbytes());
  return bytes;
}

Cost write_cost(const Call& c) { return {0, static_cast<double>(c.out().nbytes())}; }
Cost move_cost(const Call& c) { return {0, moved_bytes(c)}; }

Cost elementwise_cost(const Call& c, double flops_per_element) {
  return {flops_per_element * static_cast<double>(c.out().numel()), moved_bytes(c)};
}

void broadcast_strides(const Tensor& t, IntArrayRef shape, int64_t* out) {
  detail::broadcast_strides(t.impl(), shape, out);
}

namespace {

// Few elements, all row-major in their compute types: nothing to plan. The dispatcher has computed
// what was pending.
bool run_small(kernels::InnerLoop loop, const void* formula, const Call& c,
               const detail::TensorImpl& out, DType computed, DType out_computed,
               std::span<const size_t> inputs, bool first_is_bool) {
  constexpr int64_t kSmall = 1024;
  if (out.numel > kSmall || out.dtype != out_computed || !out.is_contiguous()) return false;
  const auto address = [](const detail::TensorImpl& t) {
    return static_cast<char*>(t.storage->data) + t.offset * element_size(t.dtype);
  };
  const void* data[4];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const detail::TensorImpl& t = c.in(inputs[i]).impl();
    if (t.dtype != (first_is_bool && i == 0 ? kBool : computed) || t.numel != out.numel ||
        !t.is_contiguous())
      return false;
    data[i] = address(t);
  }
  loop(formula, address(out), data, out.numel);
  return true;
}

}  // namespace

void run_loop(const Call& c, const kernels::LoopTable& loops, const void* formula, DType computed,
              DType out_computed, std::span<const size_t> inputs, double work, bool first_is_bool,
              std::optional<DType> promoted) {
  constexpr size_t kMaxInputs = 4, kInlineDims = 8;
  PELLUCID_ASSERT(inputs.size() <= kMaxInputs);
  const kernels::InnerLoop loop = kernels::loop_for(loops, computed);
  PELLUCID_CHECK(loop, TypeError, "{}: not defined for {}.", c.name(), c.in(inputs[0]).dtype());
  const detail::TensorImpl& out = c.out().impl();
  if (kernels::TileStep* step = c.described()) [[unlikely]] {
    if (!step->set_context(formula, loops.functor_bytes)) return;
    step->loop = loop;
    step->work = work;
    step->out_computed = out_computed;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const DType wanted = first_is_bool && i == 0 ? kBool : computed;
      step->inputs[i] = {.number = static_cast<uint8_t>(inputs[i]),
                         .computed = wanted,
                         .through = wanted == kBool ? kBool : promoted.value_or(computed)};
    }
    step->input_count = static_cast<uint8_t>(inputs.size());
    return;
  }
  if (run_small(loop, formula, c, out, computed, out_computed, inputs, first_is_bool)) return;

  const IntArrayRef shape = out.sizes;
  int64_t inline_strides[kMaxInputs * kInlineDims];
  std::vector<int64_t> heap_strides;
  int64_t* strides = inline_strides;
  if (shape.size() > kInlineDims) {
    heap_strides.resize(kMaxInputs * shape.size());
    strides = heap_strides.data();
  }
  kernels::Operand operands[kMaxInputs];
  alignas(8) char numbers[kMaxInputs][8];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = c.in(inputs[i]);
    int64_t* own = strides + i * shape.size();
    broadcast_strides(t, shape, own);
    const DType wanted = first_is_bool && i == 0 ? kBool : computed;
    operands[i] = {static_cast<char*>(t.raw_data()), t.dtype(), wanted, own};
    if (t.dim() != 0 || t.dtype() == wanted) continue;
    char rounded[8];
    const DType through = wanted == kBool ? kBool : promoted.value_or(computed);
    kernels::block_converter(through, t.dtype())(rounded, t.raw_data(), 1);
    kernels::block_converter(wanted, through)(numbers[i], rounded, 1);
    operands[i].data = numbers[i];
    operands[i].dtype = wanted;
  }
  kernels::run_pointwise(
      loop, formula, shape,
      {static_cast<char*>(out.data()), out.dtype, out_computed, out.strides.data()},
      {operands, inputs.size()}, work);
}

Tensor contiguous_values(const Tensor& t) { return t.impl().is_contiguous() ? t : t.contiguous(); }

void derived_backward_samples(const OpDef& backward, bool from_output, Samples& s) {
  const auto of_forward = [from_output](const Sample& forward) {
    const Tensor read = from_output ? invoke(*forward.op, forward.args, forward.kwargs)[0].tensor()
                                    : forward.args[0].tensor();
    std::vector<Value> args{sample_randn(read.sizes()).to(read.dtype()), read};
    for (size_t i = 1; i < forward.args.size(); ++i) args.push_back(forward.args[i]);
    return args;
  };
  for (const OpDef* op : all_ops()) {
    if (op->backward != &backward) continue;
    const Samples forward = samples_of(*op);
    for (const Sample& sample : forward.valid)
      s.add(of_forward(sample), sample.kwargs).gradients = sample.gradients;
    if (forward.make_large) s.large([=] { return of_forward(forward.make_large()); });
  }
}

}  // namespace pellucid
