// Environment variables, read as typed values. An unset or empty variable is absent; a malformed
// one throws ValueError that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid {

/// The variable's text, unless unset or empty.
PELLUCID_API std::optional<std::string> env_string(const char* name);
/// An integer within [least, most].
PELLUCID_API std::optional<int64_t> env_int(const char* name, int64_t least, int64_t most);
/// A size: "1048576", "512K", "1.5G", "64MiB"; suffixes are powers of 1024.
PELLUCID_API std::optional<int64_t> env_bytes(const char* name);
/// 1/0, true/false, yes/no or on/off; `otherwise` when absent.
PELLUCID_API bool env_bool(const char* name, bool otherwise);

/// Reads a size as env_bytes does; `what` begins the error's message.
PELLUCID_API int64_t parse_bytes(std::string_view text, std::string_view what);

}  // namespace pellucid
