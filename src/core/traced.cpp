#include "core/traced.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/allocator.h"
#include "core/autograd_meta.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"

namespace pellucid {
namespace detail {
namespace {

// What stand-ins of inputs look at while a program is made: numbers among them read as 0.
alignas(kAllocationAlignment) char zeros[kAllocationAlignment];

/// The first of some tensors that looks at a storage, by the storage.
class ByStorage {
 public:
  explicit ByStorage(TensorList tensors) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined())
        first_.emplace(tensors[i].impl().storage.get(), static_cast<int>(i));
  }
  /// -1 for none.
  int operator[](const Storage* s) const {
    const auto at = first_.find(s);
    return at == first_.end() ? -1 : at->second;
  }

 private:
  std::unordered_map<const Storage*, int> first_;
};

std::string text_of(const CapturedCall& call) {
  std::string out = call.op.info->name + (call.in_place ? "_(" : "(");
  for (size_t i = 0; i < call.input_count(); ++i) {
    const CapturedView& v = call.views[i];
    out += fmt::format("{}{}", i ? ", " : "",
                       v.storage ? fmt::format("{}{}", v.dtype, call.sizes(v)) : "None");
  }
  return out + ")";
}

/// Storages of stand-ins have an address while it lives.
struct WithAddress {
  explicit WithAddress(const Tensors& inputs) {
    for (const Tensor& t : inputs)
      if (t.defined() && !t.impl().storage->data) {
        storages.push_back(t.impl().storage.get());
        t.impl().storage->data = zeros;
      }
  }
  ~WithAddress() {
    for (Storage* s : storages) s->data = nullptr;
  }
  WithAddress(const WithAddress&) = delete;
  std::vector<Storage*> storages;
};

}  // namespace

ProgramStage stage_of(std::string_view name, const graph::Graph& g) {
  ProgramStage stage{std::string(name), {}};
  std::vector<uint32_t> version(g.storages.size(), 0);
  for (const graph::Node& n : g.nodes) {
    ProgramNode node{.op = n.op->info->name + (n.in_place ? "_" : "")};
    for (const graph::Use& u : n.inputs)
      node.inputs.push_back(u.value == graph::kNone ? "None" : name_of(g, u.value, u.version));
    for (const uint32_t s : n.writes) ++version[s];
    for (const uint32_t v : n.outputs) {
      if (v == graph::kNone) continue;
      node.outputs.push_back(name_of(g, v, version[g.values[v].storage]));
      node.forms.push_back(fmt::format("{}{}", g.values[v].dtype, g.values[v].sizes));
    }
    stage.nodes.push_back(std::move(node));
  }
  return stage;
}

TensorForm::TensorForm(const Tensor& t) : defined(t.defined()) {
  if (!defined) return;
  dtype = t.dtype();
  sizes = t.impl().sizes;
  strides = t.impl().strides;
  offset = t.impl().offset;
}

