// How often a recording saw each op and scope.
#pragma once

#include <map>
#include <string>

#include "pellucid/profile.h"

namespace pellucid {

inline std::map<std::string, int> calls(const profile::Profile& p) {
  std::map<std::string, int> count;
  for (const profile::Event& e : p.events)
    ++count[p.signatures[static_cast<size_t>(e.signature)].name];
  return count;
}

}  // namespace pellucid
