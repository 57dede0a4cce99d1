// The dispatcher. Every op, forward or backward, eager or by name, passes through here.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/allocator.h"
#include "base/caller.h"
#include "base/random.h"
#include "core/autograd_meta.h"
#include "core/call_inputs.h"
#include "core/capture.h"
#include "core/engine.h"
#include "core/estimate.h"
#include "core/generated_support.h"
#include "core/observe.h"
#include "core/overlap.h"
#include "core/registry.h"
#include "core/tape.h"
#include "core/vjp_tools.h"
#include "core/watch.h"
#include "kernels/copy.h"
#include "pellucid/autograd.h"
#include "tensor/layout.h"

namespace pellucid {

std::string_view Call::name() const { return info_of(op_).name; }

bool Call::wants(size_t k) const {
  const std::string& n = info_of(op_).output_names[k];
  return tracked_ || n.empty() || n[0] != '_';
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
struct Dispatcher {
  static bool any_requires_grad(const Call& c) {
    for (const Tensor* t : c.inputs_)
      if (tape::requires_grad(*t)) return true;
    return false;
  }

  // The call as its kernel will see it.
  static void restore(Call& c, const detail::CapturedCall& call) {
    c.outputs_ = call.outputs;
    c.output_count_ = call.output_count;
    c.in_place_ = call.in_place;
    restore_parameters(c, call);
  }
  static void restore_parameters(Call& c, const detail::CapturedCall& call) {
    c.tracked_ = call.tracked;
    c.seed_ = call.seed;
    c.random_offset_ = call.random_offset;
  }

  static void describe_into(Call& c, kernels::TileStep& step) {
    c.described_ = &step;
    c.op_.kernel(c);
  }

  static void run_kernel(Call& c) {
    if (c.op_.kernel) c.op_.kernel(c);
    if (detail::modes & detail::kObserve) [[unlikely]]
      detail::tell_observer(c);
  }

  static Tensor take(Call& c, size_t k) { return std::move(c.outputs_[k]); }

  static void begin(Call& c) {
    info_of(c.op_);
    c.tracked_ = c.op_.vjp != no_gradient && autograd::tracks() && any_requires_grad(c);
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
    const bool writes_there =
        c.op_.kind == OpKind::Pointwise || ((c.op_.writes_over & 1) && c.inputs_[0] == &used);
    if (!writes_there || autograd::GradMode::is_enabled() || c.view_mask_ || c.output_count_ == 0 ||
        !c.outputs_[0].defined())
      return;
    const detail::TensorImpl& from = used.impl();
    for (const Tensor* t : c.inputs_)  // the same gradient, given a second time
      if (t != &used && t->defined() && t->impl().storage == from.storage) return;
    detail::TensorImpl& to = c.outputs_[0].impl();
    const uint32_t holders = from.base ? 2 : 1;
    if (tape::owners(from) == tape::LastUse::kHandles &&
        (!from.base || tape::owners(*from.base) == 1) && tape::owners(*from.storage) == holders &&
        !from.storage->borrowed && from.offset == 0 && !to.storage && from.dtype == to.dtype &&
        from.sizes == to.sizes && from.strides == to.strides &&
        (from.is_contiguous() || from.is_channels_last())) {
      detail::bytes_change(*from.storage);
      to.storage = from.storage;
    }
  }

  static void allocate(Call& c, bool later) {
    if (tape::last_uses) [[unlikely]]
      if (const tape::LastUse* mark = tape::claim_last_use(c.inputs_); mark && !later)
        reuse_last_used(c, mark->tensor());
    // What a gradient will flow through is an activation, unless the program said what it is.
    if (c.tracked_ && current_memory_category() == MemoryCategory::Other) {
      const MemoryCategoryGuard category(MemoryCategory::Activation);
      make_storages(c, later);
    } else {
      make_storages(c, later);
    }
  }

  [[gnu::noinline]] static detail::Ref<detail::Storage> storage_in_mode(const Call& c, size_t bytes,
                                                                        bool later) {
    return later                  ? detail::pending_storage(bytes)
           : detail::estimating() ? estimate::new_storage(c, bytes)
                                  : detail::new_storage(bytes);
  }

  static void make_storages(Call& c, bool later) {
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
        impl.storage = detail::modes == 0 ? detail::new_storage(static_cast<size_t>(bytes))
                                          : storage_in_mode(c, static_cast<size_t>(bytes), later);
      }
    }
  }

