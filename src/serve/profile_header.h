// The header of a profile's view data: everything but the columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/profile.h"
#include "serve/view_data.h"

namespace pellucid::serve {

/// An object of JSON. The tables in it are those of `pellucid report --limit 0 --format json`.
std::string profile_header(const profile::Profile& p, std::string_view name, Sources sources);

/// The texts that columns refer to by number, and the number of each use's name; -1 for none.
struct Strings {
  std::vector<std::string> texts;
  std::vector<int32_t> of_use;
};
Strings strings_of(const profile::Profile& p);

}  // namespace pellucid::serve
