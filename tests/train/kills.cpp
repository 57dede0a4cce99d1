// A run that is killed at any moment goes on from its checkpoint as if it had never been: the same
// parameters, optimiser, random state and log, bit for bit, with shuffling, dropout and two
// workers. PELLUCID_TEST_LONG makes many kills of few.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cli/commands/commands.h"
#include "cli/train/signals.h"
#include "support.h"

using namespace pellucid;
using namespace pellucid::test;

TEST_CASE("child: pellucid train" * doctest::skip()) {
  const char* text = std::getenv("PELLUCID_TEST_WORDS");
  REQUIRE(text != nullptr);
  std::vector<std::string> words{"train"};
  for (std::string rest = text; !rest.empty(); rest = rest.substr(rest.find('\n') + 1))
    words.push_back(rest.substr(0, rest.find('\n')));
  const std::vector<const cli::Command*> commands{&cli::kTrain};
  const cli::AppInfo app{
      .name = "pellucid", .version = "test", .summary = "", .examples = "", .commands = commands};
  const int code = cli::run_app(app, words, stdout, stderr);
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(code);  // doctest has nothing to say
}

namespace {

using Clock = std::chrono::steady_clock;

/// The CNN with dropout on few digits, shuffled, with two workers: 18 steps and two tests.
std::vector<std::string> digits_run(const std::string& data, const std::string& out) {
  return {"mnist",
          "--data",
          data,
          "--out",
          out,
          "--batch-size",
          "4",
          "--epochs",
          "2",
          "--workers",
          "2",
          "--threads",
          "1",
          "--save-every",
          "2",
          "--resume",
          "--optimizer",
          "adamw",
          "--log-interval",
          "1"};
}
constexpr int64_t kDigitsSteps = 18;

/// How many steps the process has reported.
int64_t steps_of(const TrainProcess& process) {
  int64_t steps = 0;
  const std::string text = process.output();
  for (size_t at = 0; (at = text.find("Loss: ", at)) != std::string::npos; ++at) ++steps;
  return steps;
}

/// Waits until the process has reported its n-th step, or long enough.
void wait_for_step(const TrainProcess& process, int64_t n) {
  const Clock::time_point until = Clock::now() + std::chrono::seconds(60);
  while (steps_of(process) < n && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// 60 quick steps, saved after each.
std::vector<std::string> quick_run(const std::string& out) {
  return {"two-layer",   "--out",        out, "--batch-size", "4", "--steps",
          "60",          "--save-every", "1", "--threads",    "1", "--resume",
          "--optimizer", "adam"};
}

}  // namespace

TEST_CASE("train: runs killed at random steps end as if they had not been killed") {
  const TemporaryFolder folder;
  const std::string data = folder / "data";
  write_digits(data, 36, 8);
  const Ending whole = run_train(digits_run(data, folder / "whole"));
  REQUIRE_MESSAGE(whole.code() == 0, whole.err);
  std::mt19937_64 random(7);
  const int wanted = full_length() ? 50 : 4;
  std::set<int64_t> steps;  // at which a run was killed
  int kills = 0, runs = 0;
  while (kills < wanted) {
    const std::string out = folder / ("run" + std::to_string(runs++));
    int more = 4;  // kills of this run: its last steps are not to get most of them
    for (bool ended = false; !ended;) {
      const int64_t before = std::filesystem::exists(checkpoint_in(out)) ? step_of(out) : 0;
      TrainProcess process(digits_run(data, out));
      const int64_t left = kDigitsSteps - before;
      const bool kill = kills < wanted && more-- > 0;
      // From before the first step to after the last one.
      const int64_t ahead =
          kill ? static_cast<int64_t>(random() % static_cast<uint64_t>(left + 1)) : 0;
      if (kill) {
        wait_for_step(process, ahead);
        // Anywhere in the step that follows, its save or test included.
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
        process.kill(SIGKILL);
      }
      const Ending e = process.wait();
      ended = e.code() == 0;
      kills += e.killed();
      if (e.killed()) steps.insert(before + ahead);
      REQUIRE_MESSAGE((ended || e.killed()), e.err);
      if (std::filesystem::exists(checkpoint_in(out))) CHECK_NOTHROW(step_of(out));
    }
    check_same_run(out, folder / "whole");
    check_no_litter(out);
  }
  CHECK(steps.size() >= (full_length() ? 12 : 2));
  MESSAGE(kills << " kills at " << steps.size() << " steps in " << runs << " runs");
}

TEST_CASE("train: runs killed inside a save leave the old or the new state") {
  const TemporaryFolder folder;
  const Ending whole = run_train(quick_run(folder / "whole"));
  REQUIRE_MESSAGE(whole.code() == 0, whole.err);
  std::mt19937_64 random(8);
  const int wanted = full_length() ? 200 : 20;
  int kills = 0, runs = 0;
  while (kills < wanted) {
    const std::string out = folder / ("run" + std::to_string(runs++));
    int64_t last = 0;
    for (bool ended = false; !ended;) {
      Environment environment;
      if (kills < wanted)
        environment.emplace_back("PELLUCID_FAULT", std::to_string(1 + random() % 200) + ":KILL");
      const Ending e = run_train(quick_run(out), environment);
      ended = e.code() == 0;
      kills += e.killed();
      REQUIRE_MESSAGE((ended || e.killed()), e.err);
      if (!std::filesystem::exists(checkpoint_in(out))) continue;
      int64_t step = -1;
      REQUIRE_NOTHROW(step = step_of(out));
      CHECK(step >= last);
      last = step;
    }
    check_same_run(out, folder / "whole");
    check_no_litter(out);
  }
  MESSAGE(kills << " kills in " << runs << " runs");
}

TEST_CASE("train: mode and umask of the checkpoint are kept") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  const auto mode = [&] {
    struct stat facts {};
    stat(checkpoint_in(out).c_str(), &facts);
    return facts.st_mode & 07777;
  };
  const mode_t before = umask(027);
  const Ending first = run_train({"two-layer", "--out", out, "--steps", "2"});
  umask(before);
  REQUIRE_MESSAGE(first.code() == 0, first.err);
  CHECK(mode() == 0640);
  chmod(checkpoint_in(out).c_str(), 0604);
  REQUIRE(run_train({"two-layer", "--out", out, "--resume", "--epochs", "2"}).code() == 0);
  CHECK(mode() == 0604);
  CHECK(step_of(out) == 4);
}

TEST_CASE("train: SIGINT and SIGTERM finish the step, save, and the run goes on") {
  const TemporaryFolder folder;
  const std::vector<std::string> words{"two-layer", "--steps",      "5000", "--threads",
                                       "1",         "--save-every", "0",    "--log-interval",
                                       "10",        "--resume",     "--out"};
  const auto to = [&](const std::string& out) {
    std::vector<std::string> all = words;
    all.push_back(out);
    return all;
  };
  REQUIRE(run_train(to(folder / "whole")).code() == 0);
  const std::string out = folder / "run";
  for (const auto& [signal, name] : {std::pair(SIGINT, "SIGINT"), std::pair(SIGTERM, "SIGTERM")}) {
    TrainProcess process(to(out));
    const Clock::time_point until = Clock::now() + std::chrono::seconds(60);
    while (process.output().find("step ") == std::string::npos && Clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    process.kill(signal);
    const Ending e = process.wait();
    INFO(e.err);
    CHECK(e.code() == 128 + signal);
    CHECK(e.err.find("stopped by " + std::string(name)) != std::string::npos);
    CHECK(step_of(out) > 0);
    CHECK(step_of(out) < 5000);
  }
  REQUIRE(run_train(to(out)).code() == 0);
  check_same_run(out, folder / "whole");
}

TEST_CASE("train: a second signal ends the process at once") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const cli::train::SignalWatch watch;
    raise(SIGTERM);
    if (cli::train::asked_to_stop() != SIGTERM) _exit(1);
    raise(SIGINT);
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
}
