// See output.h.
#include "cli/output.h"

#include <fmt/format.h>

#include "base/files.h"
#include "cli/app.h"

namespace pellucid::cli {

void check_output(const std::string& option, const std::string& output,
                  const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs)
    if (!output.empty() && io::same_file(output, input))
      throw UsageError(fmt::format("{}: '{}' is what the command reads{}; name another file",
                                   option, output,
                                   input == output ? "" : fmt::format(" ('{}')", input)));
}

}  // namespace pellucid::cli
