// What cProfile knows of each function: calls, times, and who called it.
#pragma once

#include <cstdint>
#include <vector>

#include "profile/index.h"

namespace pellucid::profile {

/// cProfile's numbers: all calls, those that were not recursive, the time inside the function
/// itself and with all that it called (of the calls that were not recursive), in nanoseconds.
struct CallFigures {
  int64_t calls = 0, primitive_calls = 0, own = 0, cumulative = 0;
  void add(const Event& e, bool primitive) {
    ++calls;
    own += e.self;
    if (!primitive) return;
    ++primitive_calls;
    cumulative += e.end - e.begin;
  }
};

/// The calls of one function by another.
struct CallEdge {
  int32_t caller = -1, callee = -1;
  CallFigures figures;
};

struct FunctionStats {
  explicit FunctionStats(const Profile& p);
  Names names;
  Functions functions;
  std::vector<CallFigures> figures;  ///< by function
  std::vector<CallEdge> edges;       ///< sorted by callee, then caller
  CallFigures total;                 ///< calls and own time of all functions
  int32_t site(int32_t function) const { return functions.number.high(function); }
  std::string_view name(int32_t function) const {
    return names.text[static_cast<size_t>(functions.number.low(function))];
  }
};

}  // namespace pellucid::profile