TracedProgram::TracedProgram(const char* who, bool keeps, Capture& capture, const Tensors& inputs,
                             const Tensors& results, const PhiloxRange& random,
                             const TracedProgram* before)
    : who_(who), random_(random), random_end_(default_generator().get_state()) {
  const std::vector<CapturedCall*> calls = capture.to_flush();
  check_random(calls);
  const WithAddress stand_ins(inputs);
  std::vector<uint64_t> keys;
  const StorageNumbers numbers(capture, calls, &keys);
  key_ = numbers.key();
  for (const CapturedCall* call : calls) {
    TracedCall& traced = calls_.emplace_back(text_of(*call), call->line, keys[calls_.size()]);
    for (const Attr& a : call->attrs.view())
      if (a.kind() == Attr::Kind::Float || a.kind() == Attr::Kind::Scalar)
        traced.numbers.push_back(std::bit_cast<uint64_t>(a.number()));
  }
  if (before && !(before->key_ == key_)) return;
  if (before) {
    PELLUCID_CHECK(
        random_end_.offset - random_.offset == before->random_end_.offset - before->random_.offset,
        ValueError, "{}: the function does not draw as many random numbers as before.", who_);
    program_ = before->program_;  // whose calls lie between its own states of the generator
    random_ = before->random_;
    random_end_ = before->random_end_;
  } else {
    // A sealed function shows its stages to nobody.
    const auto note = [&](const graph::PassResult& pass, const graph::Graph& g) {
      stages_.emplace_back(
          pass.name, pass.changed ? std::make_shared<const ProgramStage>(stage_of(pass.name, g))
                                  : stages_.back().second);
    };
    program_ = std::make_shared<ReplayProgram>(calls, numbers,
                                               keeps ? graph::AfterPass() : graph::AfterPass(note));
  }
  const ByStorage input_of(inputs), result_of(results);
  for (const Tensor& t : inputs) {
    inputs_.emplace_back(t);
    shared_with_.push_back(t.defined() ? input_of[t.impl().storage.get()] : -1);
  }
  const graph::Graph& g = program_->graph();
  take_gradients(capture, inputs, numbers, before);
  for (const std::function<uint64_t()>& current : capture.assumptions)
    assumptions_.emplace_back(current, current());
  std::vector<bool> is_made(numbers.storages().size(), false);  // as a gradient
  for (const Leaf& l : leaves_)
    if (l.storage >= 0) is_made[static_cast<size_t>(l.storage)] = true;
  std::unordered_set<const Storage*> constants;
  for (const Ref<Storage>& c : capture.constants) constants.insert(c.get());
  const auto is_constant = [&](const Storage* s) { return constants.contains(s); };
  std::unordered_map<const Storage*, const std::function<Tensor()>*> live_numbers;
  for (const auto& [storage, current] : capture.live_numbers)
    live_numbers[storage.get()] = &current;
  std::vector<bool> is_number(numbers.storages().size(), false);
  for (const graph::Value& v : g.values) is_number[v.storage] = is_number[v.storage] || v.number;
  for (size_t i = 0; i < numbers.storages().size(); ++i) {
    Storage* const s = numbers.storages()[i];
    Slot slot{.input = input_of[s], .writes = g.storages[i].writes};
    const bool returned = result_of[s] >= 0;
    const bool kept =
        keeps && g.storages[i].live_out && !g.storages[i].external && !returned && !is_made[i];
    if (slot.input < 0 && (g.storages[i].external || kept)) slot.exists = Ref<Storage>::share(s);
    slot.constant = slot.exists && is_constant(s);
    changes_constants_ = changes_constants_ || (slot.constant && slot.writes > 0);
    if (slot.constant && slot.writes == 0 && s->data) {  // the program may change its own later
      slot.exists = new_storage(s->bytes);
      std::memcpy(slot.exists->data, s->data, s->bytes);
    }
    if (slot.exists && is_number[i]) {
      slot.number = true;
      std::memcpy(&slot.bits, s->data, std::min<size_t>(s->bytes, sizeof slot.bits));
    }
    if (slot.exists) slot.changed = slot.exists->tensors_changed.load(std::memory_order_relaxed);
    if (const auto live = live_numbers.find(s); live != live_numbers.end())
      slot.live = std::make_shared<const std::function<Tensor()>>(*live->second);
    slots_.push_back(std::move(slot));
  }
  for (const Tensor& t : results) {
    Result r{.form = TensorForm(t)};
    if (t.defined()) {
      r.constant = is_constant(t.impl().storage.get());
      const uint32_t number = numbers.of(*t.impl().storage);
      if (number != graph::kNone)
        r.storage = static_cast<int>(number);
      else if (r.input = input_of[t.impl().storage.get()]; r.input < 0)
        r.given = t;
      if (r.constant && r.given.defined()) {
        const ModeScope at_once(kCapture, false);
        r.given = t.detach().clone();
      }
    }
    results_.push_back(std::move(r));
  }
}

// What the calls draw must be what the generator of the thread gave out, from its state before.
void TracedProgram::check_random(std::span<CapturedCall* const> calls) const {
  bool in_order = random_end_.seed == random_.seed && random_end_.offset >= random_.offset;
  for (const CapturedCall* call : calls)
    if (call->op.random_count)
      in_order = in_order && call->seed == random_.seed && call->random_offset >= random_.offset &&
                 call->random_offset <= random_end_.offset;
  PELLUCID_CHECK(in_order, ValueError,
                 "{}: the function sets the seed, or draws random numbers from a generator of its "
                 "own, which a replay cannot do. Draw them outside and pass them as a tensor.",
                 who_);
}

