// A captured program as data: nodes in the order in which they run, the tensors that they read and
// write, and the storages behind those. Passes change it (graph/passes.h), the planner gives its
// storages places (graph/plan.h), and core/program.h runs it. Nothing here knows tensors with
// values, and nothing here runs.
//
// Views share a storage. Each write of a storage makes its next version; a use says which version
// it reads, so an order of nodes that is wrong can be seen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pellucid/detail/dims.h"
#include "pellucid/memory.h"
#include "pellucid/op.h"

namespace pellucid::graph {

/// An index that means nothing: an input that was not given, a result that nobody needs.
inline constexpr uint32_t kNone = ~uint32_t{0};

/// Bytes that values look at.
struct Storage {
  size_t bytes = 0;
  MemoryCategory category = MemoryCategory::Other;
  bool external = false;  ///< it has bytes before the program runs: an input, a parameter, a number
  bool live_out = false;  ///< somebody can see it after the program ran
  uint32_t writes = 0;    ///< how often nodes write it
};

/// A tensor as a node reads or writes it.
struct Value {
  uint32_t storage = kNone;
  DType dtype = kFloat32;
  bool number = false;         ///< made from a number: weakest in type promotion
  bool hidden_layout = false;  ///< an op, not the program, chose the layout
  int64_t offset = 0;          ///< in elements
  Dims sizes, strides;
};

/// A value that a node reads, and how many writes its storage has had by then.
struct Use {
  uint32_t value = kNone;
  uint32_t version = 0;
};

/// A call of an op.
struct Node {
  const OpDef* op = nullptr;
  Attrs attrs = {};                ///< borrowed from whoever made the graph
  uint32_t call = 0;               ///< which captured call it is
  bool in_place = false;           ///< output 0 is input 0
  DType default_dtype = kFloat32;  ///< when the call was captured
  bool tracked = false;            ///< its hidden outputs are wanted: a gradient reads them
  bool unique = false;  ///< never merged with an equal node: random numbers, recomputation
  bool checks = false;  ///< it refuses some values, so it runs though nobody may read its result
  uint64_t seed = 0, random_offset = 0;  ///< of an op that draws random numbers
  std::vector<Use> inputs;
  std::vector<uint32_t> outputs;  ///< values, kNone where nobody needs one
  std::vector<uint32_t> writes;   ///< storages, each once: those of outputs and of changed inputs
};

/// A node that was not needed because an equal one ran before it.
struct Merge {
  uint32_t call = 0, into = 0;  ///< captured calls
  std::vector<std::pair<uint32_t, uint32_t>>
      storages;  ///< of its results, and those in their place
};

struct Graph {
  std::vector<Storage> storages;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Merge> merges;
  std::vector<std::pair<uint32_t, uint32_t>> repeats;  ///< storages of results that are made again,
                                                       ///< and those that they stand for
  /// Captured calls that were rewritten together: the results of some of them are those of all, so
  /// if one has to run alone, all have to.
  using Tie = std::vector<uint32_t>;
  std::vector<Tie> ties;

  const Storage& storage_of(uint32_t value) const { return storages[values[value].storage]; }
};

/// Calls f with the number of each storage that a node reads.
template <class F> void for_each_read(const Graph& g, const Node& n, const F& f) {
  for (const Use& u : n.inputs)
    if (u.value != kNone) f(g.values[u.value].storage);
}

/// Whether a node changes a storage that another node, or the program, made.
bool changes_in_place(const Graph& g, const Node& n);

/// Throws Error, naming `after`, where the graph contradicts itself: an index that does not
/// exist, a use of another version than the order gives, a read of what nobody wrote, a view beyond
/// its storage, a count of writes that is wrong.
void verify(const Graph& g, std::string_view after);

/// How a value is called in text: "%4" for a storage that nodes make, "in2" for an external one,
/// with the version behind it where there are several ("%4.2").
std::string name_of(const Graph& g, uint32_t value, uint32_t version);

}  // namespace pellucid::graph
