// pellucid profile: runs a program and records what it does. The program needs no change: the
// library inside it reads the environment that is set here. Whatever ends the program, what it did
// until then is in its mapped files, which are turned into the profile afterwards.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/escape.h"
#include "cli/analyze/model_profile.h"
#include "cli/commands/commands.h"
#include "cli/text.h"
#include "pellucid/machine.h"
#include "pellucid/parallel.h"
#include "pellucid/profiler.h"
#include "profile/overhead.h"
#include "profile/recorder.h"

extern char** environ;

namespace pellucid::cli {
namespace {

struct ProfileFlags {
  std::string file = "profile.pellucid";
  bool count = false, trace = false, quiet = false, stacks = false;
  int sample = 0;
  std::string limit;
};

std::vector<std::string> environment_for(const ProfileFlags& o, const std::string& folder) {
  std::vector<std::string> all;
  for (char** e = environ; *e; ++e)
    if (const std::string_view variable = *e;
        !variable.starts_with("PELLUCID_PROFILE") || variable.starts_with("PELLUCID_PROFILE_PERF="))
      all.emplace_back(variable);
  all.push_back("PELLUCID_PROFILE_RAW=" + folder);
  all.push_back(fmt::format("PELLUCID_PROFILE_MODE={}",
                            o.count ? "count" : (o.sample > 0 ? "sample" : "trace")));
  if (o.sample > 0) all.push_back(fmt::format("PELLUCID_PROFILE_RATE={}", o.sample));
  if (o.stacks) all.push_back("PELLUCID_PROFILE_STACKS=1");
  if (!o.limit.empty()) all.push_back("PELLUCID_PROFILE_LIMIT=" + o.limit);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  return list;
}

// Runs the program with our terminal; Ctrl-C is for it, and we wait until it is gone.
int run_program(std::vector<std::string> words, std::vector<std::string> environment) {
  struct sigaction ignore {
  }, interrupt{}, quit{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &interrupt);
  sigaction(SIGQUIT, &ignore, &quit);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  const int error = posix_spawnp(&child, words[0].c_str(), nullptr, &attributes,
                                 pointers(words).data(), pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  int status = 0;
  if (error == 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGQUIT, &quit, nullptr);
  PELLUCID_CHECK(error == 0, IoError, "profile: '{}' could not be started: {}.", words[0],
                 std::strerror(error));
  return status;
}

bool is_own_command(const Args& args, const std::string& word) {
  for (const Command* c : args.app->commands)
    if (c->name == word) return true;
  return false;
}

void tell(const Args& args, const profile::Profile& p, const ProfileFlags& o) {
  const double seconds = static_cast<double>(p.run.duration) / 1e9;
  if (p.run.signal)
    fmt::print(args.err,
               "the program was ended by signal {} ({}); this is what it did until then\n",
               p.run.signal, strsignal(p.run.signal));
  else if (!p.run.complete)
    fmt::print(args.err,
               "the program ended without closing its recording; all that it wrote is "
               "here\n");
  const profile::RecordingCost cost(p);
  fmt::print(args.err, "{} {} in {:.3f} s; recording took about {} each", group_digits(cost.count),
             cost.what, seconds, profile::RecordingCost::text(cost.each));
  if (cost.scopes > 0)
    fmt::print(args.err, " and {} for each of {} ops and scopes",
               profile::RecordingCost::text(cost.scope), group_digits(cost.scopes));
  fmt::print(args.err, ", {:.2f} % of the time; {} recorded\n",
             seconds > 0 ? 100 * cost.total() / 1e9 / seconds : 0,
             format_bytes(static_cast<double>(p.run.recorded_bytes)));
  if (p.run.dropped)
    fmt::print(args.err, "{} events found no room (--limit makes more)\n",
               group_digits(p.run.dropped));
  for (const std::string& note : p.run.notes)
    fmt::print(args.err, "note: {}\n", text::visible(note));
  fmt::print(args.err, "{}: look at it with `pellucid report {}`\n", o.file, o.file);
}

int record(const Args& args, const ProfileFlags& o, std::vector<std::string> program) {
  if (is_own_command(args, program[0]) && access(program[0].c_str(), X_OK) != 0)
    program.insert(program.begin(), profile::own_program());
  const std::string folder = o.file + ".raw";
  profile::remove_folder(folder);
  // Before the program runs: a profile that cannot be written is no reason to wait for it.
  PELLUCID_CHECK(mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST, IoError,
                 "profile: the folder '{}' for the recording could not be made: {}. Name another "
                 "place with -o.",
                 folder, std::strerror(errno));
  int status = 0;
  try {
    status = run_program(program, environment_for(o, folder));
  } catch (const IoError&) {
    profile::remove_folder(folder);
    throw;
  }
  profile::Profile p;
  try {
    p = profile::collect(folder);
  } catch (const IoError&) {
    profile::remove_folder(folder);
    detail::raise<IoError>(
        "profile: '{}' recorded nothing: it does not load libpellucid, or ended before it did.",
        program[0]);
  }
  p.run.program.clear();
  for (const std::string& w : program) p.run.program += (p.run.program.empty() ? "" : " ") + w;
  if (WIFSIGNALED(status))
    p.run.signal = WTERMSIG(status);
  else
    p.run.exit_code = WEXITSTATUS(status);
  profile::state_recording_cost(p);
  p.machine = machine_ceilings();
  p.save(o.file);
  profile::remove_folder(folder);
  if (!o.quiet) tell(args, p, o);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_profile(const Args& args) {
  ProfileFlags o;
  Args own = args;
  std::vector<std::string> program;
  for (size_t i = 0; i < own.words.size(); ++i)
    if (own.words[i] == "--") {
      program.assign(own.words.begin() + static_cast<std::ptrdiff_t>(i) + 1, own.words.end());
      own.words.resize(i);
      break;
    }
  if (program.empty() && !own.words.empty() && is_model(own.words[0]))
    return run_model_profile(args);
  if (program.empty() && !own.words.empty() && !own.words[0].starts_with('-'))
    throw UsageError(fmt::format(
        "'{0}' is no model's name; to run it as a program, write: pellucid profile -- {0}",
        own.words[0]));
  CommandLine line(own);
  line.add_option("-o,--output", o.file, "The profile that is written")->capture_default_str();
  line.add_flag("--trace", o.trace, "Record every op with its times (if nothing else is said)");
  line.add_flag("--count", o.count, "Only count calls");
  line.add_option("--sample", o.sample, "Look at the stacks HZ times a second of processor time")
      ->expected(0, 1)
      ->default_str("199")
      ->type_name("HZ")
      ->check(CLI::Range(1, 10000));
  line.add_flag("--stacks", o.stacks, "Record the whole stack of each op (slow)");
  line.add_option("--limit", o.limit, "The most bytes of events of one thread (4G)")
      ->type_name("BYTES");
  line.add_flag("-q,--quiet", o.quiet, "Say nothing");
  line.read();
  if (o.count + o.trace + (o.sample > 0) > 1)
    throw UsageError("--trace, --count and --sample are three ways to record: choose one.");
  if (program.empty())
    throw UsageError("give the program to run after --, for example: pellucid profile -- ./train");
  return record(args, o, std::move(program));
}

}  // namespace

extern const Command kProfile{
    .name = "profile",
    .summary = "Run a program and record what it does",
    .description =
        "Runs PROGRAM, which may be anything that uses pellucid: an executable, `python script.py` "
        "or one of pellucid's own commands. Every op is recorded with its times, sizes, cost, "
        "memory, module and source line (build with -g for lines). The program's exit code is "
        "passed on; if it crashes, what it did until then is kept.\n"
        "With the name or the text of a model in the place of a program, its layers are listed "
        "with "
        "parameters, FLOPs and times, forward and backward: pellucid profile MODEL [--input SIZES] "
        "[--json].",
    .examples =
        "pellucid profile -- ./train --epochs 1\n"
        "pellucid profile -o step.pellucid -- train two-layer\n"
        "pellucid profile --sample -- python train.py\n"
        "pellucid profile mnist-cnn --input 64,1,28,28\n"
        "pellucid profile 'Sequential(Linear(784,128), ReLU(), Linear(128,10))' --input 64,784\n"
        "pellucid report profile.pellucid",
    .run = run_profile};

}  // namespace pellucid::cli
