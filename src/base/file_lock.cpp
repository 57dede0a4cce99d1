// See file_lock.h.
#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/escape.h"
#include "base/files.h"
#include "pellucid/error.h"

namespace pellucid::io {
namespace {

std::string read_some(int file) {
  std::array<char, 400> bytes{};
  const ssize_t got = pread(file, bytes.data(), bytes.size(), 0);
  return std::string(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
}

/// "123 pellucid train mnist": what the holder writes into the file.
std::string own_line() {
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  std::string words = file >= 0 ? read_some(file) : "";
  if (file >= 0) close(file);
  while (!words.empty() && words.back() == '\0') words.pop_back();
  for (char& c : words)
    if (c == '\0' || c == '\n') c = ' ';
  if (words.size() > 200) words = words.substr(0, 197) + "...";
  return fmt::format("{} {}\n", getpid(), words);
}

}  // namespace

bool FileLock::take(const std::string& path, bool wait) {
  for (;;) {
    const int file = open_regular(path, O_RDWR | O_CREAT, Links::Refuse);
    if (file < 0) return false;
    int result = 0;
    do result = flock(file, LOCK_EX | (wait ? 0 : LOCK_NB));
    while (result != 0 && errno == EINTR);
    if (result != 0 && errno == EWOULDBLOCK) {
      close(file);
      errno = EWOULDBLOCK;
      return false;
    }
    // The former holder removed the file, and another one may have made a new one.
    struct stat locked {
    }, named{};
    const bool same = fstat(file, &locked) == 0 && stat(path.c_str(), &named) == 0 &&
                      locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
    if (!same) {
      close(file);
      continue;
    }
    path_ = path;
    file_ = file;
    owner_ = getpid();
    const std::string line = own_line();
    [[maybe_unused]] const bool told =
        ftruncate(file, 0) == 0 && write(file, line.data(), line.size()) > 0;
    return true;
  }
}

FileLock::FileLock(const std::string& who, const std::string& path, const std::string& what,
                   const std::string& advice) {
  if (take(path, false)) return;
  const int error = errno;
  PELLUCID_CHECK(error != EWOULDBLOCK, IoError, "{}: {} is in use by {}. {}", who, what,
                 holder_of(path), advice);
  pellucid::detail::raise<IoError>("{}: cannot make the lock {}: {}.", who, path,
                                   why_not_regular(error));
}

std::optional<FileLock> FileLock::attempt(const std::string& path) {
  FileLock lock;
  if (!lock.take(path, false)) return std::nullopt;
  return lock;
}

std::optional<FileLock> FileLock::wait(const std::string& path) {
  FileLock lock;
  if (!lock.take(path, true)) return std::nullopt;
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), owner_(other.owner_) {}

FileLock::~FileLock() {
  if (file_ < 0) return;
  // Before the lock is released: whoever waits sees that it is gone.
  if (getpid() == owner_) unlink(path_.c_str());
  close(file_);
}

std::string lock_beside(const std::string& path) {
  constexpr size_t kLongest = 200;  // of the 255 bytes that a name may have
  const size_t name = path.rfind('/') + 1;
  return fmt::format("{}.{}.pellucid-lock", path.substr(0, name), path.substr(name, kLongest));
}

std::string holder_of(const std::string& path) {
  const int file = open_regular(path, O_RDONLY, Links::Refuse);
  std::string line = file >= 0 ? read_some(file) : "";
  if (file >= 0) close(file);
  line = line.substr(0, line.find('\n'));
  const size_t blank = line.find(' ');
  if (blank == std::string::npos) return "another process";
  return fmt::format("process {} ({})", text::visible(line.substr(0, blank)),
                     text::visible(line.substr(blank + 1)));
}

}  // namespace pellucid::io
