// What a profile from a file must fulfil before anybody uses it.
#pragma once

#include <string>

#include "pellucid/profiler.h"

namespace pellucid::profile {

/// Every reference lies inside its table, parents come before their children, and no chain of
/// parents is longer than what the reports walk down.
void check_references(const Profile& p, const std::string& file);
/// Numbers are ones that a recording can have, and sums over them do not overflow.
void check_values(const Profile& p, const std::string& file);

}  // namespace pellucid::profile
