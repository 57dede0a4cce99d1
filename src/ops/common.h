// What ops of several families share: shapes, dtypes, dims, and checks with messages in one
// wording.
#pragma once

#include "kernels/pointwise.h"
#include "pellucid/op.h"

namespace pellucid {

/// The sizes to which all given sizes broadcast; throws ShapeError naming `op`.
Dims broadcast_sizes(std::string_view op, IntArrayRef a, IntArrayRef b);
/// Whether `from` broadcasts to `to`.
bool broadcasts_to(IntArrayRef from, IntArrayRef to);
/// PyTorch's result type of the call's defined inputs: tensors with dimensions first, then 0-dim
/// ones, then numbers.
DType result_type(std::span<const Tensor* const> inputs);
inline DType result_type(const Call& c) {
  // Nearly always there are two tensors of one dtype.
  if (c.input_count() == 2 && c.has_in(0) && c.has_in(1)) {
    const detail::TensorImpl &a = c.in(0).impl(), &b = c.in(1).impl();
    if (a.dtype == b.dtype && !a.wrapped_number) return a.dtype;
  }
  return result_type(c.inputs());
}
/// Integers become the default floating dtype.
DType to_float(DType t);
/// The type in which a kernel computes values of t: float for 16-bit floats, int32 for small
/// integers and bool.
DType compute_type(DType t);

/// 0 <= dim < ndim from a possibly negative dim; throws IndexError. A 0-dim tensor has the one dim
/// 0 (or -1).
int64_t wrap_dim(std::string_view op, int64_t dim, int64_t ndim);
/// Wrapped, checked for repeats, sorted; empty or absent means all dims when `empty_is_all`.
Dims wrap_dims(std::string_view op, OptionalIntArrayRef dims, int64_t ndim,
               bool empty_is_all = true);
/// Sizes after reducing `dims` (sorted).
Dims reduced_sizes(IntArrayRef sizes, IntArrayRef dims, bool keepdim);
/// Puts size-1 dims back where `dims` (sorted) were reduced, so that a reduced tensor broadcasts
/// again.
Tensor restore_dims(const Tensor& reduced, IntArrayRef dims, int64_t ndim, bool keepdim);

void check_floating(const Call& c, const Tensor& t, std::string_view argument);
void check_same_dtype(const Call& c, const Tensor& a, const Tensor& b);
[[noreturn]] void raise_undefined(const Call& c, std::string_view argument);
inline void check_defined(const Call& c, size_t input, std::string_view argument) {
  if (!c.has_in(input)) [[unlikely]]
    raise_undefined(c, argument);
}
void check_dim(const Call& c, const Tensor& t, int64_t dims, std::string_view argument);

/// Makes output k for a pointwise result: broadcast sizes, and the memory order of the inputs where
/// they agree on one (channels-last stays channels-last; hidden only if some input's was).
void make_pointwise_output(Call& c, DType dtype);
/// The output strides of a result that keeps the memory order of `like` (dense), row-major
/// otherwise.
Dims dense_strides_like(const Tensor& like);

/// Bytes of all defined inputs plus all outputs: the least that a one-pass kernel moves.
double moved_bytes(const Call& c);
/// The Cost of output 0 alone, which is written, and of moving data: no FLOPs.
Cost write_cost(const Call& c);
Cost move_cost(const Call& c);
/// A Cost of `flops_per_element` per element of output 0 and moved_bytes.
Cost elementwise_cost(const Call& c, double flops_per_element);
/// The strides of `t` over a shape that it is broadcast to: 0 where it is repeated.
void broadcast_strides(const Tensor& t, IntArrayRef shape, int64_t* out);

/// Runs the loop for the computation type over the call's inputs `first…` into output 0,
/// broadcasting as needed. `computed` is the type of the inputs in the loop, `out_computed` that of
/// its result (kBool for predicates). A number or 0-dim tensor of another dtype passes through
/// `promoted`: uint8 < -1 compares with 255, as in PyTorch.
void run_loop(const Call& c, const kernels::LoopTable& loops, const void* formula, DType computed,
              DType out_computed, std::span<const size_t> inputs, double work,
              bool first_is_bool = false, std::optional<DType> promoted = std::nullopt);

/// The samples of an op that backward_of (formula.h) made: those of the op it belongs to, with a
/// gradient before them.
void derived_backward_samples(const OpDef& backward, bool from_output, Samples& s);

/// A row-major copy if t is not row-major already.
Tensor contiguous_values(const Tensor& t);
/// Whether `t`'s elements fill their memory without gaps, in some order of dims.
bool is_dense(const Tensor& t);

/// The op of a factory as one that refuses some values.
constexpr OpDef checked(OpDef op, void (*check)(const Call&)) {
  op.check = check;
  return op;
}

}  // namespace pellucid
