// Where a command writes its result: never over what it reads.
#pragma once

#include <string>
#include <vector>

namespace pellucid::cli {

/// Throws UsageError if the output is one of the inputs, through links too.
void check_output(const std::string& option, const std::string& output,
                  const std::vector<std::string>& inputs);

}  // namespace pellucid::cli
