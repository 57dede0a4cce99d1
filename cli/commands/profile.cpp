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
#include "cli/output.h"
#include "cli/text.h"
#include "pellucid/parallel.h"
#include "pellucid/profiler.h"
#include "profile/ceilings.h"
#include "profile/overhead.h"
#include "profile/recording_file.h"
#include "profile/sources.h"
#include "recorder/recorder.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace pellucid::cli {
namespace {

struct ProfileFlags {
  std::string file = "profile.pellucid";
  bool count = false, trace = false, quiet = false, stacks = false;
  bool no_source = false;
  int sample = 0, step = 2;
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
  all.push_back(fmt::format("PELLUCID_PROFILE_STEP={}", o.step));
  if (!o.limit.empty()) all.push_back("PELLUCID_PROFILE_LIMIT=" + o.limit);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (std::string& w : words) list.push_back(w.data());
  list.push_back(nullptr);
  return list;
}

// The program's process while it runs: who asks this process to end means the program.
volatile sig_atomic_t g_program = 0;

void pass_on(int signal) {
  if (g_program > 0) kill(g_program, signal);
}

// The program could not be started: as a shell, 127 where there is none, 126 where it is no
// program.
class NotStarted : public IoError {
 public:
  NotStarted(const std::string& message, int error)
      : IoError(message), exit_code(error == ENOENT ? 127 : 126) {}
  int exit_code;
};

// Runs the program with our terminal; Ctrl-C is for it, and we wait until it is gone.
int run_program(std::vector<std::string> words, std::vector<std::string> environment) {
  struct sigaction ignore {
  }, forward{}, interrupt{}, quit{}, terminate{}, hang_up{};
  ignore.sa_handler = SIG_IGN;
  forward.sa_handler = pass_on;
  sigaction(SIGINT, &ignore, &interrupt);
  sigaction(SIGQUIT, &ignore, &quit);
  sigaction(SIGTERM, &forward, &terminate);
  sigaction(SIGHUP, &forward, &hang_up);
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
  if (error == 0) {
    g_program = child;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    g_program = 0;
  }
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGQUIT, &quit, nullptr);
  sigaction(SIGTERM, &terminate, nullptr);
  sigaction(SIGHUP, &hang_up, nullptr);
  if (error != 0)
    throw NotStarted(
        fmt::format("profile: '{}' could not be started: {}.", words[0], std::strerror(error)),
        error);
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
    fmt::print(
        args.err,
        "the program was killed by signal {} ({}); the profile holds everything up to that point\n",
        p.run.signal, strsignal(p.run.signal));
  else if (!p.run.complete)
    fmt::print(args.err,
               "the program ended without closing its recording; the profile holds everything that "
               "it wrote\n");
  const profile::RecordingCost cost(p);
  fmt::print(args.err, "{} {} in {:.3f} s; recording took about {} each", group_digits(cost.count),
             cost.what, seconds, profile::RecordingCost::text(cost.each));
  if (cost.scopes > 0)
    fmt::print(args.err, " and {} for each of {} ops and scopes",
               profile::RecordingCost::text(cost.scope), group_digits(cost.scopes));
  fmt::print(args.err, ", {:.2f} % of the time; {} recorded\n",
             100 * cost.total() / std::max(1.0, profile::Overhead(p).whole()),
             format_bytes(static_cast<double>(p.run.recorded_bytes)));
  if (p.run.dropped)
    fmt::print(args.err, "{} events were dropped; raise --limit to keep them\n",
               group_digits(p.run.dropped));
  for (const std::string& note : p.run.notes)
    fmt::print(args.err, "note: {}\n", text::visible(note));
  fmt::print(args.err, "wrote {}; view it with `pellucid report {}`\n", o.file, o.file);
}

