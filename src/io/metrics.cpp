// TensorBoard's event files (TFRecord: length, masked crc of the length, an Event message, masked
// crc of the message; protobuf written by hand) and JSON lines.
#include "pellucid/io/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "io/crc32c.h"
#include "pellucid/error.h"

namespace pellucid::io {
namespace {

double now() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

template <class T> void append_raw(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Protobuf's wire format: a key (field number << 3 | kind), then the value.
void append_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}
enum Kind : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void append_key(std::string& out, uint64_t field, Kind kind) {
  append_varint(out, field << 3 | kind);
}
void append_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  append_key(out, 1, kFixed64);
  append_raw(out, wall_time);
  append_key(out, 2, kVarint);
  append_varint(out, static_cast<uint64_t>(step));
  return out;
}

uint32_t masked(const void* bytes, size_t n) {
  const uint32_t crc = crc32c(bytes, n);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string record(const std::string& message) {
  const uint64_t length = message.size();
  std::string out;
  append_raw(out, length);
  append_raw(out, masked(&length, 8));
  out += message;
  append_raw(out, masked(message.data(), message.size()));
  return out;
}

std::string event_path(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  PELLUCID_CHECK(!error, IoError, "SummaryWriter: cannot make the folder {}: {}.", folder,
                 error.message());
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  static std::atomic<int> count{0};
  return fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, static_cast<int64_t>(now()),
                     host, getpid(), count++);
}

/// Where the file's last whole line ends; nothing where there is no file yet.
std::optional<uint64_t> end_of_lines(const std::string& path) {
  const int file = open_regular(path, O_RDONLY, Links::Follow);
  if (file < 0) return std::nullopt;  // AppendFile will say why, if it matters
  off_t end = lseek(file, 0, SEEK_END);
  char c = '\n';
  while (end > 0 && pread(file, &c, 1, end - 1) == 1 && c != '\n') --end;
  close(file);
  return end < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(end));
}

// By hand, for it is called at every step of a training.
void append_text(std::string& out, const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return c >= ' ' && c <= '~' && c != '"' && c != '\\';
  });
  if (plain)
    out.append(1, '"').append(text).append(1, '"');
  else
    out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void append_value(std::string& out, const Value& v) {
  if (const double* d = v.as<double>(); d && std::isfinite(*d)) {
    const size_t from = out.size();
    out += fmt::format("{}", *d);
    if (out.find_first_of(".e", from) == std::string::npos) out += ".0";  // stays a float
  } else if (const int64_t* i = v.as<int64_t>()) {
    out += fmt::format("{}", *i);
  } else if (const bool* b = v.as<bool>()) {
    out += *b ? "true" : "false";
  } else if (const std::string* s = v.as<std::string>()) {
    append_text(out, *s);
  } else if (const Values* list = v.as<Values>()) {
    out += '[';
    for (const Value& e : *list) {
      if (&e != list->data()) out += ',';
      append_value(out, e);
    }
    out += ']';
  } else {
    PELLUCID_CHECK(v.is_none() || d, TypeError, "json_line: a {} cannot be written.",
                   v.type_name());
    out += "null";
  }
}

}  // namespace

AppendFile::AppendFile(std::string path, std::optional<uint64_t> keep) : path_(std::move(path)) {
  // A file that is to be cut is one that this program wrote: no link, and there if it has bytes.
  file_ = keep
              ? open_regular(path_, O_WRONLY | O_APPEND | (*keep == 0 ? O_CREAT : 0), Links::Refuse)
              : open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  PELLUCID_CHECK(
      file_ >= 0, IoError, "metrics: cannot open {}: {}.", path_,
      keep ? why_not_regular(errno) : fmt::format("{} (errno {})", std::strerror(errno), errno));
  try {
    const off_t end = lseek(file_, 0, SEEK_END);
    size_ = end < 0 ? 0 : static_cast<uint64_t>(end);
    if (!keep) return;
    PELLUCID_CHECK(*keep <= size_, IoError, "metrics: {} has {} bytes but should have {}.", path_,
                   size_, *keep);
    PELLUCID_CHECK(*keep == size_ || ftruncate(file_, static_cast<off_t>(*keep)) == 0, IoError,
                   "metrics: cannot shorten {}: {} (errno {}).", path_, std::strerror(errno),
                   errno);
    size_ = *keep;
  } catch (...) {
    close(file_);
    throw;
  }
}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (const IoError&) {}  // who must know calls flush() before
  close(file_);
}

void AppendFile::append(std::string_view bytes) {
  size_ += bytes.size();
  if (buffered_)
    collected_ += bytes;
  else
    write_now(bytes);
}

void AppendFile::set_buffered(bool on) {
  flush();
  buffered_ = on;
}

void AppendFile::flush() {
  const std::string bytes = std::move(collected_);
  collected_.clear();
  write_now(bytes);
}

void AppendFile::sync() {
  flush();
  PELLUCID_CHECK(fsync(file_) == 0 || errno == EINVAL || errno == ENOTSUP, IoError,
                 "metrics: cannot sync {}: {} (errno {}).", path_, std::strerror(errno), errno);
}

void AppendFile::write_now(std::string_view bytes) {
  while (!bytes.empty()) {
    errno = injected_fault(FileStep::Append);
    const ssize_t done = errno != 0 ? -1 : ::write(file_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    PELLUCID_CHECK(done >= 0, IoError, "metrics: cannot write {}: {} (errno {}).", path_,
                   std::strerror(errno), errno);
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

SummaryWriter::SummaryWriter(const std::string& folder) : file_(event_path(folder)) {
  std::string first = event(now(), 0);
  append_bytes(first, 3, "brain.Event:2");  // file_version
  file_.append(record(first));
}

void SummaryWriter::add_scalar(const std::string& tag, double value, int64_t step,
                               double wall_time) {
  std::string entry;  // Summary.Value: tag = 1, simple_value = 2
  append_bytes(entry, 1, tag);
  append_key(entry, 2, kFixed32);
  append_raw(entry, static_cast<float>(value));
  std::string summary;
  append_bytes(summary, 1, entry);
  std::string message = event(wall_time < 0 ? now() : wall_time, step);
  append_bytes(message, 5, summary);
  file_.append(record(message));
}

JsonLinesWriter::JsonLinesWriter(const std::string& path, std::optional<uint64_t> keep)
    : file_(path, keep ? keep : end_of_lines(path)) {}

std::string json_line(const std::vector<NamedValue>& values) {
  std::string out = "{";
  for (const NamedValue& v : values) {
    if (out.size() > 1) out += ',';
    append_text(out, v.name);
    out += ':';
    append_value(out, v.value);
  }
  return out += '}';
}

}  // namespace pellucid::io
