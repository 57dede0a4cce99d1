// The only door. Every op, forward or backward, eager or by name, passes through here.
#include <algorithm>
#include <utility>

#include "base/random.h"
#include "core/estimate.h"
#include "core/faces.h"
#include "core/observe.h"
#include "core/registry.h"
#include "core/tape.h"
#include "core/watch.h"
#include "kernels/copy.h"
#include "pellucid/autograd.h"
#include "tensor/autograd_meta.h"

namespace pellucid {

std::string_view Call::name() const { return info_of(op_).name; }

bool Call::wants(size_t k) const {
  const std::string& n = info_of(op_).output_names[k];
  return recording_ || n.empty() || n[0] != '_';
}

void Call::make_output(IntArrayRef sizes, DType dtype) {
  PELLUCID_ASSERT(output_count_ < kMaxOutputs);
  outputs_[output_count_++] = Tensor(detail::new_impl(dtype, sizes));
}

void Call::make_output(IntArrayRef sizes, IntArrayRef strides, DType dtype, bool hidden_layout) {
  make_output(sizes, dtype);
  detail::TensorImpl& impl = outputs_[output_count_ - 1].impl();
  impl.strides.assign(strides);
  impl.hidden_layout = hidden_layout;
}

void Call::make_view(IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  make_output(sizes, in(0).dtype());
  detail::TensorImpl& impl = outputs_[output_count_ - 1].impl();
  impl.strides.assign(strides);
  impl.offset = offset;
  view_mask_ |= static_cast<uint8_t>(1u << (output_count_ - 1));
}

void Call::make_unknown_output(DType dtype) {
  make_output({0}, dtype);
  unknown_mask_ |= static_cast<uint8_t>(1u << (output_count_ - 1));
}

Tensor wrapped_number(const Scalar& value) {
  const DType t = value.type();
  auto impl = detail::new_impl(t, {});
  impl->storage = detail::new_storage(8);
  impl->wrapped_number = true;
  if (t == kFloat64)
    *static_cast<double*>(impl->data()) = value.toDouble();
  else if (t == kInt64)
    *static_cast<int64_t*>(impl->data()) = value.toLong();
  else
    *static_cast<bool*>(impl->data()) = value.toBool();
  return Tensor(std::move(impl));
}

/// The steps of a call; a friend of Call.
struct Door {
  static bool any_requires_grad(const Call& c) {
    for (const Tensor* t : c.inputs_)
      if (tape::requires_grad(*t)) return true;
    return false;
  }

  static Tensor take(Call& c, size_t k) { return std::move(c.outputs_[k]); }

  static void begin(Call& c) {
    info_of(c.op_);
    c.recording_ =
        c.op_.vjp != no_gradient && autograd::GradMode::is_enabled() && any_requires_grad(c);
    if (!c.op_.any_layout)
      for (const Tensor* t : c.inputs_)
        if (t->defined()) t->expose();
  }

  static void reserve_random(Call& c) {
    if (!c.op_.random_count || detail::estimating()) return;
    const PhiloxRange range = default_generator().reserve(c.op_.random_count(c));
    c.seed_ = range.seed;
    c.random_offset_ = range.offset;
  }

  // The memory of an argument that a vjp reads for the last time (core/vjp_tools.h), if the op may
  // write there and the result fits exactly. A view of a whole tensor that only the view keeps
  // alive will do, too.
  static void reuse_last_used(Call& c, const Tensor& used) {
    const auto place = std::find(c.inputs_.begin(), c.inputs_.end(), &used);
    const bool writes_there =
        c.op_.kind == OpKind::Pointwise || (c.op_.writes_self && place == c.inputs_.begin());
    if (place == c.inputs_.end() || !writes_there || c.recording_ || c.view_mask_ ||
        c.output_count_ == 0 || !c.outputs_[0].defined())
      return;
    const detail::TensorImpl& from = used.impl();
    detail::TensorImpl& to = c.outputs_[0].impl();
    const uint32_t holders = from.base ? 2 : 1;
    if (used.use_count() == 1 && (!from.base || from.base.use_count() == 1) &&
        from.storage.use_count() == holders && !from.storage->borrowed && from.offset == 0 &&
        !to.storage && from.dtype == to.dtype && from.sizes == to.sizes &&
        from.strides == to.strides && (from.is_contiguous() || from.is_channels_last())) {
      std::atomic_thread_fence(std::memory_order_acquire);  // another thread's last use is over
      to.storage = from.storage;
    }
  }

  static void allocate(Call& c) {
    if (const Tensor* used = std::exchange(tape::last_used, nullptr)) [[unlikely]]
      reuse_last_used(c, *used);
    // What a gradient will flow through is an activation, unless the program said what it is.
    if (c.recording_ && current_memory_category() == MemoryCategory::Other) {
      const MemoryCategoryGuard category(MemoryCategory::Activation);
      make_storages(c);
    } else {
      make_storages(c);
    }
  }

