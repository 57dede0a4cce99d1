// Runs another program and waits for it: its output is caught, its arguments are a list, so that no
// shell sees them.
#pragma once

#include <string>
#include <vector>

namespace pellucid::cli {

struct ChildResult {
  int exit_code;  ///< 127 where the program does not exist, 126 where it cannot be run, 128 + n
                  ///< after signal n
  std::string output;  ///< what it wrote to standard output and standard error
};

/// Runs words[0], found by PATH, in `folder`. Its standard input is empty.
ChildResult run_child(const std::vector<std::string>& words, const std::string& folder);

}  // namespace pellucid::cli
