// SHA-256 (FIPS 180-4) of files and bytes.
#pragma once

#include <string>
#include <string_view>

namespace pellucid::cli {

/// The digest as 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
/// The same of a file, read in parts; throws IoError that names it.
std::string sha256_of_file(const std::string& path);

}  // namespace pellucid::cli
