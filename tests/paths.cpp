#include "paths.h"

namespace pellucid::test {

std::string source_folder() { return PELLUCID_SOURCE_DIR; }

}  // namespace pellucid::test
