// What a person sees while a run goes on: lines on standard output (or JSON), messages on standard
// error, and on a terminal a bar below them. Drawing the bar is throttled; off a terminal it
// does not exist.
#pragma once

#include <chrono>
#include <string>

#include "cli/app.h"
#include "cli/train/task.h"

namespace pellucid::cli::train {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  Progress(const Args& args, std::string_view task, bool json);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;

  bool json() const { return json_; }
  /// A message, to standard error.
  void say(const std::string& message);
  /// A line, to standard output at once; nothing for "" and where JSON is asked for.
  void print(const std::string& line);
  /// A JSON object as a line, where JSON is asked for.
  void print_json(const NamedValues& values);
  /// Draws the bar if it is time to: `rate` in samples a second, `left` in seconds.
  void bar(const StepReport& report, Clock::time_point now, double rate, double left);
  void clear();

 private:
  std::FILE *out_, *err_;
  std::string task_;
  bool json_, terminal_, drawn_ = false;
  Clock::time_point next_;
};

/// The bar's text in so many columns.
std::string bar_text(std::string_view task, const StepReport& report, double rate, double left,
                     int columns);
/// "0:07", "12:34" or "1:02:03".
std::string clock_text(double seconds);

}  // namespace pellucid::cli::train
