// SHA-256 (FIPS 180-4) of files and bytes.
#pragma once

#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid::io {

/// The digest as 64 hexadecimal digits.
PELLUCID_API std::string sha256(std::string_view bytes);
/// The same of a file, read in parts; throws IoError that names it.
PELLUCID_API std::string sha256_of_file(const std::string& path);

}  // namespace pellucid::io