// As a shell says it: the program's own exit code, or 128 and the signal that ended it.
int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// How the program ended, where that needs a word.
std::string ending(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("it ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("it was killed by signal {} ({}{})", WTERMSIG(status),
                     strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
}

int record(const Args& args, const ProfileFlags& o, std::vector<std::string> program) {
  if (is_own_command(args, program[0]) && access(program[0].c_str(), X_OK) != 0)
    program.insert(program.begin(), profile::own_program());
  check_output("--output", o.file, program);
  profile::check_replaceable(o.file);
  const std::string folder = o.file + ".raw";
  // Before the program runs: a profile that cannot be written is no reason to wait for it.
  PELLUCID_CHECK(mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST, IoError,
                 "profile: the folder '{}' for the recording could not be made: {}. Name another "
                 "place with -o.",
                 folder, std::strerror(errno));
  const io::FileLock lock = profile::recording_lock("profile", o.file);
  profile::remove_folder(folder);  // what a recording that was killed left behind
  mkdir(folder.c_str(), 0777);
  int status = 0;
  try {
    status = run_program(program, environment_for(o, folder));
  } catch (const NotStarted& e) {
    profile::remove_folder(folder);
    fmt::print(args.err, "pellucid profile: error: {}\n", e.what());
    return e.exit_code;
  }
  // Whatever fails from here on, a program that failed decides the exit code.
  const int failed = exit_code_of(status) != 0 ? exit_code_of(status) : 1;
  profile::Profile p;
  try {
    p = profile::collect(folder);
  } catch (const IoError&) {
    profile::remove_folder(folder);
    fmt::print(args.err,
               "pellucid profile: error: '{}' recorded nothing: it does not load libpellucid, or "
               "ended before it did ({}).\n",
               program[0], ending(status));
    return failed;
  }
  p.run.program.clear();
  for (const std::string& w : program) p.run.program += (p.run.program.empty() ? "" : " ") + w;
  if (WIFSIGNALED(status))
    p.run.signal = WTERMSIG(status);
  else
    p.run.exit_code = WEXITSTATUS(status);
  p.run.revision = profile::git_revision(p.run.folder);
  if (!o.no_source) profile::add_sources(p);
  profile::state_recording_cost(p);
  p.machine = profile::ceilings_of_run(p.run.isa, p.run.threads, true);
  try {
    p.save(o.file);
  } catch (const IoError& e) {
    fmt::print(args.err, "pellucid profile: error: {} The recording is in {}.\n", e.what(), folder);
    return failed;
  }
  profile::remove_folder(folder);
  if (!o.quiet) tell(args, p, o);
  return exit_code_of(status);
}

constexpr const char* kRecording = "Options of a recording";
constexpr const char* kModel = "Options of a model";

void add_recording_options(CommandLine& line, ProfileFlags& o) {
  line.add_option("-o,--output", o.file, "Write the profile to this file")
      ->type_name("FILE")
      ->group(kRecording)
      ->capture_default_str();
  line.add_flag("--trace", o.trace, "Record every op with its times (the default)")
      ->group(kRecording);
  line.add_flag("--count", o.count, "Only count calls")->group(kRecording);
  line.add_option("--sample", o.sample, "Sample the stacks HZ times per second of CPU time")
      ->expected(0, 1)
      ->default_str("199")
      ->type_name("HZ")
      ->check(in_range(1, 10000))
      ->group(kRecording);
  line.add_flag("--stacks", o.stacks, "Record the whole stack of each op (slow)")
      ->group(kRecording);
  line.add_flag("--no-source", o.no_source, "Leave out the text of the program's source files")
      ->group(kRecording);
  line.add_option("--step", o.step,
                  "The step of which it is recorded which blocks of memory each op reads, writes "
                  "and saves; 0 for none")
      ->type_name("N")
      ->check(at_least(0))
      ->capture_default_str()
      ->group(kRecording);
  line.add_option("--limit", o.limit,
                  "Limit the events of one thread to this size, for example 512M (default 4G)")
      ->type_name("BYTES")
      ->check(byte_count())
      ->group(kRecording);
  line.add_flag("-q,--quiet", o.quiet, "Print no messages")->group(kRecording);
}

// An option of the other form means nothing: say so, and do not ignore it.
void refuse_group(const CommandLine& line, std::string_view group, std::string_view why) {
  for (const CLI::Option* o : line.get_options())
    if (o->count() > 0 && o->get_group() == group)
      throw UsageError(fmt::format("{}: {}", o->get_name(), why));
}

int run_profile(const Args& args) {
  ProfileFlags o;
  ModelProfileFlags model;
  Args own = args;
  std::vector<std::string> program;
  bool recording = false;
  for (size_t i = 0; i < own.words.size() && !recording; ++i)
    if (own.words[i] == "--") {
      recording = true;
      program.assign(own.words.begin() + static_cast<std::ptrdiff_t>(i) + 1, own.words.end());
      own.words.resize(i);
    }
  CommandLine line(own);
  line.describe_argument("-- PROGRAM [ARGS...]", "The program to run and record");
  line.add_option("MODEL", model.model,
                  "A model's name, or a spec such as 'Sequential(Linear(8,4))', whose layers to "
                  "list");
  add_recording_options(line, o);
  add_model_options(line, model, kModel);
  line.read();
  if (o.count + o.trace + (o.sample > 0) > 1)
    throw UsageError("--trace, --count and --sample are three ways to record: choose one");
  if (recording && !model.model.empty())
    throw UsageError(
        fmt::format("'{}' comes before --, but the program to run must follow it, for example: "
                    "pellucid profile -- ./train",
                    model.model));
  if (!model.model.empty()) {
    if (!is_model(model.model))
      throw UsageError(fmt::format(
          "there is no model '{0}'; to run it as a program, write: pellucid profile -- {0}",
          model.model));
    refuse_group(line, kRecording, "this option is for recording a program, not for a model");
    return run_model_profile(args, model);
  }
  if (program.empty())
    throw UsageError("give the program to run after --, for example: pellucid profile -- ./train");
  refuse_group(line, kModel, "this option is for a model, not for recording a program");
  return record(args, o, std::move(program));
}

}  // namespace

extern const Command kProfile{
    .name = "profile",
    .summary = "Run a program and record what it does",
    .description =
        "Runs PROGRAM and records every op with its times, sizes, cost, memory, module and source "
        "line (build with -g for lines). PROGRAM may be anything that uses pellucid: an "
        "executable, `python script.py` or one of pellucid's own commands. The program's exit code "
        "is passed on. If the program crashes, everything recorded before the crash is kept.\n"
        "With the name or the spec of a model instead of a program, lists its layers with "
        "parameters, FLOPs and times, forward and backward.",
    .examples =
        "pellucid profile -- ./train --epochs 1\n"
        "pellucid profile -o step.pellucid -- train two-layer\n"
        "pellucid profile --sample 500 -- python train.py\n"
        "pellucid profile mnist-cnn --input 64,1,28,28\n"
        "pellucid profile 'Sequential(Linear(784,128), ReLU(), Linear(128,10))' --input 64,784\n"
        "pellucid profile resnet18 --batch 8 --machine 100GFLOP/s,50GB/s\n"
        "pellucid report profile.pellucid",
    .usage = "[OPTIONS] -- PROGRAM [ARGS...]\nMODEL [OPTIONS]",
    .run = run_profile};

}  // namespace pellucid::cli
