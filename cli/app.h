// The frame of the command line: a table of commands, their options (CLI11), help, errors and exit
// codes. A command writes data to args.out and messages to args.err, throws typed errors, and
// returns its exit code.
//
//   0  it worked        1  it failed: a pellucid::Error, a full disk        2  it was called
//   wrongly: UsageError
//
// A command is one file: a function and a `Command`, which commands/table.cpp names.
//
//   int run_graph(const Args& args) {
//     std::string expression;
//     bool json = false;
//     CommandLine line(args);
//     line.add_option("EXPR", expression, "What to compute")->required();
//     line.add_json(json);
//     line.read();                       // help, or a UsageError, leaves from here
//     …
//   }
//   extern const Command kGraph{.name = "graph", .summary = "Draw a computation graph", …, .run =
//   run_graph};
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/validators.h"
#include "pellucid/error.h"

namespace pellucid::cli {

struct Args;

struct Command {
  std::string_view name;
  std::string_view summary;      // one line without a full stop, for the list of commands
  std::string_view description;  // a paragraph or more, for --help
  std::string_view examples;     // one command a line, for --help
  std::string_view usage = {};   // where the arguments do not say it: one form a line
  int (*run)(const Args& args);
};

struct AppInfo {
  std::string_view name, version, summary;
  std::string_view examples;                 // one command a line, for the general help
  std::span<const Command* const> commands;  // `help` and `version` are added by run_app
};

/// What a command is called with.
struct Args {
  const AppInfo* app;
  const Command* command;
  std::vector<std::string> words;  // after the command's name
  std::FILE* out;
  std::FILE* err;
};

/// A command that was called wrongly: exit code 2, with a hint at --help.
class UsageError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// The options of one command, read into the caller's variables: CLI11 with our help, suggestions
/// and common options.
class CommandLine : public CLI::App {
 public:
  explicit CommandLine(const Args& args);
  /// CLI11's, with a check of the text that explains itself.
  template <class T>
  CLI::Option* add_option(const std::string& names, T& variable, const std::string& description) {
    CLI::Option* option = CLI::App::add_option(names, variable, description);
    if constexpr (kind_of<T>() != ValueKind::Text) option->check(of_kind(kind_of<T>()));
    return option;
  }
  /// An argument that the command reads by itself, for the help.
  void describe_argument(std::string term, std::string text) {
    described_.emplace_back(std::move(term), std::move(text));
  }
  /// The flag --json.
  void add_json(bool& json) { add_flag("--json", json, "Write JSON to standard output"); }
  /// Reads args.words. Leaves the command by an exception after --help, and throws UsageError for
  /// mistakes.
  void read();
  /// Usage, description, arguments, options and, last, examples.
  std::string help_text() const;

 private:
  void check_extras() const;
  [[noreturn]] void explain(const CLI::ParseError& error) const;
  const Args& args_;
  std::vector<std::pair<std::string, std::string>> described_;
  std::string color_;
};

/// The version of this build: "0.1.0".
std::string_view program_version();

/// Finds and runs the command that `words` (argv without the program) ask for. Never throws;
/// returns the exit code.
int run_app(const AppInfo& app, const std::vector<std::string>& words, std::FILE* out,
            std::FILE* err);

}  // namespace pellucid::cli
