#include "core/traced.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/allocator.h"
#include "core/autograd_meta.h"

namespace pellucid::detail {
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

/// The hooks of a leaf: other ones give another number.
uint64_t hooks_of(const Tensor& leaf) {
  AutogradMeta* const meta = meta_if(leaf.impl());
  if (!meta) return 0;
  uint64_t h = 0;
  const std::lock_guard lock(leaf_lock(&leaf.impl()));
  for (const auto& [id, hook] : meta->hooks) h = profile::mix(h, id, 1);
  if (!meta->accumulator) return h;
  autograd::Node::Extras* const e = meta->accumulator->extras_if();
  if (!e) return h;
  const std::lock_guard extras(e->mutex);
  const auto add = [&](const auto& hooks, uint64_t kind) {
    for (const auto& [id, hook] : hooks)
      h = profile::mix(profile::mix(h, id, kind), meta->accumulator->sequence_nr());
  };
  add(e->pre_hooks, 2);
  add(e->post_hooks, 3);
  return h;
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
    if (keeps) tracked_.push_back(t.defined() && t.requires_grad());
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
    l.hooks = hooks_of(tensor);
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
  for (size_t i = 0; i < tracked_.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad() != tracked_[i]) return false;
  for (const Slot& slot : slots_) {
    if (slot.held && holders(*slot.exists) == 1) return false;
    if (slot.exists && slot.exists->tensors_changed.load(std::memory_order_relaxed) != slot.changed)
      return false;
  }
  for (const Leaf& l : leaves_) {
    const Tensor& leaf = leaf_of(l, inputs);
    if (!leaf.defined()) return true;
    if (hooks_of(leaf) != l.hooks) return false;
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

std::string TracedProgram::kept_result() const {
  const graph::Graph& g = program_->graph();
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].exists && !g.storages[i].external && slots_[i].writes > 0) return user_of(i);
  return "";
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

}  // namespace pellucid::detail
