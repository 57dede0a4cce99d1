// The dispatcher. Every op, forward or backward, eager or by name, passes through here.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/allocator.h"
#include "base/caller.h"
#include "base/random.h"
#include "core/autograd_meta.h"
#include "core/capture.h"
#include "core/capture_check.h"
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

namespace detail {

namespace {

// What of an attribute is part of a program's key; numbers that do not decide what runs are not.
void add_attr(Hash128& form, const Attr& attr, bool structural) {
  const auto kind = static_cast<uint64_t>(attr.kind());
  switch (attr.kind()) {
    case Attr::Kind::Ints:
      form.add(kind, attr.ints().size());
      for (const int64_t v : attr.ints()) form.add(static_cast<uint64_t>(v), kind);
      break;
    case Attr::Kind::Text:
      form.add(kind, attr.text().size());
      for (const char ch : attr.text()) form.add(static_cast<uint64_t>(ch), kind);
      break;
    case Attr::Kind::Scalar:
      form.add(kind | static_cast<uint64_t>(attr.scalar().type()) << 8,
               structural ? std::bit_cast<uint64_t>(attr.number()) : 0);
      break;
    case Attr::Kind::Float:
      form.add(kind, structural ? std::bit_cast<uint64_t>(attr.number()) : 0);
      break;
    case Attr::Kind::None:
      form.add(kind, 0);
      break;
    default:
      form.add(kind, structural ? static_cast<uint64_t>(attr.integer()) : 0);
  }
}

}  // namespace

inline Hash128 form_of(const CapturedCall& call, size_t input_count) {
  Hash128 form;
  form.add(uint64_t{call.op.info->id} << 32 | uint64_t{call.output_count} << 16 |
               uint64_t{static_cast<uint8_t>(call.default_dtype)} << 8 |
               uint64_t{call.in_place} << 2 | uint64_t{call.tracked} << 1 | uint64_t{call.unique},
           input_count);
  const Attrs attrs = call.attrs.view();
  for (size_t i = 0; i < attrs.size(); ++i) {
    const Attr::Kind kind = attrs[i].kind();
    const bool number = kind == Attr::Kind::Float || kind == Attr::Kind::Scalar;
    add_attr(
        form, attrs[i],
        number ? (call.op.structural_attrs >> i & 1) != 0 : (call.op.run_time_attrs >> i & 1) == 0);
  }
  return form;
}

inline size_t dims_of(const Tensor& t) { return t.defined() ? t.impl().sizes.size() * 2 : 0; }

// Fills a view, whose sizes and strides come to `dims`, the list's place `at`; adds to the form.
inline void fill_view(CapturedView& v, const Tensor& t, int64_t* dims, size_t at, Hash128& form) {
  if (!t.defined()) [[unlikely]] {
    v.storage = nullptr;
    form.add(~uint64_t{0}, 0);
    return;
  }
  const TensorImpl& impl = t.impl();
  const size_t rank = impl.sizes.size();
  const int64_t *const sizes = impl.sizes.data(), *const strides = impl.strides.data();
  const auto byte = [](auto x, int at) { return uint32_t{static_cast<uint8_t>(x)} << at; };
  const uint32_t kind = byte(impl.dtype, 0) | byte(impl.wrapped_number, 8) |
                        byte(impl.hidden_layout, 16) | byte(impl.inference, 24);
  std::memcpy(&v.dtype, &kind, sizeof kind);
  v.storage = impl.storage.get();
  v.dims = static_cast<uint32_t>(at);
  v.offset = impl.offset;
  v.rank = static_cast<uint8_t>(rank);
  v.fresh = false;
  const uint64_t head = uint64_t{kind} | uint64_t{rank} << 32;
  if (rank == 1 && strides[0] == 1 && impl.offset == 0) {  // one step for what is most usual
    dims[0] = sizes[0];
    dims[1] = 1;
    form.add(head, static_cast<uint64_t>(sizes[0]));
    return;
  }
  form.add(head | uint64_t{1} << 40, static_cast<uint64_t>(impl.offset));
  for (size_t d = 0; d < rank; ++d) {
    dims[d] = sizes[d];
    dims[rank + d] = strides[d];
    form.add(static_cast<uint64_t>(sizes[d]), static_cast<uint64_t>(strides[d]));
  }
}

static_assert(std::endian::native == std::endian::little && offsetof(CapturedView, dtype) % 4 == 0);
static_assert(offsetof(CapturedView, wrapped_number) == offsetof(CapturedView, dtype) + 1);
static_assert(offsetof(CapturedView, hidden_layout) == offsetof(CapturedView, dtype) + 2);
static_assert(offsetof(CapturedView, inference) == offsetof(CapturedView, dtype) + 3);

}  // namespace detail

