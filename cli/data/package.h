// Files that come from packages of the npm registry: fetched by npm as a child process, checked
// byte for byte, put into a folder whole or not at all, and found there the next time.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pellucid::cli {

/// A file that we want from a package.
struct PackageFile {
  std::string_view inside;  ///< its path in the package: "data/t10k-labels-idx1-ubyte"
  std::string_view name;    ///< its name in our folder
  int64_t bytes;
  std::string_view sha256;  ///< 64 hexadecimal digits
};

/// A version of a package with the files that we take from it.
struct Package {
  std::string_view name;     ///< what `pellucid data` calls it, and the default folder's name
  std::string_view package;  ///< the registry's name
  std::string_view version;
  std::string_view what;  ///< a line for people
  std::span<const PackageFile> files;
};

/// $XDG_DATA_HOME/pellucid/NAME, or ~/.local/share/pellucid/NAME.
std::string default_data_folder(std::string_view name);

/// Whether the folder has every file with its right size; contents are not read.
bool has_files(const Package& package, const std::string& folder);

/// Reads every file and compares it with its checksum; throws IoError that names the first that is
/// missing or differs.
void check_files(const Package& package, const std::string& folder);

/// Gets the package through npm and puts its checked files into the folder, which is made if need
/// be. Throws IoError where npm is missing or fails, or where a file is not what it should be; then
/// the folder holds no new file.
void fetch_files(const Package& package, const std::string& folder, std::ostream& say);

/// The folder (the default one if "") with the checked files in it, fetched if they are not there
/// yet or differ from what they should be.
std::string find_or_fetch(const Package& package, const std::string& folder, std::ostream& say);

extern const Package kMnistData, kTextData, kGpt2Data;
/// The packages above, in the order of the help.
std::span<const Package* const> all_packages();

}  // namespace pellucid::cli
