// A child process with its output on a pipe.
#include "cli/data/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pellucid/error.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace pellucid::cli {
namespace {

// Closes what is still open whatever happens.
struct Pipe {
  std::array<int, 2> ends = {-1, -1};
  Pipe() {
    PELLUCID_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, IoError, "cannot make a pipe: {}.",
                   std::strerror(errno));
  }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
  Pipe(const Pipe&) = delete;
  void close_writer() { close(std::exchange(ends[1], -1)); }
};

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = read(file, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<size_t>(got));
  }
}

}  // namespace

ChildResult run_child(const std::vector<std::string>& words, const std::string& folder) {
  Pipe out;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], 2);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  out.close_writer();
  if (error != 0) return {error == ENOENT ? 127 : 126, std::strerror(error)};
  ChildResult result{0, read_all(out.ends[0])};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace pellucid::cli