  static void make_storages(Call& c) {
    for (size_t k = 0; k < c.output_count_; ++k) {
      if (!c.outputs_[k].defined() || (c.unknown_mask_ >> k & 1)) continue;
      detail::TensorImpl& impl = c.outputs_[k].impl();
      if (c.view_mask_ >> k & 1) {
        const detail::TensorImpl& source = c.in(0).impl();
        impl.storage = source.storage;
        impl.inference = source.inference;
      } else if (!impl.storage) {
        int64_t bytes = 0;
        PELLUCID_CHECK(!__builtin_mul_overflow(impl.numel, element_size(impl.dtype), &bytes),
                       OutOfMemoryError,
                       "{}: a result of sizes {} and dtype {} would pass 2^63 bytes.", c.name(),
                       impl.sizes, impl.dtype);
        impl.storage = detail::estimating() ? estimate::new_storage(c, static_cast<size_t>(bytes))
                                            : detail::new_storage(static_cast<size_t>(bytes));
      }
    }
  }

  // Runs the kernel, or only counts the call; returns whether the outputs have values.
  static bool compute(Call& c) {
    if (detail::estimating() && !estimate::count(c)) [[unlikely]]
      return false;
    if (c.op_.kernel) c.op_.kernel(c);
    detail::observe(c);
    return true;
  }

  // Mutated arguments, `(a!)`: no history may be lost, and the versions must tell.
  static void check_mutated(const Call& c, bool after) {
    const OpInfo& info = *c.op_.info;
    size_t i = 0;
    const size_t list_length = c.inputs_.size() + 1 - static_cast<size_t>(info.tensor_args);
    for (const Arg& a : info.args) {
      if (a.type != ArgType::Tensor && a.type != ArgType::TensorList) continue;
      for (size_t n = a.type == ArgType::TensorList ? list_length : 1; n > 0; --n, ++i) {
        if (!a.mutated || !c.has_in(i)) continue;
        if (after)
          c.in(i).impl().bump_version();
        else
          tape::check_in_place(c.in(i), info.name, c.recording_);
      }
    }
  }

  static void link_views(Call& c) {
    const detail::TensorImpl& source = c.in(0).impl();
    // A view that was made a leaf is where histories begin: its own base has none of them.
    const bool leaf = source.base && tape::is_grad_leaf(source);
    for (size_t k = 0; k < c.output_count_; ++k) {
      if (!(c.view_mask_ >> k & 1)) continue;
      detail::TensorImpl& impl = c.outputs_[k].impl();
      impl.base = source.base && !leaf ? source.base : c.in(0).impl_ref();
      impl.no_grad_view = (source.no_grad_view && !leaf) || !autograd::GradMode::is_enabled();
    }
  }

  static void save_outputs(const Call& c, tape::OpNode& node) {
    const Saved& saved = c.op_.saved;
    if (!saved.outputs) return;
    node.saved_outputs_.reserve(c.output_count_);
    for (size_t k = 0; k < c.output_count_; ++k) {
      const bool listed = saved.outputs == Saved::kAll || (saved.outputs >> k & 1);
      if (listed && c.outputs_[k].defined())
        node.saved_outputs_.emplace_back(c.outputs_[k], autograd::SavedVariable::Role::Output);
      else
        node.saved_outputs_.emplace_back();
    }
  }

  static void commit(Call& c, detail::Ref<tape::OpNode> node) {
    if (c.view_mask_ && c.op_.vjp != no_gradient) link_views(c);  // a detached tensor has no base
    if (autograd::InferenceMode::is_enabled())
      for (size_t k = 0; k < c.output_count_; ++k)
        if (c.outputs_[k].defined() && !(c.view_mask_ >> k & 1))
          c.outputs_[k].impl().inference = true;
    if (!node) return;
    node->seed_ = c.seed_;
    node->random_offset_ = c.random_offset_;
    node->outputs_.reserve(c.output_count_);
    for (size_t k = 0; k < c.output_count_; ++k) {
      const Tensor& t = c.outputs_[k];
      if (!t.defined()) {
        node->outputs_.emplace_back();
        continue;
      }
      node->add_output(t);
      if (is_floating(t.dtype())) tape::set_history(t, node, static_cast<uint32_t>(k));
    }
    save_outputs(c, *node);
  }

  /// The number of the node that the call left, 0 for none.
  static uint64_t run(Call& c) {
    begin(c);
    c.op_.infer(c);
    if (c.op_.info->mutates) check_mutated(c, false);
    reserve_random(c);
    detail::Ref<tape::OpNode> node;
    if (c.recording_) node = tape::prepare(c, false);
    allocate(c);
    compute(c);
    if (c.op_.info->mutates) check_mutated(c, true);
    const uint64_t number = node ? node->sequence_nr() : 0;
    commit(c, std::move(node));
    return number;
  }