/// The steps of a call; a friend of Call.
struct Dispatcher {
  static bool any_requires_grad(const Call& c) {
    for (const Tensor* t : c.inputs_)
      if (tape::requires_grad(*t)) return true;
    return false;
  }

  // Whether the call is kept for later, in a thread that captures. What a program can change
  // without a word, or what only the kernel can refuse, is not. Values that the op refuses throw.
  [[gnu::noinline]] static bool captures(const Call& c) {
    if (detail::modes & detail::kUnknown) detail::choose_modes();
    if ((detail::modes & detail::kCapture) == 0 || detail::estimating() || !c.op_.kernel ||
        c.unknown_mask_ || autograd::AnomalyMode::is_enabled() || c.op_.at_once)
      return false;
    // Nothing runs while a program is made: it reads such memory, too, where it is.
    const bool only_captures = detail::Capture::own().forbids_values();
    for (const Tensor* t : c.inputs_) {
      if (!t->defined()) continue;
      const detail::Storage* s = t->impl().storage.get();
      if (!s || !detail::has_values(t->impl())) return false;
      if (!only_captures && (s->borrowed || s->pointer_given_out.load(std::memory_order_relaxed)))
        return false;
    }
    // Errors about values come at the call; what it reads is computed for it. In the formula of a
    // gradient nothing can be wrong that the call before it was right about.
    // So it is in a program that is only captured: the kernel checks when it runs.
    if (c.op_.check && !tape::applying && !only_captures) {
      const detail::ModeScope no_capture(detail::kCapture, false);
      c.op_.check(c);
    }
    return true;
  }

