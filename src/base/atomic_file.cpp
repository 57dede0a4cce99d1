// Writing files that appear whole or not at all.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/files.h"
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

/// Never destroyed: a profile is saved when the program exits, after static objects are gone.
struct Faults {
  std::mutex mutex;
  std::shared_ptr<const FaultHook> hook;
  bool known = false;  ///< false until the environment was asked
  static Faults& get() {
    static Faults& faults = *new Faults;
    return faults;
  }
};

/// Where a path leads through links, also where nothing is at their end yet.
std::string target_of(std::string path) {
  constexpr int kMostLinks = 40;
  std::error_code none;
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, none); ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(path, none);
    if (none) break;
    path = next.is_absolute() ? next.string() : folder_of(path) + "/" + next.string();
  }
  return path;
}

/// The number N of /dev/stdout, /dev/fd/N and /proc/self/fd/N; -1 for another path. To open such a
/// path anew would write over the beginning of a file that the shell appends to.
int descriptor_of(const std::string& path) {
  if (path == "/dev/stdout") return 1;
  if (path == "/dev/stderr") return 2;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    const auto [stop, status] = std::from_chars(path.data() + folder.size(), end, number);
    if (status == std::errc() && stop == end) return number;
  }
  return -1;
}

/// The n-th temporary name of a path. Names are few and fixed, so that what a dead process left is
/// found without reading the folder.
std::string temporary_name(const std::string& path, int n) {
  constexpr size_t kLongest = 200;  // of the 255 bytes that a name may have
  const size_t slash = path.rfind('/') + 1;
  return fmt::format("{}.{}.pellucid-{}.tmp", path.substr(0, slash), path.substr(slash, kLongest),
                     n);
}

/// Removes a temporary file whose owner is dead; whether the name is free now.
bool remove_if_dead(const std::string& temporary) {
  const int file = open_regular(temporary, O_RDONLY, Links::Refuse);
  if (file < 0) return errno == ENOENT;
  struct stat facts {
  }, named{};
  const bool dead = fstat(file, &facts) == 0 && facts.st_uid == geteuid() &&
                    flock(file, LOCK_EX | LOCK_NB) == 0 &&
                    // Meanwhile the name may be that of another saver's file.
                    lstat(temporary.c_str(), &named) == 0 && named.st_ino == facts.st_ino &&
                    named.st_dev == facts.st_dev && unlink(temporary.c_str()) == 0;
  close(file);
  return dead;
}

}  // namespace

std::string_view name_of(FileStep step) {
  constexpr std::string_view names[] = {
      "open", "write", "fsync", "close", "rename", "fsync of the folder", "append"};
  return names[static_cast<size_t>(step)];
}

void set_fault_hook(FaultHook f) {
  Faults& faults = Faults::get();
  const std::lock_guard lock(faults.mutex);
  faults.hook = std::make_shared<const FaultHook>(std::move(f));
  faults.known = true;
}

int injected_fault(FileStep step) {
  Faults& faults = Faults::get();
  std::shared_ptr<const FaultHook> now;
  {
    const std::lock_guard lock(faults.mutex);
    if (!faults.known) {
      faults.hook = std::make_shared<const FaultHook>(hook_of_environment());
      faults.known = true;
    }
    now = faults.hook;
  }
  return now && *now ? (*now)(step) : 0;
}

// Tries the names in turn, and looks somewhat further for what dead processes have left.
int AtomicFile::make_temporary(unsigned mode) {
  constexpr int kMostNames = 1 << 16, kFurther = 64;
  int made = -1;
  for (int n = 0, free = 0; n < kMostNames && free < kFurther; ++n) {
    const std::string name = temporary_name(path_, n);
    const bool is_free = remove_if_dead(name);
    free = is_free ? free + 1 : 0;
    if (made >= 0) continue;
    made = open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (made < 0 && errno == EEXIST) continue;
    if (made < 0) return -1;
    // Between the two calls another saver may have taken it for a dead process's file.
    struct stat facts {};
    if (flock(made, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      if (fstat(made, &facts) == 0 && facts.st_nlink == 1) {
        temporary_ = name;
        continue;
      }
    }
    close(made);
    made = -1;
    --n;
  }
  if (made < 0) errno = EEXIST;
  return made;
}

AtomicFile::AtomicFile(std::string who, const std::string& path)
    : who_(std::move(who)), path_(path) {
  PELLUCID_CHECK(path.find('\0') == std::string::npos, IoError,
                 "{}: the path '{}' has a NUL in it.", who_, path);
  PELLUCID_CHECK(!path.empty(), IoError, "{}: the path of the file is empty.", who_);
  struct stat old {};
  const int given = descriptor_of(path);
  const bool exists = given < 0 && stat(path.c_str(), &old) == 0;
  PELLUCID_CHECK(!exists || !S_ISDIR(old.st_mode), IoError,
                 "{}: {} exists and is not a regular file: it is a folder.", who_, path_);
  if (given >= 0 || (exists && !S_ISREG(old.st_mode))) {
    PELLUCID_CHECK(given >= 0 || S_ISCHR(old.st_mode) || S_ISFIFO(old.st_mode), IoError,
                   "{}: {} exists and is not a regular file.", who_, path_);
    attempt(FileStep::Open, [&] {
      return file_ = given >= 0 ? fcntl(given, F_DUPFD_CLOEXEC, 3)
                                : open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    });
    return;
  }
  path_ = target_of(path);
  PELLUCID_CHECK(!exists || access(path_.c_str(), W_OK) == 0, IoError,
                 "{}: cannot replace {}: {} (errno {}).", who_, path_, std::strerror(errno), errno);
  // What replaces a private file is private from the beginning.
  attempt(FileStep::Open, [&] { return file_ = make_temporary(exists ? 0600 : 0666); });
  if (exists) fchmod(file_, old.st_mode & 0777);
  lock_ = fcntl(file_, F_DUPFD_CLOEXEC, 3);
}

AtomicFile::~AtomicFile() {
  if (!committed_ && !temporary_.empty()) unlink(temporary_.c_str());
  if (file_ >= 0) close(file_);
  if (lock_ >= 0) close(lock_);
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
  const bool replaces = !temporary_.empty();
  attempt(FileStep::Sync, [&] {
    const int result = fsync(file_);
    return !replaces && errno == EINVAL ? 0 : result;  // a device has nothing to sync
  });
  attempt(FileStep::Close, [&] {
    const int file = file_;
    file_ = -1;
    return close(file);
  });
  if (!replaces) return;
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
