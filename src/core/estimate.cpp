// EstimateGuard: what the dispatcher does with a call that is costed and not run.
#include "core/estimate.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "core/registry.h"

namespace pellucid {

struct EstimateGuard::State {
  std::vector<EstimatedCall> calls;
  std::vector<EstimatedPhase> phases{{"setup", {}, {}}};
  std::shared_ptr<detail::MemoryLedger> ledger = std::make_shared<detail::MemoryLedger>();
  std::shared_ptr<detail::MemoryLedger> outer_ledger;
  State* outer = nullptr;
  // Of tape nodes: the module whose forward made them. Nodes from outside modules are not here.
  std::unordered_map<uint64_t, const nn::Module*> module_of_node;
  const nn::Module* charged = nullptr;  // of the node whose backward runs

  void close_phase() {
    phases.back().end = ledger->now();
    phases.back().peak = ledger->peak();
  }
};

namespace {

constinit thread_local EstimateGuard::State* current = nullptr;
constinit std::atomic<estimate::ModuleQuery> module_query{nullptr};

const nn::Module* running_module() {
  const estimate::ModuleQuery query = module_query.load(std::memory_order_relaxed);
  return query ? query() : nullptr;
}

double numel_of(const Tensor& t) { return static_cast<double>(t.numel()); }

}  // namespace

FlopSplit split_flops(const Call& c) {
  const Cost cost = c.op().cost ? c.op().cost(c) : Cost{};
  if (c.op().kind != OpKind::Contraction) return {0, cost.flops, cost.flops};
  return {cost.flops - cost.added + cost.skipped, cost.added, cost.flops};
}

EstimateGuard::EstimateGuard() : state_(std::make_unique<State>()) {
  state_->outer = current;
  current = state_.get();
  state_->outer_ledger = detail::exchange_ledger(state_->ledger);
}

EstimateGuard::~EstimateGuard() {
  detail::exchange_ledger(std::move(state_->outer_ledger));
  current = state_->outer;
}

bool EstimateGuard::is_enabled() { return detail::estimating(); }

void EstimateGuard::phase(std::string name) {
  state_->close_phase();
  state_->ledger->restart_peak();
  state_->phases.push_back({std::move(name), {}, {}});
}

const std::vector<EstimatedCall>& EstimateGuard::calls() const { return state_->calls; }

std::vector<EstimatedPhase> EstimateGuard::phases() const {
  state_->close_phase();
  return state_->phases;
}

MemorySnapshot EstimateGuard::memory() const { return state_->ledger->now(); }

namespace estimate {

void set_module_query(ModuleQuery query) noexcept { module_query.store(query); }

namespace {
// An optimiser's learning rate, a counter, a loss scale: computed, since programs read them.
bool about_numbers(const Call& c) {
  if (c.op().kind == OpKind::Random) return false;
  for (size_t k = 0; k < c.output_count(); ++k)
    if (c.out(k).defined() && c.out(k).dim() > 0) return false;
  for (size_t i = 0; i < c.input_count(); ++i)
    if (c.has_in(i) && (c.in(i).dim() > 0 || !detail::has_values(c.in(i).impl()))) return false;
  return c.output_count() > 0;
}
}  // namespace

detail::Ref<detail::Storage> new_storage(const Call& c, size_t bytes) {
  return detail::phantom_storage(bytes, about_numbers(c));
}

bool count(const Call& c) {
  for (size_t k = 0; k < c.output_count(); ++k)
    PELLUCID_CHECK(!c.out(k).defined() || c.out(k).has_storage(), NotImplementedError,
                   "{}: the sizes of its result depend on values, which an estimate does not have.",
                   c.name());
  const double bytes = c.op().cost ? c.op().cost(c).bytes : 0;
  if (c.op().scratch) current->ledger->touch(c.op().scratch(c), MemoryCategory::Temporary);
  const bool has_output = c.output_count() > 0 && c.out().defined();
  const nn::Module* module = running_module();
  current->calls.push_back({&c.op(), module ? module : current->charged, current->phases.size() - 1,
                            split_flops(c), bytes, has_output ? numel_of(c.out()) : 0});
  // A number that existed before the guard keeps its value: a count of batches, say.
  for (size_t k = 0; k < c.output_count(); ++k)
    if (c.out(k).defined() && !detail::is_counted(*c.out(k).impl().storage)) return false;
  return about_numbers(c);
}

void note_node(uint64_t number) {
  const nn::Module* module = running_module();
  if (!module) module = current->charged;  // a node of backward itself, for a second derivative
  if (module) current->module_of_node.emplace(number, module);
}

void NodeScope::begin(uint64_t number) {
  const auto found = current->module_of_node.find(number);
  const nn::Module* module = found == current->module_of_node.end() ? nullptr : found->second;
  outer_ = std::exchange(current->charged, module);
  begun_ = true;
}

void NodeScope::end() {
  if (current) current->charged = outer_;
}

}  // namespace estimate
}  // namespace pellucid
