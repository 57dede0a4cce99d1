// Names and lines of code addresses, from the debug information of the files they lie in, after
// the run. Functions that were inlined are found.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pellucid/profile.h"

struct Dwfl_Module;

namespace pellucid::profile {

/// The frames at an address of a module, innermost first: what was inlined there, then the function
/// itself. At least one, without a name where nothing is known.
std::vector<Site> frames_at(Dwfl_Module* module, uint64_t address, const std::string& object);

/// Whether a file is one of the library's public headers.
bool is_library_header(const std::string& file);

/// Files that are looked up again and again stay open.
class Symbols {
 public:
  Symbols();
  ~Symbols();
  /// The program's own line at an offset of a file: the innermost frame whose file is not one of
  /// the library's headers.
  Site program_line(const std::string& object, uint64_t offset);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pellucid::profile
