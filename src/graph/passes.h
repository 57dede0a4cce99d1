// Passes over a captured program: each has a name, is timed, is checked by the verifier and can be
// switched off (PELLUCID_PASSES). None changes the arithmetic of an element, so results keep their
// bits.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace pellucid::graph {

struct Pass {
  std::string_view name;
  std::string_view doc;
  /// Returns how many nodes it changed. Null for a part of lowering that can be switched off.
  int64_t (*run)(Graph&);
  bool off = false;  ///< unless it is asked for: it changes how results are rounded
};

/// All passes in the order in which they run.
std::span<const Pass> passes();

/// Updates of parameters with at most so many elements are put behind each other, to run as one.
inline constexpr int64_t kMostUpdated = 16384;

/// Which passes run: all but those that a text such as "-fuse,-plan" names, or only those that
/// "cse,dead" names. "" is all but those that are off; "+reassociate" asks for one of these. Throws
/// ValueError for a name that is no pass.
class PassSet {
 public:
  explicit PassSet(std::string_view text = {});
  bool has(std::string_view name) const;
  uint64_t bits() const { return bits_; }  ///< for keys
  /// What PELLUCID_PASSES asked for when the process started, unless set() was called.
  static PassSet current();
  static void set(PassSet passes);

 private:
  uint64_t bits_ = 0;
};

/// What a pass did.
struct PassResult {
  std::string name;
  double seconds = 0;
  int64_t nodes_before = 0, nodes_after = 0;
  int64_t changed = 0;
};

/// While it is set, this thread's programs are made with the pass "reassociate".
extern constinit thread_local bool reassociating;
/// Products that share an operand are made one where they are added. Returns how many are gone.
int64_t reassociate(Graph& g);

/// Calls whose results wait run right before these are read, where that lowers the most bytes that
/// are needed at one time. Returns how many.
int64_t delay(Graph& g);

/// Results that wait until they are read again are computed a second time, until no more than
/// `budget` bytes are needed at one time or nothing more can be won. Returns how many.
int64_t recompute(Graph& g, size_t budget);
/// Results of fewer bytes are never computed a second time. Tests set it to 1.
inline constexpr size_t kLeastRepeated = size_t{64} << 10;
extern size_t least_repeated;

/// Runs the passes of the set, with the verifier after each. `budget` is for `recompute`, 0 for
/// none. `after` sees the graph after each.
using AfterPass = std::function<void(const PassResult&, const Graph&)>;
std::vector<PassResult> optimize(Graph& g, const PassSet& set, size_t budget = 0,
                                 const AfterPass& after = {});

}  // namespace pellucid::graph
