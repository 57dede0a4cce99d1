// A file that appears whole or not at all: written under a temporary name of its own beside its
// place, synced, renamed, and the folder synced. Whatever ends the process before the rename leaves
// the old file. Any number of processes and threads may save one path at once: the last rename
// counts, and every reader sees one of the files whole.
//
// A temporary file is locked (flock) as long as its owner lives. The next save of the same path
// removes those whose owner is dead, and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid::io {

/// The system calls of a save, in the order in which they happen, and the appending of metrics.
enum class FileStep : uint8_t { Open, Write, Sync, Close, Rename, SyncFolder, Append };
PELLUCID_API std::string_view name_of(FileStep step);

/// For tests: asked before each step; an errno that is not 0 makes the step fail with it. The
/// variable PELLUCID_FAULT="N:WHAT" makes a hook for a whole process: its N-th step fails as WHAT
/// says (ENOSPC, EIO, EROFS, EDQUOT), or ends the process as kill -9 does (KILL).
using FaultHook = std::function<int(FileStep step)>;
PELLUCID_API void set_fault_hook(FaultHook hook);
/// The errno with which this step is to fail, or 0.
PELLUCID_API int injected_fault(FileStep step);

class PELLUCID_API AtomicFile {
 public:
  /// Opens the temporary file; `who` begins the errors' messages. A link is followed: its target is
  /// replaced. A device or a pipe (/dev/null, /dev/stdout) is written as it is.
  AtomicFile(std::string who, const std::string& path);
  /// Removes the temporary file unless commit() has renamed it.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  void write(const void* bytes, size_t count);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Makes it the file; the mode is that of the file it replaces, else 0666 less the umask.
  void commit();
  uint64_t written() const { return written_; }
  /// For a writer that opens files by name: the temporary file. Empty where a device is written.
  const std::string& temporary() const { return temporary_; }

 private:
  [[noreturn]] void fail(FileStep step, int error) const;
  /// Runs a system call unless the hook says that it fails.
  template <class F> void attempt(FileStep step, const F& call);
  int make_temporary(unsigned mode);
  void sync_folder();
  std::string who_, path_, temporary_;
  int file_ = -1;
  int lock_ = -1;  ///< the same open file: holds its lock until the rename
  uint64_t written_ = 0;
  bool committed_ = false;
};

/// Writes or replaces a whole file.
PELLUCID_API void write_file(const std::string& who, const std::string& path,
                             std::string_view bytes);

}  // namespace pellucid::io
