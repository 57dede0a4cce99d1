// Runs `pellucid train` in a process of its own, which a test may kill: this very program, started
// with its test case "child: pellucid train".
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "pellucid/io/checkpoint.h"
#include "temporary.h"

namespace pellucid::test {

/// How a process ended.
struct Ending {
  int status = 0;
  std::string out, err;
  int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  bool killed() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }
};

/// A running `pellucid train WORDS…`; killed when it goes out of scope.
class TrainProcess {
 public:
  TrainProcess(const std::vector<std::string>& words, Environment environment = {}) {
    std::string joined;
    for (const std::string& w : words) joined += w + "\n";
    environment.emplace_back("PELLUCID_TEST_WORDS", joined);
    const std::string program = "/proc/" + std::to_string(getpid()) + "/exe";
    pid_ = fork();
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    dup2(open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600), 1);
    dup2(open((folder_ / "err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
    execl(program.c_str(), "pellucid", "--no-skip", "--test-case=child: pellucid train", nullptr);
    _exit(127);
  }
  ~TrainProcess() {
    if (pid_ <= 0) return;
    kill(SIGKILL);
    wait();
  }
  TrainProcess(const TrainProcess&) = delete;

  /// What it has written to standard output so far.
  std::string output() const { return read_bytes(folder_ / "out"); }
  void kill(int signal) const { ::kill(pid_, signal); }
  Ending wait() {
    Ending e;
    waitpid(pid_, &e.status, 0);
    pid_ = 0;
    e.out = read_bytes(folder_ / "out");
    e.err = read_bytes(folder_ / "err");
    return e;
  }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = 0;
};

inline Ending run_train(const std::vector<std::string>& words, Environment environment = {}) {
  return TrainProcess(words, std::move(environment)).wait();
}

}  // namespace pellucid::test
