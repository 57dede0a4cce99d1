// Metrics of a run: TensorBoard event files and JSON lines. Both only append, so that a killed run
// leaves all but the last record readable; a run that goes on cuts off what its checkpoint does not
// know.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/api.h"
#include "pellucid/value.h"

namespace pellucid::io {

/// A file opened for appending; errors name the path and errno.
class PELLUCID_API AppendFile {
 public:
  /// Opens or makes the file; where `keep` is given, what follows its first `keep` bytes is cut
  /// off, and the path must be a regular file itself, not a link to one.
  explicit AppendFile(std::string path, std::optional<uint64_t> keep = std::nullopt);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  /// One write, unless buffered.
  void append(std::string_view bytes);
  /// From now on append collects until flush(), sync() or the end: for many small records.
  void set_buffered(bool on);
  void flush();
  /// Flushes and waits until the bytes are on the disk.
  void sync();
  /// The bytes of the file, those collected included.
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  void write_now(std::string_view bytes);
  std::string path_, collected_;
  int file_ = -1;
  uint64_t size_ = 0;
  bool buffered_ = false;
};

/// Writes events.out.tfevents.… into a folder, which TensorBoard reads.
class PELLUCID_API SummaryWriter {
 public:
  /// Makes the folder if need be and a new file in it, named by time and process.
  explicit SummaryWriter(const std::string& folder);
  /// Goes on with a file of events after its first `keep` bytes.
  SummaryWriter(const std::string& path, uint64_t keep) : file_(path, keep) {}
  /// A point of the curve `tag`. `wall_time` is in seconds since 1970, now where it is negative.
  void add_scalar(const std::string& tag, double value, int64_t step, double wall_time = -1);
  const std::string& path() const { return file_.path(); }
  AppendFile& file() { return file_; }

 private:
  AppendFile file_;
};

/// A JSON object in one line, keys in the given order; NaN and infinities, which JSON lacks, become
/// null.
PELLUCID_API std::string json_line(const std::vector<NamedValue>& values);

/// Writes one JSON object a line.
class PELLUCID_API JsonLinesWriter {
 public:
  /// Appends to `path`; a last line that a killed run left unfinished is cut off, or, where `keep`
  /// is given, all that follows its first `keep` bytes.
  explicit JsonLinesWriter(const std::string& path, std::optional<uint64_t> keep = std::nullopt);
  /// Writes json_line(values).
  void write(const std::vector<NamedValue>& values) { file_.append(json_line(values) + "\n"); }
  AppendFile& file() { return file_; }

 private:
  AppendFile file_;
};

}  // namespace pellucid::io
