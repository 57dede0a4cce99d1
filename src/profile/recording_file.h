// The file that a recording becomes: one recording at a time, and over nothing but a profile.
#pragma once

#include <string>

#include "base/file_lock.h"

namespace pellucid::profile {

/// Takes the right to record into `file`; throws IoError that names the process which has it.
PELLUCID_API io::FileLock recording_lock(const std::string& who, const std::string& file);
/// Whether a profile is there.
PELLUCID_API bool is_profile(const std::string& file);
/// Throws unless `file` is a profile, empty or not there.
/// Compares the rows of a profile with its packed columns and says what is the same; throws IoError
/// for what differs.
PELLUCID_API std::string verify(const std::string& file);
PELLUCID_API void check_replaceable(const std::string& file);

}  // namespace pellucid::profile
