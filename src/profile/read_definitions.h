// What the numbers in one process's raw files mean: its file of definitions, one JSON object a
// line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profile/collect.h"

namespace pellucid::profile {

/// The numbers of one process, as positions in the profile's tables, which it fills.
class Definitions {
 public:
  Definitions(Collected& all, const std::string& path);

  ProcessClock clock;
  bool ended = false;
  int32_t process = 0;  // as the system numbers it, which is not enough: it may replace itself
  int32_t number = 0;
  std::vector<CalledFrom> calls{{}};
  int64_t end_ns = 0;
  std::vector<Counter> counters;  // of the process and of what it starts

 private:
  using Json = nlohmann::json;
  void add(const Json& j);
  void end(const Json& j);
  Site site_from(const Json& j);
  void add_stack(const Json& j);
  void add_call(const Json& j);
  void add_module(const Json& j);
  void start(const Json& s);

  Collected& all_;
  size_t most_ = 0;  // the bytes of the file
  std::vector<int32_t> signatures_{-1}, sites_{-1}, modules_{-1};
  std::vector<int32_t> stacks_{-1};  // the innermost frame
};

}  // namespace pellucid::profile
