#include "pellucid/compile.h"

#include <bit>
#include <iostream>

#include "base/statistics.h"
#include "base/text.h"
#include "core/call_text.h"
#include "core/capture.h"
#include "core/program.h"
#include "core/whole_capture.h"
#include "graph/passes.h"

namespace pellucid {
namespace detail {

namespace {

// Eager calls know no budget, and round as the program says: the ways are not compared.
CompileOptions settled(CompileOptions options) {
  PELLUCID_CHECK(options.memory_budget >= 0, ValueError,
                 "compile: memory_budget is {}; it is a number of bytes, or 0 for no limit.",
                 options.memory_budget);
  if (options.mode == CompileMode::Measured && (options.memory_budget > 0 || options.reassociate))
    options.mode = CompileMode::Always;
  return options;
}

}  // namespace

CompileTrials::CompileTrials(const CompileOptions& options) : options_(settled(options)) {}

void check_function(bool exists) {
  PELLUCID_CHECK(exists, ValueError, "compile: the function is null or empty.");
}

// Two calls that are not timed, one each way; then the two ways in turns, C E E C C E E C, so that
// a drift of the machine hits both alike.
bool CompileTrials::begin(size_t size, int64_t& number) {
  const std::lock_guard lock(mutex_);
  Size& s = sizes_[size];
  number = s.calls++;
  if (options_.mode != CompileMode::Measured || s.decided) return s.captures;
  if (number >= kWarm + kTimed) return s.captures;  // others are still being timed
  if (number < kWarm) return number == 0;
  const int64_t turn = (number - kWarm) % 4;
  return turn == 0 || turn == 3;
}

void CompileTrials::end(size_t size, int64_t number, bool captured, double seconds) {
  if (options_.mode != CompileMode::Measured || number < kWarm || number >= kWarm + kTimed) return;
  const std::lock_guard lock(mutex_);
  Size& s = sizes_[size];
  (captured ? s.captured : s.eager).push_back(seconds);
  if (s.captured.size() + s.eager.size() < kTimed) return;
  s.captures = median(s.captured) < median(s.eager);
  s.decided = true;
}

bool CompileTrials::note_capture(bool is_new) {
  const std::lock_guard lock(mutex_);
  new_in_a_row_ = is_new ? new_in_a_row_ + 1 : 0;
  return new_in_a_row_ >= kMostNewInARow && !std::exchange(warned_, true);
}

CompileReport CompileTrials::report() const {
  const std::lock_guard lock(mutex_);
  CompileReport out;
  out.new_in_a_row = new_in_a_row_;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const Size& s = sizes_[i];
    if (s.calls == 0) continue;
    out.sizes.push_back({.least_elements = i == 0 ? 0 : int64_t{1} << (i - 1),
                         .calls = s.calls,
                         .captured_seconds = s.captured.empty() ? 0 : median(s.captured),
                         .eager_seconds = s.eager.empty() ? 0 : median(s.eager),
                         .decided = s.decided,
                         .captured = s.captures});
  }
  return out;
}

ProgramOptions::ProgramOptions(const CompileOptions& options)
    : outer_budget_(std::exchange(
          memory_budget, static_cast<size_t>(std::max<int64_t>(options.memory_budget, 0)))),
      outer_reassociate_(std::exchange(graph::reassociating, options.reassociate)) {}
ProgramOptions::~ProgramOptions() {
  memory_budget = outer_budget_;
  graph::reassociating = outer_reassociate_;
}

WholeProgram::WholeProgram()
    : outer_(Capture::own().require_whole("compile with fullgraph (CompileMode::Whole)")) {}
WholeProgram::~WholeProgram() { Capture::own().require_whole(outer_); }

namespace {
constinit thread_local int64_t compiled_calls = 0;  // of this thread, that have not ended
}

bool in_compiled_call() { return compiled_calls > 0 || is_sealing(); }
void count_compiled_call(int change) { compiled_calls += change; }

CompiledCall::CompiledCall(CompileTrials& trials, int64_t elements)
    : trials_(trials),
      size_(std::min<size_t>(std::bit_width(static_cast<uint64_t>(elements)), 63)),
      missed_before_(programs_missed()),
      nested_(in_compiled_call()),
      captured_(!nested_ && trials.begin(size_, number_)) {
  if (!nested_) options_.emplace(trials.options());
  if (captured_) lazy_.emplace();
  if (trials.options().mode == CompileMode::Whole) {
    if (!nested_) eval();  // what came before is no part of it
    whole_.emplace();
  }
  ++compiled_calls;
  begun_ = std::chrono::steady_clock::now();
}

CompiledCall::~CompiledCall() { --compiled_calls; }

bool CompiledCall::finish() {
  whole_.reset();
  if (nested_) return false;
  if (captured_) eval();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun_;
  trials_.end(size_, number_, captured_, taken.count());
  return captured_ && trials_.note_capture(programs_missed() != missed_before_);
}

void warn_of_changes() {
  const std::string line = line_now();
  std::cerr << fmt::format(
      "pellucid: warning: a compiled function{} captured something new in each of {} calls in a "
      "row, so no program could be kept and replayed. Usually sizes change with every call: give "
      "it inputs of a few sizes (pad them), or compile a part whose sizes stay.\n",
      line.empty() ? "" : ", called at " + line + ",", kMostNewInARow);
}

}  // namespace detail

std::string CompileReport::text() const {
  std::string out;
  for (const Size& s : sizes) {
    out += fmt::format("inputs of {} elements and more: {} call{}; ",
                       text::group_digits(s.least_elements), s.calls, s.calls == 1 ? "" : "s");
    if (s.captured_seconds > 0 && s.eager_seconds > 0)
      out += fmt::format("captured {}, eager {}: ", text::format_seconds(s.captured_seconds),
                         text::format_seconds(s.eager_seconds));
    out += !s.decided ? "not decided yet\n" : s.captured ? "captured\n" : "runs eagerly\n";
  }
  for (const Form& f : forms)
    out += f.refused.empty()
               ? fmt::format("sealed: {} of {} calls were replayed without calling the function\n",
                             f.replayed, f.calls)
               : fmt::format("not sealed, but captured: {}\n", f.refused);
  if (new_in_a_row > 1)
    out += fmt::format("each of the last {} captures was new: none of them is replayed\n",
                       new_in_a_row);
  return out.empty() ? "not called yet\n" : out;
}

}  // namespace pellucid
