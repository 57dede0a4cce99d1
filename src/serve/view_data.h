// What the page of the viewer is given: one container (columns.h) for each opened thing. Every
// number in it is of the profile or of its reports; the page computes nothing but sums of columns.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "pellucid/api.h"
#include "pellucid/profile.h"

namespace pellucid::serve {

/// Whether the text of source files is given to the page.
enum class Sources : uint8_t { With, Without };

/// The view data of a profile; `name` is what the page calls it, usually its file's name.
PELLUCID_API std::string view_data(const profile::Profile& p, std::string_view name,
                                   Sources sources = Sources::With);

/// The view data of a comparison: the rows of `pellucid diff --json` by op, line, module and
/// memory. Throws ValueError for profiles that cannot be compared.
PELLUCID_API std::string compare_data(std::span<const profile::Profile> first,
                                      std::span<const profile::Profile> second,
                                      std::string_view name);

}  // namespace pellucid::serve
