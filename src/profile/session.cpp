// Starting and ending recordings: by a ProfilerSession, or from outside by the environment:
//
//   PELLUCID_PROFILE=FILE           records the whole program; the file is written when it ends
//   PELLUCID_PROFILE_RAW=FOLDER     the same, but the raw files are left to whoever set this
//   PELLUCID_PROFILE_MODE           trace (if nothing is said), count or sample
//   PELLUCID_PROFILE_RATE           samples a second
//   PELLUCID_PROFILE_STACKS=1       the whole stack of each op
//   PELLUCID_PROFILE_SOURCE=0       without the text of the program's source files
//   PELLUCID_PROFILE_STEP=N         the step of which it is recorded which blocks each op uses
//   PELLUCID_PROFILE_LIMIT          most bytes of a thread's events ("512M")
//   PELLUCID_PROFILE_PERF=0         as where perf_event_open is not permitted (a ProfilerSession
//                                   too): getrusage counts instead
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/env.h"
#include "pellucid/error.h"
#include "pellucid/lazy.h"
#include "pellucid/profiler.h"
#include "profile/ceilings.h"
#include "profile/recording_file.h"
#include "profile/sources.h"
#include "recorder/recorder.h"

namespace pellucid {
namespace profile {

std::string_view name_of(Stall::Kind kind) {
  constexpr std::string_view kNames[] = {"page fault", "waiting", "preempted"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name_of(BlockUse::Kind kind) {
  constexpr std::string_view kNames[] = {"read", "write", "saved"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name_of(Phase phase) {
  constexpr std::string_view kNames[] = {"forward", "backward", "optimizer"};
  return kNames[static_cast<int>(phase)];
}

io::FileLock recording_lock(const std::string& who, const std::string& file) {
  return io::FileLock(who, io::lock_beside(file), fmt::format("'{}'", file),
                      "Wait until it has ended, or name another file.");
}

namespace {

// Where the whole program's profile goes. Made on first use: the recording starts before other
// variables are ready.
std::string& program_file() {
  static std::string& file = *new std::string;
  return file;
}
// Held as long as the program records.
std::optional<io::FileLock>& program_lock() {
  static std::optional<io::FileLock>& lock = *new std::optional<io::FileLock>;
  return lock;
}
pid_t g_owner = 0;  // whose it is: not that of a child

// The machine's ceilings where an earlier run kept them: a program does not wait for a measurement.
void add_ceilings(Profile& p) { p.machine = ceilings_of_run(p.run.isa, p.run.threads, false); }

// What is added when the recording has ended, before it is saved.
void complete(Profile& p, bool sources) {
  add_ceilings(p);
  state_recording_cost(p);
  p.run.revision = git_revision(p.run.folder);
  if (sources) add_sources(p);
}

bool g_sources = true;  // of the whole program's recording

void finish_program() {
  const std::string folder = recording_folder();
  stop_recording();
  if (program_file().empty() || getpid() != g_owner) return;
  try {
    Profile p = collect(folder);
    complete(p, g_sources);
    p.save(program_file());
    remove_folder(folder);
    program_lock().reset();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pellucid: the profile was not written: %s\n", e.what());
  }
}

// Before main, and after the library's own variables are ready.
[[gnu::constructor(65500)]] void start_by_environment() {
  try {
    const auto raw = env_string("PELLUCID_PROFILE_RAW"), file = env_string("PELLUCID_PROFILE");
    if (!raw && !file) return;
    RecorderOptions o;
    o.folder = raw ? *raw : *file + ".raw";
    o.mode = mode_from_name(env_string("PELLUCID_PROFILE_MODE").value_or("trace"));
    o.sample_rate = static_cast<double>(env_int("PELLUCID_PROFILE_RATE", 1, 10000).value_or(199));
    o.stacks = env_bool("PELLUCID_PROFILE_STACKS", false);
    o.sources = g_sources = env_bool("PELLUCID_PROFILE_SOURCE", true);
    o.chosen_step = static_cast<int>(env_int("PELLUCID_PROFILE_STEP", 0, INT32_MAX).value_or(2));
    if (const auto limit = env_bytes("PELLUCID_PROFILE_LIMIT"))
      o.limit = std::max<int64_t>(*limit, int64_t{8} << 20);
    g_owner = getpid();
    if (!raw) {
      check_replaceable(*file);
      program_lock().emplace(recording_lock("profile", *file));
      program_file() = *file;
      remove_folder(o.folder);  // what a run that was killed left behind
      // Programs that this one starts record into the same folder, and leave the rest to us.
      setenv("PELLUCID_PROFILE_RAW", o.folder.c_str(), 1);
      unsetenv("PELLUCID_PROFILE");
    }
    start_recording(o);
    std::atexit(finish_program);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pellucid: nothing is recorded: %s\n", e.what());
  }
}

}  // namespace
}  // namespace profile

namespace {
pid_t g_session_owner = 0;  // there is one session at a time
}

// A lazy call is recorded when it runs. One that fails is kept: whoever reads its result is told.
static void run_captured() noexcept {
  try {
    eval();
  } catch (const std::exception&) { return; }
}

ProfilerSession::ProfilerSession(std::string file, profile::RecorderOptions options)
    : file_(std::move(file)) {
  if (options.folder.empty()) {
    const char* temporary = std::getenv("TMPDIR");
    std::string name = file_.empty() ? fmt::format("{}/pellucid-XXXXXX",
                                                   temporary && *temporary ? temporary : "/tmp")
                                     : file_ + ".raw-XXXXXX";
    PELLUCID_CHECK(mkdtemp(name.data()), IoError, "profile: the folder '{}' could not be made.",
                   name);
    options.folder = name;
  }
  folder_ = options.folder;
  sources_ = options.sources;
  try {
    run_captured();  // what was asked for before is no part of the recording
    profile::start_recording(options);
  } catch (...) {
    profile::remove_folder(folder_);
    throw;
  }
  running_ = true;
  g_session_owner = getpid();
}

profile::Profile ProfilerSession::stop() {
  PELLUCID_CHECK(running_, ValueError, "ProfilerSession::stop: the session was stopped before.");
  run_captured();
  running_ = false;
  profile::stop_recording();
  if (getpid() != g_session_owner) return {};  // the child of a fork: the files are its parent's
  profile::Profile p = profile::collect(folder_);
  profile::remove_folder(folder_);
  profile::complete(p, sources_);
  if (!file_.empty()) p.save(file_);
  return p;
}

ProfilerSession::~ProfilerSession() {
  if (!running_) return;
  try {
    stop();
  } catch (const std::exception&) {
    // A destructor has nobody to tell.
  }
}

}  // namespace pellucid
