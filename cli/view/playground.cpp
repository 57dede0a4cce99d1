// See playground.h.
#include "cli/view/playground.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "pellucid/error.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace pellucid::cli::view {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// What one evaluation may print: 10,000 elements of each value, and more than a page shows.
constexpr size_t kLargestAnswer = 16 << 20;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    PELLUCID_CHECK(pipe2(ends, O_CLOEXEC) == 0, IoError, "view: no pipe could be made: {}.",
                   std::strerror(errno));
    read = ends[0], write = ends[1];
  }
  ~Pipe() {
    close(read);
    close_write();
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
  Pipe(const Pipe&) = delete;
};

/// The process of one evaluation, which never outlives it.
class Child {
 public:
  Child(const std::string& program, std::vector<std::string> words, std::vector<std::string> extra,
        Pipe& out, Pipe& err) {
    std::vector<char*> arguments, environment;
    words.insert(words.begin(), program);
    for (std::string& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    for (char** e = environ; *e != nullptr; ++e)
      if (!std::string_view(*e).starts_with("PELLUCID_")) environment.push_back(*e);
    for (std::string& e : extra) environment.push_back(e.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.write, 1);
    posix_spawn_file_actions_adddup2(&actions, err.write, 2);
    const int error =
        posix_spawn(&id_, program.c_str(), &actions, nullptr, arguments.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    PELLUCID_CHECK(error == 0, IoError, "view: '{}' could not be started: {}.", program,
                   std::strerror(error));
    out.close_write();
    err.close_write();
  }
  ~Child() {
    if (id_ > 0) kill(id_, SIGKILL), wait();
  }
  Child(const Child&) = delete;
  /// Processor time and address space, beyond what the program keeps to by itself.
  void limit(double seconds, int64_t bytes) const {
    const auto whole = static_cast<rlim_t>(seconds) + 1;
    const rlimit time{whole, whole};
    prlimit(id_, RLIMIT_CPU, &time, nullptr);
    const auto space = static_cast<rlim_t>(bytes) + (rlim_t{256} << 30);  // reserved, not used
    const rlimit memory{space, space};
    prlimit(id_, RLIMIT_AS, &memory, nullptr);
  }
  int wait() {
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {}
    id_ = -1;
    return status;
  }

 private:
  pid_t id_ = -1;
};

struct Printed {
  std::string out, err;
};

// Both outputs to their ends; throws where that takes too long or is too much.
Printed read_all(int out, int err, double seconds) {
  Printed printed;
  pollfd ends[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* const texts[2] = {&printed.out, &printed.err};
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  char part[1 << 14];
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    PELLUCID_CHECK(left > 0, ValueError, "The expression took longer than {:g} s and was stopped.",
                   seconds);
    if (poll(ends, 2, static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t got = read(ends[i].fd, part, sizeof part);
      if (got <= 0)
        ends[i].fd = -1;
      else
        texts[i]->append(part, static_cast<size_t>(got));
      PELLUCID_CHECK(texts[i]->size() < kLargestAnswer, ValueError,
                     "The values of the expression are too many to show.");
    }
  }
  return printed;
}

// "pellucid step: error: unknown name 'z'" without what the page need not say.
std::string first_error(const std::string& text) {
  constexpr std::string_view kMark = "error: ";
  const std::string line = text.substr(0, text.find('\n'));
  const size_t mark = line.find(kMark);
  return mark == std::string::npos ? line : line.substr(mark + kMark.size());
}

}  // namespace

std::string Playground::answer(const std::string& body) const {
  const Json request = Json::parse(body, nullptr, false);
  PELLUCID_CHECK(
      request.is_object() && request.contains("expression") && request["expression"].is_string(),
      ValueError, "The request has no expression.");
  std::vector<std::string> bindings;
  if (request.contains("inputs")) {
    PELLUCID_CHECK(request["inputs"].is_object(), ValueError, "The inputs are no object.");
    for (const auto& [name, value] : request["inputs"].items()) {
      PELLUCID_CHECK(value.is_string() && !name.empty() && !name.starts_with('-'), ValueError,
                     "An input is no text with a name.");
      bindings.push_back(name + "=" + value.get<std::string>());
    }
  }
  return evaluate(request["expression"].get<std::string>(), bindings);
}

std::string Playground::evaluate(const std::string& expression,
                                 const std::vector<std::string>& bindings) const {
  static std::mutex one_at_a_time;
  const std::unique_lock lock(one_at_a_time, std::try_to_lock);
  PELLUCID_CHECK(lock.owns_lock(), ValueError,
                 "Another expression is being evaluated; try again when it has ended.");
  for (const std::string& word : bindings)
    PELLUCID_CHECK(word.find('\0') == std::string::npos, ValueError, "An input has a null byte.");
  PELLUCID_CHECK(expression.find('\0') == std::string::npos, ValueError,
                 "The expression has a null byte.");
  std::vector<std::string> words = {"step", "--json", "--layout", "--", expression};
  words.insert(words.end(), bindings.begin(), bindings.end());
  Pipe out, err;
  Child child(program_, words, {fmt::format("PELLUCID_MEMORY_LIMIT={}", bytes), "NO_COLOR=1"}, out,
              err);
  child.limit(seconds, bytes);
  const Printed printed = read_all(out.read, err.read, seconds);
  const int status = child.wait();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return printed.out;
  const std::string why = first_error(printed.err);
  pellucid::detail::raise<ValueError>(
      "{}", WIFEXITED(status) && !why.empty() ? why : "The evaluation ended without a result.");
}

}  // namespace pellucid::cli::view
