// A run of a traced program: inputs as it reads them, memory for its results, and what it leaves in
// tensors and gradients.
#include <algorithm>

#include "base/allocator.h"
#include "core/autograd_meta.h"
#include "core/traced.h"
#include "pellucid/autograd.h"
#include "tensor/phantom.h"

namespace pellucid::detail {

// The input as the program reads it: with the same strides, in memory that has values.
Tensor TracedProgram::prepared(const Tensor& t, size_t i) const {
  const TensorForm& form = inputs_[i];
  const auto name = [&] {
    return i < names.size() ? fmt::format("input '{}'", names[i]) : fmt::format("argument {}", i);
  };
  PELLUCID_CHECK(t.defined() == form.defined, ValueError, "{}: {} {} defined, but {} before.", who_,
                 name(), t.defined() ? "is" : "is not", form.defined ? "was" : "was not");
  if (!t.defined()) return t;
  PELLUCID_CHECK(t.dtype() == form.dtype, TypeError, "{}: {} has dtype {}, but had {} before.",
                 who_, name(), t.dtype(), form.dtype);
  PELLUCID_CHECK(t.sizes() == form.sizes.ref(), ShapeError,
                 "{}: {} has sizes {}, but had {} before; trace or compile for each size.", who_,
                 name(), t.sizes(), form.sizes);
  t.expose();
  Tensor out = t;
  if (!(t.impl().strides == form.strides) || t.impl().offset != form.offset ||
      t.impl().storage->bytes == 0) {
    const NoGradGuard off;
    const int64_t bytes =
        (form.offset + (form.sizes.empty() ? 1 : 0)) * element_size(form.dtype) + t.nbytes();
    Ref<TensorImpl> impl = new_impl(form.dtype, form.sizes);
    if (form.offset == 0 && impl->strides == form.strides) {
      impl->storage = new_storage(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
      out = Tensor(std::move(impl));
      out.copy_(t.detach());
    } else {
      PELLUCID_CHECK(false, ValueError,
                     "{}: {} has strides {} and offset {}, but had {} and {} before; give it as "
                     "contiguous() each time.",
                     who_, name(), t.strides(), t.impl().offset, form.strides, form.offset);
    }
  }
  run_writers(*out.impl().storage);
  return out;
}

// What the program writes may share memory with nothing that it takes for another tensor: passes
// moved and merged calls in the belief that they are apart.
void TracedProgram::check_distinct(TensorList given, const Tensors& inputs) const {
  std::vector<bool> changed(inputs.size(), false);
  for (const Slot& slot : slots_)
    if (slot.input >= 0 && slot.writes > 0) changed[static_cast<size_t>(slot.input)] = true;
  struct Part {
    const char *begin, *end;
    int input;  // -1: of a tensor that the program was traced with
    bool changed;
  };
  std::vector<Part> parts;
  const auto add = [&](const Storage& s, int input, bool writes) {
    if (s.data && s.bytes > 0)
      parts.push_back({static_cast<const char*>(s.data), static_cast<const char*>(s.data) + s.bytes,
                       input, writes});
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    const auto first = static_cast<size_t>(shared_with_[i]);
    PELLUCID_CHECK(inputs[first].impl().storage == inputs[i].impl().storage, ValueError,
                   "{}: arguments {} and {} were in the same memory when the function was traced, "
                   "and are not now; give it copies each time.",
                   who_, first, i);
    if (first == i) add(*given[i].impl().storage, static_cast<int>(i), changed[i]);
  }
  for (const Slot& slot : slots_)
    if (slot.exists) add(*slot.exists, -1, slot.writes > 0);
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  const Part* reaches = nullptr;          // of those before, the one that ends last
  const Part* changed_reaches = nullptr;  // and of those that are changed
  for (const Part& p : parts) {
    for (const Part* q : {reaches, changed_reaches}) {
      if (!q || q->end <= p.begin || !(p.changed || q->changed) || (p.input < 0 && q->input < 0))
        continue;
      const int one = std::max(p.input, q->input), other = std::min(p.input, q->input);
      PELLUCID_CHECK(false, ValueError,
                     "{}: argument {} shares its memory with {}, and the program changes one of "
                     "them; they were apart when it was made. Give it a clone.",
                     who_, one,
                     other < 0 ? std::string("a tensor that the program uses")
                               : fmt::format("argument {}", other));
    }
    if (!reaches || p.end > reaches->end) reaches = &p;
    if (p.changed && (!changed_reaches || p.end > changed_reaches->end)) changed_reaches = &p;
  }
}

Tensors TracedProgram::checked(TensorList given) const {
  PELLUCID_CHECK(given.size() == inputs_.size(), ValueError, "{}: {} inputs are needed, found {}.",
                 who_, inputs_.size(), given.size());
  PELLUCID_CHECK(!estimating(), NotImplementedError,
                 "{}: a program cannot be counted without running it; estimate the function that "
                 "it was made from.",
                 who_);
  const LazyGuard at_once(false);
  Tensors inputs;
  for (size_t i = 0; i < given.size(); ++i) inputs.push_back(prepared(given[i], i));
  check_distinct(given, inputs);
  return inputs;
}

Tensors TracedProgram::run(TensorList given, const Tensors& inputs) const {
  const LazyGuard at_once(false);
  for (const Leaf& l : leaves_)  // the function drops it first, so its memory is free from here on
    if (l.cleared) meta_of(leaf_of(l, given)).grad = Tensor();
  const graph::Graph& g = program_->graph();
  std::vector<void*> addresses(g.storages.size(), nullptr);
  std::vector<Storage*> storages(g.storages.size(), nullptr);
  std::vector<Ref<Storage>> made(slots_.size());
  Tensors live;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    Storage* s = slot.exists.get();
    if (slot.input >= 0) s = inputs[static_cast<size_t>(slot.input)].impl().storage.get();
    if (slot.live) s = live.emplace_back((*slot.live)()).impl().storage.get();
    if (!s && g.storages[i].live_out && g.storages[i].writes > 0) {
      made[i] = pending_storage(g.storages[i].bytes);
      made[i]->category = g.storages[i].category;
    }
    if (!s) continue;
    run_writers(*s);
    if (slot.writes > 0) settle(*s);
    addresses[i] = s->data;
    storages[i] = s;
  }
  PhiloxRange random = random_;
  if (random_end_.offset != random_.offset)
    random = default_generator().reserve(random_end_.offset - random_.offset);
  // Also where it throws: what ran before that has changed them.
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].writes == 0) continue;
    Storage* s = slots_[i].exists.get();
    if (slots_[i].input >= 0) s = inputs[static_cast<size_t>(slots_[i].input)].impl().storage.get();
    if (s) s->version.fetch_add(static_cast<uint32_t>(slots_[i].writes), std::memory_order_relaxed);
  }
  const Frame::Outside outside{.give =
                                   [&](uint32_t i) {
                                     Storage& s = *made[i];
                                     return s.data = allocate(s.bytes, s.category);
                                   },
                               .storages = storages};
  program_->replay(addresses, outside, random_, random);
  for (size_t i = 0; i < slots_.size(); ++i) {  // what was changed in a copy of another layout
    if (slots_[i].writes == 0 || slots_[i].input < 0) continue;
    const auto k = static_cast<size_t>(slots_[i].input);
    if (inputs[k].impl().storage == given[k].impl().storage) continue;
    const NoGradGuard off;
    Tensor to = given[k].detach();
    to.copy_(inputs[k]);
  }
  for (const Leaf& l : leaves_) {
    Tensor& gradient = meta_of(leaf_of(l, given)).grad;
    if (l.dropped) gradient = Tensor();
    if (l.given.defined()) gradient = l.given.detach().clone();
    if (l.storage < 0) continue;
    Ref<TensorImpl> impl = new_impl(l.form.dtype, l.form.sizes);
    impl->strides = l.form.strides;
    impl->offset = l.form.offset;
    impl->storage = made[static_cast<size_t>(l.storage)];
    gradient = Tensor(std::move(impl));
  }
  Tensors out;
  for (const Result& r : results_) {
    if (r.storage < 0 && r.input < 0) {
      out.push_back(!r.given.defined() ? Tensor()
                    : r.constant       ? r.given.detach().clone()
                                       : r.given.detach());
      continue;
    }
    Ref<TensorImpl> impl = new_impl(r.form.dtype, r.form.sizes);
    impl->strides = r.form.strides;
    impl->offset = r.form.offset;
    const auto i = static_cast<size_t>(r.storage);
    const int input = r.storage < 0 ? r.input : made[i] ? -1 : slots_[i].input;
    impl->storage = input >= 0 ? inputs[static_cast<size_t>(input)].impl().storage
                    : made[i]  ? made[i]
                               : slots_[i].exists;
    Tensor result(std::move(impl));
    out.push_back(r.constant ? result.clone() : std::move(result));
  }
  return out;
}

}  // namespace pellucid::detail