void TracedProgram::take_gradients(const Capture& capture, const Tensors& inputs,
                                   const StorageNumbers& numbers, const TracedProgram* before) {
  std::unordered_map<const TensorImpl*, int> input_of;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) input_of[&inputs[i].impl()] = static_cast<int>(i);
  std::unordered_map<const TensorImpl*, const Leaf*> leaves_before;
  std::unordered_map<int, const Leaf*> inputs_before;
  if (before)
    for (const Leaf& known : before->leaves_) {
      if (known.input >= 0)
        inputs_before[known.input] = &known;
      else
        leaves_before[&known.leaf.impl()] = &known;
    }
  for (const auto& [tensor, gradient] : capture.changed_gradients()) {
    Leaf l{.leaf = tensor};
    if (const auto at = input_of.find(&tensor.impl()); at != input_of.end()) l.input = at->second;
    if (l.input >= 0) l.leaf = Tensor();
    if (gradient.defined()) l.before = gradient.impl().storage;
    const Leaf* known = nullptr;
    if (l.input >= 0) {
      if (const auto at = inputs_before.find(l.input); at != inputs_before.end())
        known = at->second;
    } else if (const auto at = leaves_before.find(&tensor.impl()); at != leaves_before.end()) {
      known = at->second;
    }
    if (known) l.cleared = known->cleared || (known->exists_now && !gradient.defined());
    const Tensor now = tensor.grad();
    l.dropped = !now.defined();
    if (now.defined() && now.impl().storage != l.before) {
      const uint32_t i = numbers.of(*now.impl().storage);
      l.form = TensorForm(now);
      if (i != graph::kNone && !program_->graph().storages[i].external &&
          program_->graph().storages[i].writes > 0)
        l.storage = static_cast<int>(i);
      else
        l.given = now;
    }
    leaves_.push_back(std::move(l));
  }
}

void TracedProgram::note_gradients(TensorList inputs) const {
  for (const Leaf& l : leaves_)
    if (l.input < static_cast<int>(inputs.size()))
      l.exists_now = leaf_of(l, inputs).grad().defined();
}

void TracedProgram::note_held() {
  for (Slot& slot : slots_)
    slot.held =
        slot.exists && !slot.number && !slot.live && !slot.constant && holders(*slot.exists) > 1;
}

bool TracedProgram::assumes_the_same() const {
  return std::all_of(assumptions_.begin(), assumptions_.end(),
                     [](const auto& a) { return a.first() == a.second; });
}

bool TracedProgram::fits(TensorList inputs) const {
  if (inputs.size() != inputs_.size()) return true;  // run() tells what is wrong
  if (!assumes_the_same()) return false;
  for (const Slot& slot : slots_) {
    if (slot.held && holders(*slot.exists) == 1) return false;
    if (slot.exists && slot.exists->tensors_changed.load(std::memory_order_relaxed) != slot.changed)
      return false;
  }
  for (const Leaf& l : leaves_) {
    const Tensor& leaf = leaf_of(l, inputs);
    if (!leaf.defined()) return true;
    const Tensor now = leaf.grad();
    if (l.before ? !now.defined() || now.impl().storage != l.before : now.defined() && !l.cleared)
      return false;
  }
  return true;
}

std::string TracedProgram::TracedCall::described() const {
  const std::string at = line.text();
  return at.empty() ? text : text + " at " + at;
}

std::string TracedProgram::user_of(size_t storage) const {
  const graph::Graph& g = program_->graph();
  const auto is_it = [&](uint32_t value) {
    return value != graph::kNone && g.values[value].storage == storage;
  };
  for (const graph::Node& n : g.nodes)
    if (std::any_of(n.inputs.begin(), n.inputs.end(),
                    [&](const graph::Use& u) { return is_it(u.value); }) ||
        std::any_of(n.outputs.begin(), n.outputs.end(), is_it))
      return calls_[n.call].described();
  return "a call";
}

