// Some random programs run three times: at once, as a program that is made then, and replayed; with
// one of the passes off, each in turn.
#pragma once

#include <string>

#include "core/program.h"

namespace pellucid::test {

struct ReplayRounds {
  explicit ReplayRounds(uint32_t seed) : count(seed % 2 == 0 ? 3 : 1) {
    const auto all = graph::passes();
    if (const size_t off = seed / 2 % (all.size() + 1); off < all.size())
      passes = "-" + std::string(all[off].name);
    graph::PassSet::set(graph::PassSet(passes));
  }
  ~ReplayRounds() { graph::PassSet::set(graph::PassSet()); }
  ReplayRounds(const ReplayRounds&) = delete;
  const int count;
  std::string passes;
};

}  // namespace pellucid::test
