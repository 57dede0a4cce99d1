// Metrics of a run: TensorBoard event files and JSON lines. Both only append, so that a killed run
// leaves all but the last record readable.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/api.h"
#include "pellucid/value.h"

namespace pellucid::io {

/// A file opened for appending; errors name the path and errno.
class PELLUCID_API AppendFile {
 public:
  explicit AppendFile(std::string path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  /// One write; nothing is buffered in the process.
  void append(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_;
};

/// Writes events.out.tfevents.… into a folder, which TensorBoard reads.
class PELLUCID_API SummaryWriter {
 public:
  /// Makes the folder if need be and a new file in it, named by time and process.
  explicit SummaryWriter(const std::string& folder);
  /// A point of the curve `tag`. `wall_time` is in seconds since 1970, now where it is negative.
  void add_scalar(const std::string& tag, double value, int64_t step, double wall_time = -1);
  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

/// Writes one JSON object a line.
class PELLUCID_API JsonLinesWriter {
 public:
  /// Appends to `path`; a last line that a killed run left unfinished is cut off.
  explicit JsonLinesWriter(const std::string& path);
  /// Keys in the given order; NaN and infinities, which JSON lacks, become null.
  void write(const std::vector<NamedValue>& values);

 private:
  AppendFile file_;
};

}  // namespace pellucid::io