  static uint64_t number_of(const detail::Ref<tape::OpNode>& node) {
    return node ? node->sequence_nr() : 0;
  }

  // Runs the kernel, or keeps the call, or only counts it; returns whether the outputs have values.
  // `node` is the number of the node that the call leaves, 0 for none.
  static bool compute(Call& c, bool later, uint64_t node) {
    if (detail::modes != 0) [[unlikely]]
      return compute_in_mode(c, later, node);
    if (detail::busy_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
      settle_inputs(c);
    if (c.op_.kernel) c.op_.kernel(c);
    return true;
  }

  // Kernels read on several threads: what is pending is computed before.
  [[gnu::noinline]] static void settle_inputs(const Call& c) {
    for (const Tensor* t : c.inputs_)
      if (t->defined() && t->has_storage()) detail::run_writers(*t->impl().storage);
  }

  [[gnu::noinline]] static bool compute_in_mode(Call& c, bool later, uint64_t node) {
    if (later) {
      detail::capture(c, c.tracked_, node);
      return false;
    }
    if (detail::estimating() && !estimate::count(c)) return false;
    const bool captures_others = (detail::modes & detail::kCapture) != 0;
    const detail::ModeScope no_capture(detail::kCapture, false);
    std::optional<Watch> watch;
    if (captures_others) {
      watch.emplace(c);
      if (node && profile::recording()) profile::place_for_later(node);  // its gradient may be kept
    }
    if (c.op_.kernel) settle_inputs(c);
    run_kernel(c);
    if (watch) watch->done(c, node);
    return true;
  }

  // Mutated arguments, `(a!)`: no history may be lost, and the versions must tell.
  static void check_mutated(const Call& c) {
    for_each_input(c, [&](const Arg& a, size_t i) {
      if (a.mutated) tape::check_in_place(c.in(i), c.op_.info->name, c.tracked_);
    });
  }
  // What still has to read the old values does so now, unless the change is kept, too.
  static void settle_mutated(const Call& c) {
    for_each_input(c, [&](const Arg& a, size_t i) {
      if (a.mutated) detail::settle(*c.in(i).impl().storage);
    });
  }
  static void count_mutated(const Call& c) {
    for_each_input(c, [&](const Arg& a, size_t i) {
      if (a.mutated) c.in(i).impl().bump_version();
    });
  }

  // Inputs of a call of which some are replaced by copies, because the op writes to their memory
  // while it still reads them.
  struct Copies {
    std::vector<Tensor> tensors;
    std::vector<const Tensor*> inputs;
    void replace(Call& c, size_t i) {
      if (inputs.empty()) {
        inputs.assign(c.inputs_.begin(), c.inputs_.end());
        tensors.reserve(inputs.size());  // pointers to them stay valid
      }
      const NoGradGuard off;
      inputs[i] = &tensors.emplace_back(c.in(i).detach().clone());
      c.inputs_ = inputs;
    }
  };

  // The inputs from number `first` on whose layout an op chose, each as it is now, for an op that
  // reads such layouts: another thread may make one visible meanwhile, which moves its values to
  // another storage. Where a mark of last use is, only this thread's run knows the tensors.
  class Layouts {
   public:
    Layouts(Call& c, size_t first) : call_(c), given_(c.inputs_) {
      if (!c.op_.any_layout || tape::last_uses) return;
      for (size_t i = first; i < given_.size(); ++i)
        if (given_[i]->defined() && detail::hides_layout(given_[i]->impl())) [[unlikely]]
          settle(i);
    }
    ~Layouts() { call_.inputs_ = given_; }
    Layouts(const Layouts&) = delete;
    /// The node of the call, made from the inputs as they were given: it needs their histories.
    detail::Ref<tape::OpNode> prepare(bool in_place) {
      const Inputs settled = std::exchange(call_.inputs_, given_);
      auto node = tape::prepare(call_, in_place);
      call_.inputs_ = settled;
      return node;
    }

   private:
    struct Settled {
      std::vector<Tensor> tensors;
      std::vector<const Tensor*> inputs;
    };
    void settle(size_t i) {
      if (!settled_) {
        settled_ = std::make_unique<Settled>();
        settled_->inputs.assign(given_.begin(), given_.end());
        settled_->tensors.reserve(given_.size());  // pointers to them stay valid
        call_.inputs_ = settled_->inputs;
      }
      settled_->inputs[i] = &settled_->tensors.emplace_back(tape::settled(*given_[i]));
    }
    Call& call_;
    const Inputs given_;
    std::unique_ptr<Settled> settled_;
  };

  // The source of an in-place change may be the tensor itself, in the same order, where each
  // element is read before it is written: in a pointwise op.
  static void copy_overlapping(Call& c, Copies& copies) {
    for (size_t i = 1; i < c.inputs_.size(); ++i) {
      if (!c.has_in(i)) continue;
      const Overlap shared = overlap(c.in(0).impl(), c.in(i).impl());
      if (shared == Overlap::None || (shared == Overlap::Same && c.op_.kind == OpKind::Pointwise))
        continue;
      copies.replace(c, i);
    }
  }

  // The same for arguments `(a!)`, two of which may not share memory.
  static void copy_overlapping_mutated(Call& c, Copies& copies) {
    for_each_input(c, [&](const Arg& written, size_t i) {
      if (!written.mutated) return;
      for_each_input(c, [&](const Arg& a, size_t k) {
        if (k == i || overlap(c.in(i).impl(), c.in(k).impl()) == Overlap::None) return;
        PELLUCID_CHECK(!a.mutated, ValueError,
                       "{}: the arguments '{}' and '{}' are both written to and share memory ({}, "
                       "{}); clone one of them.",
                       c.name(), written.name, a.name, describe(c.in(i)), describe(c.in(k)));
        copies.replace(c, k);
      });
    });
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

  static void commit(Call& c, const detail::Ref<tape::OpNode>& node) {
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
    Layouts layouts(c, 0);
    c.op_.infer(c);
    const bool mutates = c.op_.info->mutates;
    if (mutates) check_mutated(c);
    reserve_random(c);
    detail::Ref<tape::OpNode> node;
    if (c.tracked_) node = layouts.prepare(false);
    const uint64_t number = number_of(node);
    const bool later = detail::modes != 0 && detail::captures(c, c.unknown_mask_ != 0);
    if (mutates) {
      Copies copies;
      const Inputs given = c.inputs_;
      copy_overlapping_mutated(c, copies);
      if (!later) settle_mutated(c);
      allocate(c, later);
      compute(c, later, number);
      c.inputs_ = given;
      count_mutated(c);
    } else {
      allocate(c, later);
      compute(c, later, number);
    }
    commit(c, node);
    return number;
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

  // zero_ and fill_ with a number: a tensor would get the gradient of a location several times.
  static bool writes_one_value(const Call& c) {
    const std::string& name = c.op_.info->name;
    return name == "zero" || (name == "fill" && c.in(1).impl().wrapped_number);
  }

  static uint64_t run_in_place(Call& c) {
    const Tensor& self = c.in(0);
    PELLUCID_CHECK(self.defined(), ValueError, "{}_: the tensor to be changed is undefined.",
                   info_of(c.op_).name);
    c.in_place_ = true;
    begin(c);
    tape::check_in_place(self, info_of(c.op_).name, c.tracked_, writes_one_value(c));
    Layouts layouts(c, 1);
    c.op_.infer(c);
    const Tensor result = c.outputs_[0];
    check_fits(c, result);
    reserve_random(c);
    detail::Ref<tape::OpNode> node;
    if (c.tracked_) node = layouts.prepare(true);
    const bool direct = c.op_.kind == OpKind::Pointwise ||
                        ((c.op_.writes_over & 1) && result.dtype() == self.dtype());
    const bool later = detail::modes != 0 && detail::captures(c, c.unknown_mask_ != 0);
    if (!later && self.has_storage()) detail::settle(*self.impl().storage);
    Copies copies;
    const Inputs given = c.inputs_;
    if (direct) {
      copy_overlapping(c, copies);
      c.outputs_[0] = self;
      allocate(c, later);
      compute(c, later, number_of(node));
      c.inputs_ = given;
    } else {
      c.in_place_ = false;
      allocate(c, later);
      const detail::TensorImpl &from = c.outputs_[0].impl(), &to = self.impl();
      if (compute(c, later, number_of(node))) {
        kernels::copy_strided(to.sizes, to.data(), to.dtype, to.strides.data(), from.data(),
                              from.dtype, from.strides.data());
      } else if (later) {
        const NoGradGuard off;
        self.copy_(c.outputs_[0]);  // captured too; it counts the change
      }
    }
    if (direct || !later) self.impl().bump_version();
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

// A composition may read its arguments several times.
static void spend_last_use(Inputs inputs) {
  if (tape::last_uses) [[unlikely]]
    tape::claim_last_use(inputs);
}

namespace {

// The entry of every op that has a kernel, in both forms.
inline void enter(Call& c, bool in_place) {
  Watch watch(c);
  watch.done(c, in_place ? Dispatcher::run_in_place(c) : Dispatcher::run(c));
}

// The entry of ops that are written with others.
[[gnu::noinline]] Tensors compose(Call& c, bool in_place) {
  const OpInfo& info = info_of(c.op());
  Watch watch(c);
  spend_last_use(c.inputs());
  if (in_place) tape::check_in_place(c.in(0), info.name, false);
  Tensors results = c.op().compose(c);
  if (in_place) {
    Dispatcher::check_fits(c, results[0]);
    c.in(0).copy_(results[0]);
  }
  watch.done(c);
  return results;
}

}  // namespace

namespace {

// The inputs of a captured call as its kernel may have them. A kernel that takes any layout may
// make the layout of an input visible, by an op on it, which moves the values to another storage:
// it gets handles for this run alone.
class KernelInputs {
 public:
  explicit KernelInputs(const detail::CapturedCall& call) : call_(call) {
    pointers_.add_list(call.inputs.ref());
    if (!call.op.any_layout || call.op.kind == OpKind::Pointwise) return;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i].defined() && detail::hides_layout(call.inputs[i].impl()))
        hidden_.push_back(i);
    if (hidden_.empty()) return;
    own_.resize(hidden_.size());
    const Inputs given = pointers_.span();
    inputs_.assign(given.begin(), given.end());
    for (size_t k = 0; k < hidden_.size(); ++k) inputs_[hidden_[k]] = &own_[k];
  }
  KernelInputs(const KernelInputs&) = delete;
  Inputs span() { return hidden_.empty() ? pointers_.span() : Inputs(inputs_); }
  /// To be called before a run, and after it.
  void take() {
    for (size_t k = 0; k < hidden_.size(); ++k)
      own_[k] = Tensor(detail::alias_impl(call_.inputs[hidden_[k]].impl()));
  }
  void release() noexcept {
    for (Tensor& t : own_) t = Tensor();
  }

 private:
  const detail::CapturedCall& call_;
  InputPointers pointers_;
  std::vector<size_t> hidden_;  // which inputs
  std::vector<Tensor> own_;     // in their places
  std::vector<const Tensor*> inputs_;
};

template <class F> void as_call(detail::CapturedCall& call, const F& f) {
  const detail::DefaultDTypeScope type(call.default_dtype);
  KernelInputs inputs(call);
  inputs.take();
  Call c(call.op, inputs.span(), call.attrs.view());
  Dispatcher::restore(c, call);
  f(c);
}

}  // namespace

void detail::run_captured(CapturedCall& call) {
  as_call(call, [&](Call& c) {
    const AutoGradMode off(false);
    const profile::FromPlace from(call.place);
    Watch watch(c, Watch::Later());
    for (Storage* s : call.writes)
      if (!s->data) s->data = allocate(s->bytes, s->category);
    Dispatcher::run_kernel(c);
    watch.done(c, call.node);
  });
}

struct detail::PreparedCall::Ready {
  explicit Ready(CapturedCall& captured)
      : call(captured), inputs(captured), c(captured.op, inputs.span(), captured.attrs.view()) {
    Dispatcher::restore(c, call);
  }
  CapturedCall& call;
  KernelInputs inputs;
  Call c;
};

detail::PreparedCall::PreparedCall(CapturedCall& call) : ready_(std::make_unique<Ready>(call)) {}
detail::PreparedCall::~PreparedCall() = default;

void detail::PreparedCall::take_parameters() {
  Dispatcher::restore_parameters(ready_->c, ready_->call);
}

void detail::PreparedCall::run_in_group() {
  const DefaultDTypeScope type(ready_->call.default_dtype);
  Dispatcher::run_kernel(ready_->c);
}

void detail::PreparedCall::run() {
  const DefaultDTypeScope type(ready_->call.default_dtype);
  const profile::FromPlace from(ready_->call.place);
  struct Taken {
    KernelInputs& inputs;
    explicit Taken(KernelInputs& i) : inputs(i) { inputs.take(); }
    ~Taken() { inputs.release(); }
  } const taken(ready_->inputs);
  Watch watch(ready_->c, Watch::Later());
  Dispatcher::run_kernel(ready_->c);
  watch.done(ready_->c, ready_->call.node);
}

void detail::describe_captured(CapturedCall& call, kernels::TileStep& step) {
  as_call(call, [&](Call& c) { Dispatcher::describe_into(c, step); });
}

void detail::with_captured(CapturedCall& call, const std::function<void(const Call&)>& f) {
  as_call(call, f);
}

Tensors call(const OpDef& op, Inputs inputs, Attrs attrs) {
  Call c(op, inputs, attrs);
  if (op.compose) return compose(c, false);
  enter(c, false);
  Tensors results;
  const size_t visible = op.info->visible_outputs;
  results.reserve(visible);
  for (size_t k = 0; k < visible; ++k) results.push_back(Dispatcher::take(c, k));
  return results;
}

Tensor call1(const OpDef& op, Inputs inputs, Attrs attrs) {
  Call c(op, inputs, attrs);
  if (op.compose) {
    Tensors results = compose(c, false);
    PELLUCID_ASSERT(!results.empty());
    return std::move(results[0]);
  }
  enter(c, false);
  return Dispatcher::take(c, 0);
}

void call_in_place(const OpDef& op, Inputs inputs, Attrs attrs) {
  const OpInfo& info = info_of(op);
  if (info.is_view) {
    PELLUCID_CHECK(inputs[0]->defined(), ValueError, "{}_: the tensor to be changed is undefined.",
                   info.name);
    tape::check_leaf(*inputs[0], info.name);
    Dispatcher::become_view(*inputs[0], call1(op, inputs, attrs));
    return;
  }
  Call c(op, inputs, attrs);
  if (op.compose)
    compose(c, true);
  else
    enter(c, true);
}

}  // namespace pellucid
