// A lock between processes: a file beside what it guards, locked with flock, so that the kernel
// releases it whatever ends the process. Its text names the holder for those who find it taken.
#pragma once

#include <optional>
#include <string>

#include "pellucid/api.h"

namespace pellucid::io {

class PELLUCID_API FileLock {
 public:
  /// Takes the lock, or throws IoError: "WHO: WHAT is in use by process 123 (pellucid train …)…",
  /// followed by `advice`. A file system without locks locks nothing.
  FileLock(const std::string& who, const std::string& path, const std::string& what,
           const std::string& advice);
  /// Takes the lock if nobody has it.
  static std::optional<FileLock> attempt(const std::string& path);
  /// Waits for it as long as need be; nothing where the file cannot be made.
  static std::optional<FileLock> wait(const std::string& path);
  /// Releases it and removes the file.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) = delete;

 private:
  FileLock() = default;
  /// Whether this process has the lock now; errno says why not.
  bool take(const std::string& path, bool wait);
  std::string path_;
  int file_ = -1;
  int owner_ = 0;  ///< the process that took it: the child of a fork leaves it alone
};

/// The lock of a file: "folder/.name.pellucid-lock".
PELLUCID_API std::string lock_beside(const std::string& path);

/// "process 123 (pellucid train mnist)": who holds the lock at `path`, as far as it can be known.
PELLUCID_API std::string holder_of(const std::string& path);

}  // namespace pellucid::io
