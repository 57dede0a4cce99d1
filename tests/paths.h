// Where the source tree lies. Only paths.cpp is compiled with its path: all else has the same
// commands in every clone, so that ccache serves them all.
#pragma once

#include <string>

namespace pellucid::test {

/// The root of the source tree, without a slash at its end.
std::string source_folder();

}  // namespace pellucid::test
