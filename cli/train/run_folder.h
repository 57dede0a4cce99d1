// The folder of a run: one process at a time trains in it, and a run writes over nothing that is
// not its own. A run that has no checkpoint yet is known by its mark, a hidden file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_lock.h"

namespace pellucid::cli::train {

/// The path of a run's checkpoint.
std::string checkpoint_path(const std::string& folder);

/// TensorBoard's file of a run, "events.out.tfevents.…" and nothing that leads elsewhere; throws
/// IoError, for the name comes from a file.
void check_events_name(const std::string& name, const std::string& where);

/// The mark of a run that has begun: which file of events it writes.
class RunMark {
 public:
  explicit RunMark(const std::string& folder) : path_(folder + "/.pellucid-run") {}
  bool exists() const;
  /// The file of events that the marked run wrote; "" where it did not come so far.
  std::string events() const;
  void write(const std::string& events) const;
  /// From the first checkpoint on, that is the mark.
  void remove() const;

 private:
  std::string path_;
};

class RunFolder {
 public:
  /// Makes the folder and takes its lock; throws IoError that names the process which has it.
  explicit RunFolder(std::string path);
  /// runs/TASK, runs/TASK-2, …: the first that is free, or to go on with, the last that is not.
  static std::string default_path(std::string_view task, bool resume);
  /// A run that fails before its first file takes the folder away again, so that the next one gets
  /// the same name.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;

  /// Throws where one of the names is a link or no regular file: a run writes into its folder
  /// alone.
  void check_files(const std::vector<std::string>& names) const;
  /// The first of the names that is there; "" for none.
  std::string first_existing(const std::vector<std::string>& names) const;

 private:
  std::string path_;
  bool made_ = false;
  std::optional<io::FileLock> lock_;
};

}  // namespace pellucid::cli::train
