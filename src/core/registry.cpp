// Registration and look-up of records.
#include "core/registry.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>

namespace pellucid {
namespace {

// Kept for the life of the process: ops may run in static destructors.
struct Registry {
  std::mutex mutex;
  std::deque<OpInfo> infos;
  std::vector<const OpDef*> ops;
  std::multimap<std::string, const OpDef*, std::less<>> by_name;

  void add(const OpDef& op) {
    if (op.info) return;
    PELLUCID_CHECK(!(op.kernel && op.compose), ValueError,
                   "op '{}': give the record a kernel or a compose, not both.", op.schema);
    infos.push_back(parse_schema(op.schema));
    OpInfo& info = infos.back();
    PELLUCID_CHECK(op.compose || op.infer, ValueError,
                   "op '{}': a record without compose needs infer.", op.schema);
    PELLUCID_CHECK(op.compose || op.kernel || info.is_view, ValueError,
                   "op '{}': a record needs a kernel, a compose, or a view output Tensor(a).",
                   op.schema);
    for (auto [it, end] = by_name.equal_range(info.name); it != end; ++it)
      PELLUCID_CHECK(it->second->info->overload != info.overload, ValueError,
                     "op '{}': a record with that name exists already; give it an overload name.",
                     op.schema);
    info.id = static_cast<uint32_t>(ops.size());
    // Other threads may ask at the same time whether the record is registered.
    std::atomic_ref(op.info).store(&info, std::memory_order_release);
    ops.push_back(&op);
    by_name.emplace(info.name, &op);
  }
};

Registry& registry() {
  static Registry& r = *[] {
    auto* made = new Registry;
    for (const OpDef* op : built_in_ops()) made->add(*op);
    return made;
  }();
  return r;
}

}  // namespace

const OpInfo& info_of(const OpDef& op) {
  const std::atomic_ref info(op.info);
  const OpInfo* found = info.load(std::memory_order_acquire);
  if (!found) [[unlikely]] {
    registry();
    found = info.load(std::memory_order_acquire);
    PELLUCID_CHECK(found, ValueError, "op '{}' was not registered; call register_op once at start.",
                   op.schema);
  }
  return *found;
}

void register_op(const OpDef& op) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.add(op);
}

std::vector<const OpDef*> all_ops() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::vector<const OpDef*> ops = r.ops;
  std::sort(ops.begin(), ops.end(), [](const OpDef* a, const OpDef* b) {
    return std::pair(a->info->name, a->info->overload) <
           std::pair(b->info->name, b->info->overload);
  });
  return ops;
}

std::vector<const OpDef*> find_ops(std::string_view name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::vector<const OpDef*> ops;
  for (auto [it, end] = r.by_name.equal_range(name); it != end; ++it) ops.push_back(it->second);
  return ops;
}

}  // namespace pellucid
