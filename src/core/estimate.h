// The dispatcher's side of EstimateGuard.
#pragma once

#include "pellucid/estimate.h"
#include "tensor/phantom.h"

namespace pellucid::estimate {

/// Which module's forward runs on this thread, null for none. Modules are a higher layer: nn tells
/// estimates how to ask.
using ModuleQuery = const nn::Module* (*)() noexcept;
void set_module_query(ModuleQuery query) noexcept;

/// The storage of an output under a guard.
detail::Ref<detail::Storage> new_storage(const Call& call, size_t bytes);
/// Counts the call; returns whether its kernel is to run all the same, because it is about numbers.
bool count(const Call& call);

/// Remembers which module's forward makes the tape node of this number.
void note_node(uint64_t number);
/// Calls are charged to the module of a node while its backward runs.
class NodeScope {
 public:
  explicit NodeScope(uint64_t number) {
    if (detail::estimating()) [[unlikely]]
      begin(number);
  }
  ~NodeScope() {
    if (begun_) [[unlikely]]
      end();
  }
  NodeScope(const NodeScope&) = delete;

 private:
  void begin(uint64_t number);
  void end();
  const nn::Module* outer_ = nullptr;
  bool begun_ = false;
};

}  // namespace pellucid::estimate
