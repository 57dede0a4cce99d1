// The table of tasks.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/text.h"
#include "cli/train/task.h"

namespace pellucid::cli::train {

std::span<const TaskInfo* const> all_tasks() {
  static const std::array kTasks = {&kMnist, &kTwoLayer, &kGpt, &kResNet18, &kEncoder};
  return kTasks;
}

const TaskInfo& find_task(std::string_view name) {
  std::vector<std::string> names;
  for (const TaskInfo* t : all_tasks()) {
    if (t->name == name) return *t;
    names.emplace_back(t->name);
  }
  std::string hint = did_you_mean(name, names);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(names, ", "));
  throw UsageError(fmt::format("unknown task '{}'{}", name, hint));
}

}  // namespace pellucid::cli::train
