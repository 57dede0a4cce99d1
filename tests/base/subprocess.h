// Runs one test case of this very program in a fresh process, with environment variables set: for
// what is decided once per process. Such cases are marked skip() and named "child: …".
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace pellucid::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// The exit code of the process, or -1 if a signal ended it. Its output is dropped.
inline int run_test_case(const std::string& name, const Environment& environment) {
  const char* tsan =
      std::getenv("TSAN_OPTIONS");  // by default ThreadSanitizer sleeps a second at exit
  std::string command =
      std::string("env TSAN_OPTIONS='atexit_sleep_ms=0 ") + (tsan != nullptr ? tsan : "") + "'";
  for (const auto& [key, value] : environment) command += " " + key + "='" + value + "'";
  command += " '" + std::string("/proc/" + std::to_string(getpid()) + "/exe") +
             "' --no-skip '--test-case=" + name + "' >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace pellucid::test
