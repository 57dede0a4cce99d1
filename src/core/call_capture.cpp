// A call that is captured in place of being run: whether it is, and what the capture keeps of it.
#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "core/call_inputs.h"
#include "core/capture.h"
#include "core/capture_check.h"
#include "core/estimate.h"
#include "core/tape.h"
#include "pellucid/autograd.h"
#include "tensor/layout.h"

namespace pellucid::detail {
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

Hash128 form_of(const CapturedCall& call, size_t input_count) {
  Hash128 form;
  form.add(uint64_t{call.op.info->id} << 32 | uint64_t{call.output_count} << 16 |
               uint64_t{static_cast<uint8_t>(call.default_dtype)} << 8 |
               uint64_t{call.checks} << 3 | uint64_t{call.in_place} << 2 |
               uint64_t{call.tracked} << 1 | uint64_t{call.unique},
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

size_t dims_of(const Tensor& t) { return t.defined() ? t.impl().sizes.size() * 2 : 0; }

// Fills a view, whose sizes and strides come to `dims`, the list's place `at`; adds to the form.
void fill_view(CapturedView& v, const Tensor& t, int64_t* dims, size_t at, Hash128& form) {
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

}  // namespace

// What a program can change without a word, or what only the kernel can refuse, is not captured.
bool captures(const Call& c, bool unknown_sizes) {
  if (modes & kUnknown) choose_modes();
  if ((modes & kCapture) == 0 || estimating() || !c.op().kernel || unknown_sizes ||
      autograd::AnomalyMode::is_enabled() || c.op().at_once)
    return false;
  // Nothing runs while a program is made: it reads such memory, too, where it is.
  const bool only_captures = Capture::own().forbids_values();
  for (const Tensor* t : c.inputs()) {
    if (!t->defined()) continue;
    const Storage* s = t->impl().storage.get();
    if (!s || !has_values(t->impl())) return false;
    if (!only_captures && (s->borrowed || s->pointer_given_out())) return false;
  }
  // Errors about values come at the call; what it reads is computed for it. In the formula of a
  // gradient nothing can be wrong that the call before it was right about.
  // So it is in a program that is only captured: the kernel checks when it runs.
  if (c.op().check && !tape::applying && !only_captures) {
    const ModeScope no_capture(kCapture, false);
    c.op().check(c);
  }
  return true;
}

void capture(const Call& c, bool tracked, uint64_t node) {
  auto call = std::make_unique<CapturedCall>(c.op());
  Capture& own = Capture::own();
  call->in_place = c.in_place();
  call->tracked = tracked;
  call->output_count = static_cast<uint8_t>(c.output_count());
  call->category = current_memory_category();
  call->node = node;
  if (profile::recording()) call->place = profile::place_for_later(node);
  call->seed = c.seed();
  call->random_offset = c.random_offset();
  call->unique = recomputing;
  call->checks = c.op().check && !tape::applying && own.forbids_values();
  if (notes_callers) call->line.note();
  if (!c.attrs().empty()) call->attrs.assign(c.attrs());
  size_t dims = 0, at = 0;
  for (const Tensor* t : c.inputs()) {
    dims += dims_of(*t);
    if (!t->defined()) continue;
    const Capture* const writer = t->impl().storage->writer.load(std::memory_order_acquire);
    if (writer && writer != &own) run_writers(*t->impl().storage);  // another thread's
  }
  for (size_t k = 0; k < c.output_count(); ++k) dims += dims_of(c.out(k));
  CapturedView* v = call->views.append(c.inputs().size() + c.output_count());
  int64_t* const to = call->dims.append(dims);
  Hash128 form = form_of(*call, c.inputs().size());
  // Another thread may make such a layout visible, which moves the values to another storage.
  InlineVec<Tensor, 1> settled;
  for (const Tensor* t : c.inputs()) {
    if (t->defined() && hides_layout(t->impl())) [[unlikely]] {
      const bool number = t->impl().wrapped_number;
      t = &settled.emplace_back(tape::settled(*t));
      t->impl().wrapped_number = number;
    }
    fill_view(*v++, *t, to + at, at, form);
    at += dims_of(*t);
  }
  for (size_t k = 0; k < c.output_count(); ++k, ++v) {
    const Tensor& t = c.out(k);
    fill_view(*v, t, to + at, at, form);
    at += dims_of(t);
    if (!v->storage) continue;
    v->fresh = !v->storage->data && tape::owners(t.impl()) == 1 && tape::owners(*v->storage) == 1;
    call->writes.emplace_back(v->storage);
  }
  call->form = form;
  if (c.op().info->mutates)
    for_each_input(c, [&](const Arg& a, size_t i) {
      if (a.mutated) call->writes.emplace_back(call->views[i].storage);
    });
  for (Storage* s : call->writes) {
    if (s->captured.load(std::memory_order_acquire) != 0) run_users_elsewhere(*s, &own);
    if (own.forbids_values() && s->data) own.will_change(*s);
  }
  if (checks_captures.load(std::memory_order_relaxed)) [[unlikely]] {
    call->make_tensors();
    check_later(*call);
  }
  own.add(std::move(call));
}

}  // namespace pellucid::detail