void TracedProgram::check_same(const TracedProgram& later) const {
  const size_t both = std::min(calls_.size(), later.calls_.size());
  for (size_t i = 0; i < both; ++i)
    PELLUCID_CHECK(calls_[i].text == later.calls_[i].text, ValueError,
                   "{}: the function does not do the same in each call: call {} was {} and is {} "
                   "now. Do not seal it, or take out what changes.",
                   who_, i + 1, calls_[i].described(), later.calls_[i].described());
  PELLUCID_CHECK(calls_.size() == later.calls_.size(), ValueError,
                 "{}: the function made {} calls when it was sealed and {} now; the first that is "
                 "there only once is {}.",
                 who_, calls_.size(), later.calls_.size(),
                 (calls_.size() > both ? calls_[both] : later.calls_[both]).described());
  for (size_t i = 0; i < both; ++i) {
    PELLUCID_CHECK(calls_[i].key == later.calls_[i].key, ValueError,
                   "{}: the function makes the same calls, but call {}, {}, is on other tensors or "
                   "has other attributes now.",
                   who_, i + 1, later.calls_[i].described());
    PELLUCID_CHECK(calls_[i].numbers == later.calls_[i].numbers, ValueError,
                   "{}: a number that the function uses changed between two calls: that of {}. "
                   "Give it as a tensor among the arguments.",
                   who_, later.calls_[i].described());
  }
  PELLUCID_CHECK(key_ == later.key_, ValueError,
                 "{}: the function makes the same calls, but other results of them are kept.",
                 who_);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot &a = slots_[i], &b = later.slots_[i];
    if (a.live && b.live) continue;
    if (a.constant && b.constant && a.exists && b.exists && a.exists->bytes == b.exists->bytes) {
      PELLUCID_CHECK(std::memcmp(a.exists->data, b.exists->data, a.exists->bytes) == 0, ValueError,
                     "{}: values that the function makes a tensor of changed between two calls; "
                     "{} uses them. Give them as a tensor among the arguments.",
                     who_, later.user_of(i));
      continue;
    }
    PELLUCID_CHECK(a.number == b.number && (!a.number || a.bits == b.bits), ValueError,
                   "{}: a number that the function uses changed between two calls: that of {}. "
                   "Give it as a tensor among the arguments.",
                   who_, later.user_of(i));
    PELLUCID_CHECK(
        a.number || (a.input == b.input && (!a.exists || !program_->graph().storages[i].external ||
                                            a.exists == b.exists)),
        ValueError,
        "{}: {} uses a tensor that is another one in each call and is not among the arguments. "
        "Give it as an argument, or change its values in place.",
        who_, later.user_of(i));
  }
}

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