  // Keeps the call, whose results have storages without memory.
  [[gnu::noinline]] static void capture(const Call& c, uint64_t node) {
    auto call = std::make_unique<detail::CapturedCall>(c.op_);
    detail::Capture& own = detail::Capture::own();
    call->in_place = c.in_place_;
    call->tracked = c.tracked_;
    call->output_count = c.output_count_;
    call->category = current_memory_category();
    call->node = node;
    if (profile::recording()) call->place = profile::place_for_later();
    call->seed = c.seed_;
    call->random_offset = c.random_offset_;
    call->unique = detail::recomputing;
    if (detail::notes_callers) call->line.note();
    if (!c.attrs_.empty()) call->attrs.assign(c.attrs_);
    size_t dims = 0, at = 0;
    for (const Tensor* t : c.inputs_) {
      dims += detail::dims_of(*t);
      if (!t->defined()) continue;
      const detail::Capture* const writer =
          t->impl().storage->writer.load(std::memory_order_acquire);
      if (writer && writer != &own) detail::run_writers(*t->impl().storage);  // another thread's
    }
    for (size_t k = 0; k < c.output_count_; ++k) dims += detail::dims_of(c.outputs_[k]);
    detail::CapturedView* v = call->views.append(c.inputs_.size() + c.output_count_);
    int64_t* const to = call->dims.append(dims);
    detail::Hash128 form = detail::form_of(*call, c.inputs_.size());
    // Another thread may make such a layout visible, which moves the values to another storage.
    detail::InlineVec<Tensor, 1> settled;
    for (const Tensor* t : c.inputs_) {
      if (t->defined() && detail::hides_layout(t->impl())) [[unlikely]] {
        const bool number = t->impl().wrapped_number;
        t = &settled.emplace_back(tape::settled(*t));
        t->impl().wrapped_number = number;
      }
      detail::fill_view(*v++, *t, to + at, at, form);
      at += detail::dims_of(*t);
    }
    for (size_t k = 0; k < c.output_count_; ++k, ++v) {
      const Tensor& t = c.outputs_[k];
      detail::fill_view(*v, t, to + at, at, form);
      at += detail::dims_of(t);
      if (!v->storage) continue;
      v->fresh = !v->storage->data && tape::owners(t.impl()) == 1 && tape::owners(*v->storage) == 1;
      call->writes.emplace_back(v->storage);
    }
    call->form = form;
    if (c.op_.info->mutates)
      for_each_input(c, [&](const Arg& a, size_t i) {
        if (a.mutated) call->writes.emplace_back(call->views[i].storage);
      });
    for (detail::Storage* s : call->writes) {
      if (s->captured.load(std::memory_order_acquire) != 0) detail::run_users_elsewhere(*s, &own);
      if (own.forbids_values() && s->data) own.will_change(*s);
    }
    if (detail::checks_captures.load(std::memory_order_relaxed)) [[unlikely]] {
      call->make_tensors();
      detail::check_later(*call);
    }
    own.add(std::move(call));
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
        (from.is_contiguous() || from.is_channels_last()))
      to.storage = from.storage;
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
      capture(c, node);
      return false;
    }
    if (detail::estimating() && !estimate::count(c)) return false;
    const bool captures_others = (detail::modes & detail::kCapture) != 0;
    const detail::ModeScope no_capture(detail::kCapture, false);
    std::optional<Watch> watch;
    if (captures_others) watch.emplace(c);
    if (c.op_.kernel) settle_inputs(c);
    run_kernel(c);
    if (watch) watch->done(c, node);
    return true;
  }

  // Calls f(argument of the schema, number of the input) for each tensor that was given.
  template <class F> static void for_each_input(const Call& c, const F& f) {
    const OpInfo& info = *c.op_.info;
    size_t i = 0;
    const size_t list_length = c.inputs_.size() + 1 - static_cast<size_t>(info.tensor_args);
    for (const Arg& a : info.args) {
      if (a.type != ArgType::Tensor && a.type != ArgType::TensorList) continue;
      for (size_t n = a.type == ArgType::TensorList ? list_length : 1; n > 0; --n, ++i)
        if (c.has_in(i)) f(a, i);
    }
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
    const bool later = detail::modes != 0 && captures(c);
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
    const bool later = detail::modes != 0 && captures(c);
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

template <class F> void as_call(detail::CapturedCall& call, const F& f) {
  const detail::DefaultDTypeScope type(call.default_dtype);
  InputPointers inputs;
  inputs.add_list(call.inputs.ref());
  Call c(call.op, inputs.span(), call.attrs.view());
  Dispatcher::restore(c, call);
  f(c);
}

}  // namespace

void detail::run_captured(CapturedCall& call) {
  as_call(call, [&](Call& c) {
    const AutoGradMode off(false);
    const profile::FromPlace from(call.place);
    Watch watch(c);
    for (Storage* s : call.writes)
      if (!s->data) s->data = allocate(s->bytes, s->category);
    Dispatcher::run_kernel(c);
    watch.done(c, call.node);
  });
}

struct detail::PreparedCall::Ready {
  explicit Ready(CapturedCall& captured)
      : call(captured), c(captured.op, pointers_to(captured), captured.attrs.view()) {
    Dispatcher::restore(c, call);
  }
  Inputs pointers_to(const CapturedCall& captured) {
    inputs.add_list(captured.inputs.ref());
    return inputs.span();
  }
  CapturedCall& call;
  InputPointers inputs;
  Call c;
};

detail::PreparedCall::PreparedCall(CapturedCall& call) : ready_(std::make_unique<Ready>(call)) {}
detail::PreparedCall::~PreparedCall() = default;

void detail::PreparedCall::take_parameters() {
  Dispatcher::restore_parameters(ready_->c, ready_->call);
}

void detail::PreparedCall::run() {
  const DefaultDTypeScope type(ready_->call.default_dtype);
  const profile::FromPlace from(ready_->call.place);
  Watch watch(ready_->c);
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
