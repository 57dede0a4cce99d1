// Small updates of parameters that follow each other run as one: one entry, one region of threads,
// one event in a profile. Each of them is run by one thread, as it would be alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/capture.h"
#include "graph/passes.h"

namespace pellucid::detail {

/// An optimiser's steps on different parameters.
class Updates {
 public:
  /// A parameter of more elements keeps all threads busy by itself.
  static constexpr int64_t kMostElements = graph::kMostUpdated;
  /// The updates that begin with the first of the calls; null where that are less than two.
  static std::unique_ptr<Updates> form(std::span<const std::unique_ptr<CapturedCall>> calls,
                                       bool reasons);
  size_t size() const { return calls_.size(); }
  void run();
  /// Why the call after the last one is no part of it.
  const std::string& end() const { return end_; }

 private:
  std::vector<CapturedCall*> calls_;
  std::vector<std::unique_ptr<PreparedCall>> prepared_;
  std::vector<size_t> parts_;  // where the calls are cut: each part is worth a thread
  std::string end_ = "nothing follows";
};

}  // namespace pellucid::detail
