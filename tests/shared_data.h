// Files that tests read but the repository does not hold: beside it, in ../shared/data.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "paths.h"

namespace pellucid::test {

/// The path of a file of shared data, or nothing where it is absent; the test then says so and
/// ends.
inline std::optional<std::string> shared_data(const std::string& name) {
  const std::string path = source_folder() + "/../shared/data/" + name;
  if (std::filesystem::exists(path)) return path;
  MESSAGE("not tested here: ../shared/data/" << name << " is absent");
  return std::nullopt;
}

}  // namespace pellucid::test
