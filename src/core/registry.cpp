// Registration and look-up of op definitions.
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
  std::deque<std::string> schemas;  // of the ops that factories make
  std::vector<const OpDef*> ops;
  std::multimap<std::string, const OpDef*, std::less<>> by_name;

  void add(const OpDef& op) {
    if (op.info) return;
    PELLUCID_CHECK(!(op.kernel && op.compose), ValueError,
                   "op '{}': give the definition a kernel or a compose, not both.", op.schema);
    infos.push_back(parse_schema(op.schema));
    OpInfo& info = infos.back();
    PELLUCID_CHECK(op.compose || op.infer, ValueError,
                   "op '{}': a definition without compose needs infer.", op.schema);
    PELLUCID_CHECK(op.compose || op.kernel || info.is_view, ValueError,
                   "op '{}': a definition needs a kernel, a compose, or a view output Tensor(a).",
                   op.schema);
    std::vector<std::string> names = info.aliases;
    names.insert(names.begin(), info.name);
    for (const std::string& name : names)
      for (auto [it, end] = by_name.equal_range(name); it != end; ++it)
        PELLUCID_CHECK(it->second->info->overload != info.overload, ValueError,
                       "op '{}': the name '{}' is defined already; give it an overload name.",
                       op.schema, name);
    info.id = static_cast<uint32_t>(ops.size());
    // Other threads may ask at the same time whether the op definition is registered.
    std::atomic_ref(op.info).store(&info, std::memory_order_release);
    ops.push_back(&op);
    for (const std::string& name : names) by_name.emplace(name, &op);
    if (op.backward && !op.backward->info) {
      op.backward->schema = schemas.emplace_back(backward_schema(op, info));
      add(*op.backward);
    }
  }

  // "exp2[_](Tensor self)" gives "exp2_backward(Tensor grad_output, Tensor result)"; what follows
  // self in the schema stays as it is.
  static std::string backward_schema(const OpDef& op, const OpInfo& info) {
    const std::string_view self = "(Tensor self";
    const size_t at = op.schema.find(self);
    PELLUCID_CHECK(at != std::string_view::npos, ValueError,
                   "op '{}': the first argument of an op with a derived backward is 'Tensor self'.",
                   op.schema);
    return fmt::format("{}_backward(Tensor grad_output, Tensor {}{}", info.name,
                       op.saved.outputs ? "result" : "self", op.schema.substr(at + self.size()));
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

bool attr_is_structural(const OpDef& op, size_t i) {
  PELLUCID_ASSERT(i < 32);
  size_t at = 0;
  for (const Arg& a : info_of(op).args) {
    if (a.type == ArgType::Tensor || a.type == ArgType::TensorList || at++ != i) continue;
    return a.type == ArgType::Float || a.type == ArgType::Scalar
               ? (op.structural_attrs >> i & 1) != 0
               : (op.run_time_attrs >> i & 1) == 0;
  }
  return true;
}

bool number_is_structural(const OpDef& op, size_t i) {
  return i < 32 && (op.structural_numbers >> i & 1) != 0;
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
