// Writing files that appear whole or not at all.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "pellucid/error.h"

namespace pellucid::io {
namespace {

std::mutex hook_mutex;
std::shared_ptr<const FaultHook> hook;

int injected(FileStep step) {
  std::shared_ptr<const FaultHook> now;
  {
    const std::lock_guard lock(hook_mutex);
    now = hook;
  }
  return now && *now ? (*now)(step) : 0;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Where a link leads; the path itself if there is nothing yet.
std::string target_of(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (!real) return path;
  std::string result(real);
  std::free(real);
  return result;
}

}  // namespace

std::string_view name_of(FileStep step) {
  constexpr std::string_view names[] = {"open",  "write",  "fsync",
                                        "close", "rename", "fsync of the folder"};
  return names[static_cast<size_t>(step)];
}

void set_fault_hook(FaultHook f) {
  const std::lock_guard lock(hook_mutex);
  hook = std::make_shared<const FaultHook>(std::move(f));
}

AtomicFile::AtomicFile(std::string who, const std::string& path)
    : who_(std::move(who)), path_(target_of(path)), temporary_(path_ + ".tmp") {
  struct stat old {};
  const bool replaces = stat(path_.c_str(), &old) == 0;
  PELLUCID_CHECK(!replaces || S_ISREG(old.st_mode), IoError,
                 "{}: {} exists and is not a regular file.", who_, path_);
  PELLUCID_CHECK(!replaces || access(path_.c_str(), W_OK) == 0, IoError,
                 "{}: cannot replace {}: {} (errno {}).", who_, path_, std::strerror(errno), errno);
  attempt(FileStep::Open, [&] {
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    return file_;
  });
  if (replaces) fchmod(file_, old.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) close(file_);
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::fail(FileStep step, int error) const {
  pellucid::detail::raise<IoError>("{}: cannot save {}: {} failed: {} (errno {}).", who_, path_,
                                   name_of(step), std::strerror(error), error);
}

template <class F> void AtomicFile::attempt(FileStep step, const F& call) {
  if (const int error = injected(step)) fail(step, error);
  if (call() < 0) fail(step, errno);
}

void AtomicFile::write(const void* bytes, size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    ssize_t done = 0;
    attempt(FileStep::Write, [&] {
      do done = ::write(file_, at, std::min<size_t>(count, size_t{1} << 30));
      while (done < 0 && errno == EINTR);
      return done;
    });
    at += done;
    count -= static_cast<size_t>(done);
    written_ += static_cast<uint64_t>(done);
  }
}

void AtomicFile::sync_folder() {
  const std::string folder = folder_of(path_);
  int opened = -1;
  attempt(FileStep::SyncFolder,
          [&] { return opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const int result = fsync(opened), error = errno;
  close(opened);
  // Some file systems have no fsync of folders: then the rename is as durable as it can be.
  if (result != 0 && error != EINVAL && error != ENOTSUP) fail(FileStep::SyncFolder, error);
}

void AtomicFile::commit() {
  attempt(FileStep::Sync, [&] { return fsync(file_); });
  attempt(FileStep::Close, [&] {
    const int file = file_;
    file_ = -1;
    return close(file);
  });
  attempt(FileStep::Rename, [&] { return rename(temporary_.c_str(), path_.c_str()); });
  committed_ = true;
  sync_folder();
}

}  // namespace pellucid::io
