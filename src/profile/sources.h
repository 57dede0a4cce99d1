// The program's own source files, kept in its profile so that whoever looks at it later sees the
// lines that ran; and the revision of the repository that they are of.
#pragma once

#include <string>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// Whether a line is of the user's program: neither a system's header nor an installed package's
/// file nor this library's.
bool is_own(const Site& s);

/// Reads the files of all own lines: regular files up to 1 MB of UTF-8, 16 MB in all, with a hash
/// of each. Only for a recording that was just made here: the names are those of the program
/// itself. A profile that came from elsewhere could name any file.
PELLUCID_API void add_sources(Profile& p);

/// Whether the file is still the one that was recorded; true where that cannot be told.
bool unchanged(const SourceFile& s, const std::string& folder);

/// The commit that is checked out in the folder or one above, as 40 or 64 hexadecimal digits; ""
/// where there is none. Reads the repository's files and runs nothing.
PELLUCID_API std::string git_revision(const std::string& folder);

}  // namespace pellucid::profile