Tensors TracedProgram::run(TensorList given) const {
  PELLUCID_CHECK(given.size() == inputs_.size(), ValueError, "{}: {} inputs are needed, found {}.",
                 who_, inputs_.size(), given.size());
  const LazyGuard at_once(false);
  Tensors inputs;
  for (size_t i = 0; i < given.size(); ++i) inputs.push_back(prepared(given[i], i));
  check_distinct(given, inputs);
  for (const Leaf& l : leaves_)  // the function drops it first, so its memory is free from here on
    if (l.cleared) meta_of(leaf_of(l, given)).grad = Tensor();
  const graph::Graph& g = program_->graph();
  std::vector<void*> addresses(g.storages.size(), nullptr);
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
  const Frame::Outside outside{[&](uint32_t i) {
    Storage& s = *made[i];
    return s.data = allocate(s.bytes, s.category);
  }};
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

namespace {

/// This thread captures a whole program while it lives. What is left at its end is dropped.
class WholeCapture {
 public:
  explicit WholeCapture(const char* who) : noted_(std::exchange(notes_callers, true)) {
    eval();  // what came before is no part of it
    random_ = default_generator().get_state();
    own_.forbid_values(who);
    lazy_.emplace();
  }
  ~WholeCapture() {
    allow_arguments();
    own_.discard();
    own_.allow_values();
    notes_callers = noted_;
  }
  WholeCapture(const WholeCapture&) = delete;
  Capture& capture() { return own_; }
  /// The generator's state before the first call.
  const PhiloxRange& random() const { return random_; }
  /// Runs what was captured.
  void run() {
    allow_arguments();
    own_.allow_values();
    eval();
  }
  /// A stand-in gets the values of a tensor.
  static void give(const Tensor& stand_in, const Tensor& values) {
    const ModeScope at_once(kCapture, false);
    const Tensor whole = values.detach().contiguous();
    Storage& s = *stand_in.impl().storage;
    s.data = allocate(s.bytes, s.category);
    if (whole.numel() > 0) std::memcpy(s.data, whole.const_data_ptr(), whole.nbytes());
    if (Capture::own().pending_writes(s) == 0) s.writer.store(nullptr, std::memory_order_release);
  }
  /// Whoever asks for their values is refused like one who asks for a result.
  void forbid_arguments(const Tensors& arguments) {
    for (const Tensor& t : arguments) {
      if (!t.defined() || !t.impl().storage || is_pending(*t.impl().storage)) continue;
      arguments_.push_back(t.impl().storage);
      t.impl().storage->writer.store(&own_, std::memory_order_release);
    }
  }

 private:
  Capture& own_ = Capture::own();
  void allow_arguments() noexcept {
    for (const Ref<Storage>& s : arguments_)
      if (own_.pending_writes(*s) == 0) s->writer.store(nullptr, std::memory_order_release);
    arguments_.clear();
  }

  const bool noted_;
  std::vector<Ref<Storage>> arguments_;
  PhiloxRange random_;
  std::optional<LazyGuard> lazy_;
};

}  // namespace

namespace {

/// What a traced function still has of what its calls make, other than results and gradients.
enum class Kept { Nothing, Made, Changed };

Kept kept_of_trace(Capture& capture, const Tensors& inputs, const Tensors& results) {
  Kept kept = Kept::Nothing;
  std::unordered_set<const Storage*> known;
  for (const Tensors* tensors : {&inputs, &results})
    for (const Tensor& t : *tensors)
      if (t.defined()) known.insert(t.impl().storage.get());
  for (const auto& changed : capture.changed_gradients())
    if (const Tensor now = changed.first.grad(); now.defined())
      known.insert(now.impl().storage.get());
  for (const CapturedCall* call : capture.to_flush())
    for (const Storage* s : call->writes) {
      if (s->data || holders(*s) == 0 || known.contains(s)) continue;
      kept = std::max(kept, capture.pending_writes(*s) > 1 ? Kept::Changed : Kept::Made);
    }
  return kept;
}

}  // namespace

bool is_sealing() { return (modes & kCapture) != 0 && Capture::own().forbids_values(); }

void note_live_number(const Tensor& t, std::function<Tensor()> current) {
  Capture::own().live_numbers.emplace_back(t.impl().storage, std::move(current));
}

void note_assumption(std::function<uint64_t()> current) {
  if (is_sealing()) Capture::own().assumptions.push_back(std::move(current));
}

namespace {
constinit thread_local char this_thread = 0;  // its address tells threads apart
}

struct Sealed::State {
  std::atomic<const void*> tracer{nullptr};  // the thread that captures, which holds the mutex
  mutable std::mutex mutex;                  // calls take turns
  int64_t calls = 0;
  bool settled = false;  // two calls in a row did the same
  std::unique_ptr<TracedProgram> program;
  bool anew = false;  // the program no longer fits; a call that found that it did may still run it
  const TracedProgram* known() const { return anew ? nullptr : program.get(); }
  std::optional<WholeCapture> capture;
  Tensors arguments;
  std::vector<uint64_t> others, others_now;
  std::any prototype;  // the last result that was traced

  void check_others(const std::vector<uint64_t>& now) const {
    PELLUCID_CHECK(!known() || now == others, ValueError,
                   "seal: an argument that is no tensor changed. A sealed function replays what it "
                   "did with the first one; give it as a tensor.");
  }
};

Sealed::Sealed() : state_(std::make_unique<State>()) {}
Sealed::~Sealed() = default;

bool Sealed::traces(const Tensors& arguments) {
  PELLUCID_CHECK(state_->tracer.load() != &this_thread, ValueError,
                 "seal: the function calls itself, which a program cannot.");
  const std::lock_guard lock(state_->mutex);
  // The second call may find what the first one left, and a third that does not fit begins anew.
  const TracedProgram* const p = state_->known();
  if (p && !(state_->calls > 1 ? p->fits(arguments) : p->assumes_the_same())) {
    state_->anew = true;
    state_->settled = false;
    state_->calls = 0;
  }
  return !state_->settled || state_->calls % 1024 == 1023;
}

void Sealed::begin(const Tensors& arguments, std::vector<uint64_t> others) {
  state_->mutex.lock();
  try {
    state_->check_others(others);
    state_->others_now = std::move(others);
    state_->arguments = arguments;
    if (state_->known()) state_->known()->note_gradients(arguments);
    eval(arguments);
    for (const Tensor& t : arguments)
      if (t.defined()) t.expose();
    state_->capture.emplace("seal");
    state_->capture->forbid_arguments(arguments);
    note_assumption([] {
      return static_cast<uint64_t>(get_default_dtype()) << 1 | uint64_t{GradMode::is_enabled()};
    });
    state_->tracer.store(&this_thread);
  } catch (...) {
    state_->mutex.unlock();
    throw;
  }
}

void Sealed::end(const Tensors& results, std::any prototype) {
  // The first call may differ from all others: optimisers make their state in it.
  const auto make = [&](const TracedProgram* before) {
    return std::make_unique<TracedProgram>("seal", true, state_->capture->capture(),
                                           state_->arguments, results, state_->capture->random(),
                                           before);
  };
  std::unique_ptr<TracedProgram> program;
  try {
    const TracedProgram* const known = state_->known();
    program = make(known);
    const bool first = !known;
    const bool same = !first && program->key() == known->key();
    if (!first && !same && state_->calls == 1)
      program = make(nullptr);
    else if (!first)
      known->check_same(*program);
    PELLUCID_CHECK(!same || !program->changes_constants(), ValueError,
                   "seal: the function changes in place a tensor that it makes from values, as "
                   "tensor(0); a replay would go on from the last one. Use zeros or full.");
    state_->settled = same;
  } catch (...) {
    state_->capture.reset();  // nothing of it runs
    throw;
  }
  state_->capture->run();
  state_->capture.reset();
  state_->program = std::move(program);
  state_->anew = false;
  state_->program->note_held();
  state_->prototype = std::move(prototype);
  state_->others = std::move(state_->others_now);
  state_->arguments.clear();
  ++state_->calls;
  state_->tracer.store(nullptr);
  state_->mutex.unlock();
}

std::any Sealed::prototype() const {
  const std::lock_guard lock(state_->mutex);
  return state_->prototype;
}

void Sealed::abandon() noexcept {
  if (state_->tracer.load() != &this_thread) return;
  // As an eager call would, what the function did before it failed stays.
  try {
    if (state_->capture) state_->capture->run();
  } catch (const std::exception&) {
    // Whoever reads what could not be computed gets the error.
  }
  state_->capture.reset();
  state_->arguments.clear();
  state_->tracer.store(nullptr);
  state_->mutex.unlock();
}

Tensors Sealed::replay(const Tensors& arguments, const std::vector<uint64_t>& others) {
  const std::lock_guard lock(state_->mutex);
  state_->check_others(others);
  Tensors results = state_->program->run(arguments);
  ++state_->calls;
  return results;
}

}  // namespace detail

