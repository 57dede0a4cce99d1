// Reading a whole file.
#include "data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pellucid/error.h"

namespace pellucid::data {

std::string read_file(std::string_view who, const std::string& path, int64_t most) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // no wait for a pipe
  PELLUCID_CHECK(file >= 0, IoError, "{}: cannot open {}: {}.", who, path, std::strerror(errno));
  struct Close {
    int file;
    ~Close() { close(file); }
  } const closer{file};
  struct stat facts {};
  PELLUCID_CHECK(fstat(file, &facts) == 0 && S_ISREG(facts.st_mode), IoError,
                 "{}: {} is not a regular file.", who, path);
  PELLUCID_CHECK(facts.st_size <= most, IoError, "{}: {} has {} bytes, more than the {} allowed.",
                 who, path, static_cast<int64_t>(facts.st_size), most);
  std::string bytes(static_cast<size_t>(facts.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    PELLUCID_CHECK(got >= 0, IoError, "{}: cannot read {}: {}.", who, path, std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace pellucid::data
