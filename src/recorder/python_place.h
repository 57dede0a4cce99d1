// What Python tells of itself beside its lines (recorder.h), and what the rest of the library asks.
#pragma once

#include <string>

#include "pellucid/api.h"

namespace pellucid::profile {

/// Where the Python package's own files are: lines in them are not the program's.
PELLUCID_API void set_python_package(const std::string& folder) noexcept;
/// The line of the Python program that runs on this thread: "train.py:12"; "" where none does.
PELLUCID_API std::string python_line_now() noexcept;

}  // namespace pellucid::profile
