// See files.h.
#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace pellucid::io {

bool is_plain_name(std::string_view name) {
  constexpr size_t kLongest = 255;
  return !name.empty() && name.size() <= kLongest && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  const bool there = stat(a.c_str(), &first) == 0;
  if (there != (stat(b.c_str(), &second) == 0)) return false;
  if (there) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  std::error_code unknown;
  const auto one = std::filesystem::weakly_canonical(a, unknown);
  const auto two = std::filesystem::weakly_canonical(b, unknown);
  return !unknown && one == two;
}

bool is_regular(const std::string& path) {
  struct stat facts {};
  return lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

int open_regular(const std::string& path, int flags, Links links, unsigned mode) {
  if (path.find('\0') != std::string::npos) {
    errno = EINVAL;
    return -1;
  }
  // O_NONBLOCK: the open of a pipe that nobody writes would wait for ever.
  const int file = open(
      path.c_str(),
      flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links == Links::Refuse ? O_NOFOLLOW : 0), mode);
  if (file < 0) return -1;
  struct stat facts {};
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode)) {
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    return file;
  }
  close(file);
  errno = EINVAL;
  return -1;
}

std::string why_not_regular(int error) {
  if (error == ELOOP) return "it is a link";
  if (error == EINVAL || error == ENXIO || error == EISDIR) return "it is no regular file";
  return fmt::format("{} (errno {})", std::strerror(error), error);
}

}  // namespace pellucid::io