std::string ProgramStage::text() const {
  std::string out;
  for (const ProgramNode& n : nodes) {
    for (size_t k = 0; k < n.outputs.size(); ++k)
      out += fmt::format("{}{} {}", k ? ", " : "", n.outputs[k], n.forms[k]);
    out +=
        fmt::format("{}{}({})\n", n.outputs.empty() ? "" : " = ", n.op, fmt::join(n.inputs, ", "));
  }
  return out;
}

const detail::TracedProgram& Program::traced() const {
  PELLUCID_CHECK(traced_ != nullptr, ValueError,
                 "Program: it is empty; make one with trace(f, inputs).");
  return *traced_;
}

Tensors Program::run(TensorList inputs) const {
  PELLUCID_CHECK(traced().fits(inputs), ValueError,
                 "Program: a parameter that it uses got other memory, requires a gradient or not "
                 "otherwise than when it was traced, has a gradient where there was none, or an "
                 "option of its optimiser changed. Trace the function again, or drop gradients "
                 "with zero_grad().");
  return traced().run(inputs);
}

Tensors Program::run(const NamedTensors& inputs) const {
  const std::vector<std::string>& names = traced().names;
  Tensors ordered(names.size());
  std::vector<bool> given(names.size(), false);
  for (const auto& [name, tensor] : inputs) {
    const auto at = std::find(names.begin(), names.end(), name);
    PELLUCID_CHECK(at != names.end(), ValueError, "Program: there is no input '{}'; it has: {}.",
                   name, fmt::join(names, ", "));
    const auto i = static_cast<size_t>(at - names.begin());
    PELLUCID_CHECK(!given[i], ValueError, "Program: the input '{}' was given twice.", name);
    given[i] = true;
    ordered[i] = tensor;
  }
  for (size_t i = 0; i < names.size(); ++i)
    PELLUCID_CHECK(given[i], ValueError, "Program: the input '{}' is missing.", names[i]);
  return run(TensorList(ordered));
}

