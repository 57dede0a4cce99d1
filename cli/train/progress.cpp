// Lines, messages and the bar.
#include "cli/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/terminal.h"
#include "cli/text.h"
#include "pellucid/io/metrics.h"

namespace pellucid::cli::train {
namespace {

constexpr auto kBarEvery = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\x1b[K";

bool is_terminal(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(target_of(stream))) == 1 && (!term || std::string_view(term) != "dumb");
}

}  // namespace

Progress::Progress(const Args& args, std::string_view task, bool json)
    : out_(args.out), err_(args.err), task_(task), json_(json), terminal_(is_terminal(args.err)) {}

void Progress::clear() {
  if (!drawn_) return;
  control(err_, kClearLine);
  drawn_ = false;
  next_ = {};
}

void Progress::say(const std::string& message) {
  clear();
  fmt::print(err_, "{}\n", message);
}

void Progress::print(const std::string& line) {
  if (line.empty() || json_) return;
  clear();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void Progress::print_json(const NamedValues& values) {
  if (!json_) return;
  clear();
  fmt::print(out_, "{}\n", io::json_line(values));
  std::fflush(out_);
}

void Progress::bar(const StepReport& r, Clock::time_point now, double rate, double left) {
  if (!terminal_ || now < next_) return;
  control(err_, kClearLine);
  fmt::print(err_, "{}", bar_text(task_, r, rate, left, terminal_width(err_) - 1));
  std::fflush(err_);
  drawn_ = true;
  next_ = now + kBarEvery;
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(std::clamp(std::round(seconds), 0.0, 3.6e8));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string bar_text(std::string_view task, const StepReport& r, double rate, double left,
                     int columns) {
  const int64_t done = std::min(r.batch + 1, r.batches);
  const std::string before =
      fmt::format("{} {}/{} {:3.0f}% ", task, r.epoch + 1, r.epochs,
                  100.0 * static_cast<double>(done) / static_cast<double>(r.batches));
  const std::string after = fmt::format(
      " {}/{}  loss {:.4f}  {} samples/s  {} left", done, r.batches, r.loss,
      rate < 100 ? fmt::format("{:.1f}", rate) : group_digits(static_cast<int64_t>(rate)),
      clock_text(left));
  const int room =
      std::min(40, columns - 2 - static_cast<int>(before.size()) - static_cast<int>(after.size()));
  std::string bar;
  if (room >= 5) {
    const auto full = static_cast<size_t>(room * done / r.batches);
    bar = "[" + std::string(full, '=') + std::string(static_cast<size_t>(room) - full, ' ') + "]";
  }
  return (before + bar + after).substr(0, static_cast<size_t>(std::max(columns, 0)));
}

}  // namespace pellucid::cli::train