  // Two views of one storage that are not the same view: writing one may change what is still to be
  // read.
  static bool overlaps_other_input(const Call& c) {
    const detail::TensorImpl& self = c.in(0).impl();
    for (size_t i = 1; i < c.inputs_.size(); ++i) {
      if (!c.has_in(i)) continue;
      const detail::TensorImpl& t = c.in(i).impl();
      if (t.storage != self.storage || t.numel == 0) continue;
      if (!(t.offset == self.offset && t.sizes == self.sizes && t.strides == self.strides &&
            t.dtype == self.dtype))
        return true;
    }
    return false;
  }

  // Whether the result can be written into input 0.
  static void check_fits(const Call& c, const Tensor& result) {
    const Tensor& self = c.in(0);
    PELLUCID_CHECK(result.sizes() == self.sizes(), ShapeError,
                   "{}_: the result has sizes {} but the tensor to be changed has {}; an in-place "
                   "op cannot change sizes.",
                   c.name(), result.sizes(), self.sizes());
    PELLUCID_CHECK(can_cast(result.dtype(), self.dtype()), TypeError,
                   "{}_: the result of dtype {} cannot be written into a tensor of dtype {}; use "
                   "the form without '_'.",
                   c.name(), result.dtype(), self.dtype());
  }

  // transpose_ and its like: the tensor becomes the view, with the view's history.
  static void become_view(const Tensor& self, const Tensor& view) {
    detail::TensorImpl& impl = self.impl();
    const detail::TensorImpl& other = view.impl();
    impl.sizes = other.sizes;
    impl.strides = other.strides;
    impl.offset = other.offset;
    impl.bump_version();
    if (other.meta && other.meta->grad_fn)
      tape::set_history(self, other.meta->grad_fn, other.meta->output_nr);
  }

  static uint64_t run_in_place(Call& c) {
    const Tensor& self = c.in(0);
    PELLUCID_CHECK(self.defined(), ValueError, "{}_: the tensor to be changed is undefined.",
                   info_of(c.op_).name);
    c.in_place_ = true;
    begin(c);
    tape::check_in_place(self, info_of(c.op_).name, c.recording_);
    c.op_.infer(c);
    const Tensor result = c.outputs_[0];
    check_fits(c, result);
    reserve_random(c);
    detail::Ref<tape::OpNode> node;
    if (c.recording_) node = tape::prepare(c, true);
    const bool direct = (c.op_.kind == OpKind::Pointwise || c.op_.writes_self) &&
                        !overlaps_other_input(c) &&
                        (c.op_.kind == OpKind::Pointwise || result.dtype() == self.dtype());
    if (direct) {
      c.outputs_[0] = self;
      allocate(c);
      compute(c);
    } else {
      c.in_place_ = false;
      allocate(c);
      const detail::TensorImpl &from = c.outputs_[0].impl(), &to = self.impl();
      if (compute(c))
        kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), from.data(),
                              from.dtype, from.strides.data());
    }
    self.impl().bump_version();
    if (!node) return 0;
    node->seed_ = c.seed_;
    node->random_offset_ = c.random_offset_;
    node->add_output(self);
    tape::rebase_history(self, node);
    c.outputs_[0] = self;
    save_outputs(c, *node);
    return node->sequence_nr();
  }
};

Tensors call(const OpDef& op, Inputs inputs, Attrs attrs) {
  Call c(op, inputs, attrs);
  Watch watch(c);
  if (op.compose) {
    info_of(op);
    Tensors results = op.compose(c);
    watch.done(c);
    return results;
  }
  watch.done(c, Door::run(c));
  Tensors results;
  const size_t visible = op.info->visible_outputs;
  results.reserve(visible);
  for (size_t k = 0; k < visible; ++k) results.push_back(Door::take(c, k));
  return results;
}

Tensor call1(const OpDef& op, Inputs inputs, Attrs attrs) {
  Call c(op, inputs, attrs);
  Watch watch(c);
  if (op.compose) {
    info_of(op);
    Tensors results = op.compose(c);
    PELLUCID_ASSERT(!results.empty());
    watch.done(c);
    return std::move(results[0]);
  }
  watch.done(c, Door::run(c));
  return Door::take(c, 0);
}

void call_in_place(const OpDef& op, Inputs inputs, Attrs attrs) {
  if (info_of(op).is_view) {
    PELLUCID_CHECK(inputs[0]->defined(), ValueError, "{}_: the tensor to be changed is undefined.",
                   info_of(op).name);
    tape::check_leaf(*inputs[0], info_of(op).name);
    Door::become_view(*inputs[0], call1(op, inputs, attrs));
    return;
  }
  Call c(op, inputs, attrs);
  Watch watch(c);
  if (op.compose) {
    tape::check_in_place(*inputs[0], info_of(op).name, false);
    const Tensors results = op.compose(c);
    Door::check_fits(c, results[0]);
    inputs[0]->copy_(results[0]);
  } else {
    watch.done(c, Door::run_in_place(c));
    return;
  }
  watch.done(c);
}

}  // namespace pellucid
