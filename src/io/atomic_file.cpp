// Writing files that appear whole or not at all.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "pellucid/error.h"

namespace pellucid::io {
namespace {

/// The hook that PELLUCID_FAULT asks for.
FaultHook hook_of_environment() {
  const std::optional<std::string> text = env_string("PELLUCID_FAULT");
  if (!text) return nullptr;
  constexpr std::pair<std::string_view, int> kFaults[] = {
      {"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT}, {"KILL", 0}};
  int64_t at = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), at);
  for (const auto& [name, error] : kFaults)
    if (status == std::errc() && at > 0 && std::string(end) == ":" + std::string(name))
      return [left = std::make_shared<std::atomic<int64_t>>(at), error = error](FileStep) {
        if (--*left != 0) return 0;
        if (error == 0) kill(getpid(), SIGKILL);
        return error;
      };
  pellucid::detail::raise<ValueError>(
      "PELLUCID_FAULT: expected N:ENOSPC, N:EIO, N:EROFS, N:EDQUOT or N:KILL with N from 1, found "
      "'{}'.",
      *text);
}

std::mutex hook_mutex;
std::shared_ptr<const FaultHook> hook;
bool hook_known = false;  ///< false until the environment was asked

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
  constexpr std::string_view names[] = {
      "open", "write", "fsync", "close", "rename", "fsync of the folder", "append"};
  return names[static_cast<size_t>(step)];
}

void set_fault_hook(FaultHook f) {
  const std::lock_guard lock(hook_mutex);
  hook = std::make_shared<const FaultHook>(std::move(f));
  hook_known = true;
}

int injected_fault(FileStep step) {
  std::shared_ptr<const FaultHook> now;
  {
    const std::lock_guard lock(hook_mutex);
    if (!hook_known) {
      hook = std::make_shared<const FaultHook>(hook_of_environment());
      hook_known = true;
    }
    now = hook;
  }
  return now && *now ? (*now)(step) : 0;
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
  if (const int error = injected_fault(step)) fail(step, error);
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

void write_file(const std::string& who, const std::string& path, std::string_view bytes) {
  AtomicFile file(who, path);
  file.write(bytes);
  file.commit();
}

}  // namespace pellucid::io
