// Reading a whole file, with errors that name the path and the system's reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid::data {

/// The file's bytes; throws IoError that begins with `who`, also where the file is no regular file
/// or has more than `most` bytes.
PELLUCID_API std::string read_file(std::string_view who, const std::string& path,
                                   int64_t most = int64_t{1} << 30);

}  // namespace pellucid::data
