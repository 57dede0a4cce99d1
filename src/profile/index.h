// Flat tables over the events of a Profile, each made in one pass over its vectors, that the
// reports, exports and comparisons share: names as small numbers, functions (a name at a line),
// which call is the outermost of its kind, the merged call tree, sums over children, and the steps
// of the run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// An index of a Profile as a vector takes it.
inline size_t at(int32_t index) { return static_cast<size_t>(index); }

/// Throws IoError for a profile whose indices lead nowhere or whose parents come after their
/// children: such a file is damaged, and nothing else needs to look.
void validate(const Profile& p);

/// Different keys as the numbers 0, 1, 2…
class Numbering {
 public:
  int32_t operator()(uint64_t key) {
    if (key == last_key_ && !keys_.empty()) return last_;
    const auto [place, fresh] = number_.try_emplace(key, static_cast<int32_t>(keys_.size()));
    if (fresh) keys_.push_back(key);
    last_key_ = key;
    return last_ = place->second;
  }
  int32_t operator()(int32_t high, int32_t low) {
    return (*this)(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                   static_cast<uint32_t>(low));
  }
  int32_t size() const { return static_cast<int32_t>(keys_.size()); }
  int32_t high(int32_t n) const {
    return static_cast<int32_t>(keys_[static_cast<size_t>(n)] >> 32);
  }
  int32_t low(int32_t n) const { return static_cast<int32_t>(keys_[static_cast<size_t>(n)]); }

 private:
  std::unordered_map<uint64_t, int32_t> number_;
  std::vector<uint64_t> keys_;
  uint64_t last_key_ = 0;
  int32_t last_ = 0;
};

/// A key for each event, and whether an event is the outermost of its key: none around it has the
/// same one. Times of outermost events may be added up without counting anything twice.
struct Grouping {
  std::vector<int32_t> key;  ///< -1: belongs to no group
  std::vector<uint8_t> outermost;
  int32_t count = 0;
};
void find_outermost(const Profile& p, Grouping& g);

/// Names and lines that are the same get the same number, whatever else differs.
struct Names {
  explicit Names(const Profile& p);
  std::vector<std::string_view> text;  ///< by number
  std::vector<int32_t> of_signature;
  std::vector<int32_t> of_site;  ///< the first site with the same file and line
};

/// cProfile's functions: the pairs of a line and a name.
struct Functions {
  Functions(const Profile& p, const Names& names);
  Numbering number;  ///< high: site (or -1), low: name
  Grouping group;
};

/// Calls with the same path of functions, merged: what collapsed stacks and icicles show.
struct CallNode {
  int32_t parent = -1, function = -1;
  int64_t calls = 0, total = 0, self = 0;
};
struct CallTree {
  CallTree(const Profile& p, const Functions& functions);
  std::vector<CallNode> nodes;  ///< parents before their children; roots have parent -1
};

/// Bytes that the event and all below it allocated and did not free.
std::vector<int64_t> inclusive_memory(const Profile& p);

/// One repetition of what the run repeats.
struct Span {
  int64_t begin = 0, end = 0;
};
/// The steps of a run: those that the program marked, else from one optimiser's step to the next
/// (the first from what the others begin with: what came before it is no part of it),
/// else each run of backward(), else each call of the outermost module or scope that repeats.
struct Steps {
  explicit Steps(const Profile& p);
  std::vector<Span> spans;
  std::string what;  ///< "steps marked by the program", "optimiser steps", "calls of GPT"
  /// The step that this moment lies in, or -1.
  int32_t find(int64_t time) const;
};

/// What the events of one key did in one step.
struct StepFigures {
  int32_t step = 0;
  int64_t calls = 0, time = 0;  ///< nanoseconds, the events' own
  double flops = 0;
};
/// For each key its steps, in order; events outside the steps and those without a key are left out.
std::vector<std::vector<StepFigures>> figures_by_step(const Profile& p, const Steps& steps,
                                                      const std::vector<int32_t>& key,
                                                      int32_t count);

/// "two_layer.cpp:24", "~:0" where unknown; with all folders if `full`.
std::string place_of(const Profile& p, int32_t site, bool full = false);
/// cProfile's name of a function: "two_layer.cpp:24(linear)", "{linear}" where the line is unknown.
std::string function_name(const Profile& p, int32_t site, std::string_view name, bool full = false);
/// "[[64, 1000], [100, 1000], []]", as torch.profiler writes the sizes of the inputs.
std::string shapes_of(const std::vector<TensorInfo>& tensors);

}  // namespace pellucid::profile