const std::vector<std::string>& Program::inputs() const { return traced().names; }
int64_t Program::calls() const {
  return static_cast<int64_t>(traced().program()->graph().nodes.size());
}
std::string Program::text() const {
  return detail::stage_of("", traced().program()->graph()).text();
}
std::vector<ProgramStage> Program::stages() const {
  std::vector<ProgramStage> out;
  for (const auto& [name, stage] : traced().stages()) out.push_back({name, stage->nodes});
  ProgramStage last = out.back();
  last.name = "fuse";
  size_t next = 0;
  int groups = 0;
  for (const Explanation::Part& p : explain().parts) {
    const int group = p.ops.size() > 1 ? groups++ : -1;
    for (size_t i = 0; i < p.ops.size(); ++i) last.nodes[next++].group = group;
  }
  out.push_back(std::move(last));
  return out;
}
int64_t Program::peak_bytes() const { return explain().peak_bytes; }
Explanation Program::explain() const {
  Explanation e;
  traced().program()->explain(e);
  return e;
}

Program trace(const std::function<Tensors(const Tensors&)>& f, const NamedTensors& inputs) {
  PELLUCID_CHECK(static_cast<bool>(f), ValueError, "trace: the function is empty.");
  detail::WholeCapture capture("trace");
  Tensors stand_ins;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : inputs) {
    PELLUCID_CHECK(tensor.defined(), ValueError, "trace: the input '{}' is undefined.", name);
    PELLUCID_CHECK(std::find(names.begin(), names.end(), name) == names.end(), ValueError,
                   "trace: two inputs are called '{}'.", name);
    names.push_back(name);
    detail::Ref<detail::TensorImpl> impl = detail::new_impl(tensor.dtype(), tensor.sizes());
    const int64_t bytes = std::max<int64_t>(tensor.nbytes(), 1);
    impl->storage = capture.capture().stand_in(static_cast<size_t>(bytes));
    Tensor stand_in(std::move(impl));
    if (tensor.requires_grad()) stand_in.requires_grad_();
    stand_ins.push_back(std::move(stand_in));
  }
  // The calls run, with the examples as inputs, where the function keeps what they make.
  const auto run_if_kept = [&](const Tensors& results) {
    const detail::Kept kept = detail::kept_of_trace(capture.capture(), stand_ins, results);
    if (kept == detail::Kept::Nothing) return kept;
    for (size_t i = 0; i < stand_ins.size(); ++i)
      detail::WholeCapture::give(stand_ins[i], inputs[i].second);
    capture.run();
    return kept;
  };
  Tensors results;
  try {
    results = f(stand_ins);
    for (Tensor& t : results)
      if (t.defined() && t.requires_grad()) t = t.detach();
  } catch (...) {
    run_if_kept({});
    throw;
  }
  auto traced = std::make_shared<detail::TracedProgram>("trace", false, capture.capture(),
                                                        stand_ins, results, capture.random());
  const detail::Kept kept = run_if_kept(results);
  PELLUCID_CHECK(kept != detail::Kept::Changed, ValueError,
                 "trace: the function keeps a tensor that it makes and changes, as the state of an "
                 "optimiser, so each run of the program would begin with a new one. It ran once "
                 "with the examples, and has its state now: trace it again.");
  if (kept == detail::Kept::Nothing) capture.capture().restore();
  PELLUCID_CHECK(!traced->changes_constants(), ValueError,
                 "trace: the function changes in place a tensor that it makes from values, as "
                 "tensor(0); a second run would go on from the first. Use zeros or full.");
  traced->names = std::move(names);
  return Program(std::move(traced));
}

}  // namespace pellucid
