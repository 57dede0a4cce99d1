// Dispatch, help and the one place where exceptions become messages and exit codes.
#include "cli/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include "cli/text.h"

#ifndef PELLUCID_VERSION
#define PELLUCID_VERSION "development"
#endif

namespace pellucid::cli {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;

// Leaves a command that has nothing more to do, as after --help.
struct Finished {
  int exit_code;
};

// Unlike fmt::print this does not throw: it reports errors, also when the stream is the error.
void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

std::string indented(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    out += line.empty() ? "\n" : fmt::format("  {}\n", line);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

// Term and explanation in two columns; the second is wrapped at the terminal's width.
std::string two_columns(const std::vector<std::pair<std::string, std::string>>& rows, int width) {
  int widest = 0;
  for (const auto& row : rows) widest = std::max(widest, display_width(row.first));
  const int second = std::min(widest, 28) + 4;
  std::string out;
  for (const auto& [term, text] : rows) {
    out += "  " + term;
    const int used = 2 + display_width(term);
    if (used + 2 > second)
      out += '\n' + std::string(static_cast<size_t>(second), ' ');
    else
      out.append(static_cast<size_t>(second - used), ' ');
    out += wrap(text, std::max(width, second + 20), second) + '\n';
  }
  return out;
}

bool repeats(const CLI::Option& option) { return option.get_expected_max() > 1; }

// "EXPR" or "[NAME=VALUE...]"
std::string positional_usage(const CLI::Option& option) {
  const std::string name = option.get_name(true) + (repeats(option) ? "..." : "");
  return option.get_required() ? name : "[" + name + "]";
}

// "-o, --output FILE"
std::string option_term(const CLI::Option& option) {
  std::string out;
  for (const std::string& s : option.get_snames()) out += (out.empty() ? "-" : ", -") + s;
  for (const std::string& l : option.get_lnames()) out += (out.empty() ? "    --" : ", --") + l;
  if (option.get_items_expected_max() > 0 && !option.get_type_name().empty())
    out += " " + option.get_type_name();
  return out;
}

// ---- the commands that the frame itself has

std::string general_help(const AppInfo& app);
std::vector<const Command*> all_commands(const AppInfo& app);
const Command& find_command(const AppInfo& app, std::string_view name);

int run_help(const Args& args) {
  std::string name;
  CommandLine line(args);
  line.add_option("COMMAND", name, "The command to explain");
  line.read();
  if (name.empty()) {
    put(args.out, general_help(*args.app));
    return kOk;
  }
  const Command& command = find_command(*args.app, name);
  return command.run({.app = args.app,
                      .command = &command,
                      .words = {"--help"},
                      .out = args.out,
                      .err = args.err});
}

int run_version(const Args& args) {
  bool json = false;
  CommandLine line(args);
  line.add_json(json);
  line.read();
  const AppInfo& app = *args.app;
  put(args.out,
      json ? fmt::format("{{\"name\": \"{}\", \"version\": \"{}\"}}\n", app.name, app.version)
           : fmt::format("{} {}\n", app.name, app.version));
  return kOk;
}

constexpr Command kHelp{.name = "help",
                        .summary = "Explain a command",
                        .description = "Explains a command, or lists all of them.",
                        .examples = "pellucid help\npellucid help version",
                        .run = run_help};
constexpr Command kVersion{.name = "version",
                           .summary = "Print the version",
                           .description = "Prints the name and the version.",
                           .examples = "pellucid version\npellucid version --json",
                           .run = run_version};

std::vector<const Command*> all_commands(const AppInfo& app) {
  std::vector<const Command*> out(app.commands.begin(), app.commands.end());
  out.push_back(&kHelp);
  out.push_back(&kVersion);
  return out;
}

std::string general_help(const AppInfo& app) {
  std::vector<std::pair<std::string, std::string>> commands;
  for (const Command* c : all_commands(app)) commands.emplace_back(c->name, c->summary);
  const int width = terminal_width();
  std::string out = fmt::format("{}: {}\n\nUsage: {} COMMAND [ARGUMENTS...]\n\nCommands:\n",
                                app.name, app.summary, app.name);
  out += two_columns(commands, width);
  out += "\nOptions:\n";
  out += two_columns({{"-h, --help", "Show this help"},
                      {"-V, --version", "Print the version"},
                      {"    --color WHEN", "auto, always or never; NO_COLOR is respected"}},
                     width);
  if (!app.examples.empty()) out += "\nExamples:\n" + indented(app.examples);
  return out;
}

const Command& find_command(const AppInfo& app, std::string_view name) {
  std::vector<std::string> names;
  for (const Command* c : all_commands(app)) {
    if (c->name == name) return *c;
    names.emplace_back(c->name);
  }
  throw UsageError(fmt::format("unknown command '{}'{}", name, did_you_mean(name, names)));
}

void choose_color(std::string_view when) {
  const auto mode = color_mode_from_name(when);
  if (!mode)
    throw UsageError(fmt::format("--color: expected auto, always or never, found '{}'", when));
  set_color_mode(*mode);
}

// ---- dispatch

// The options before the command's name; returns how many words they took.
size_t read_general_options(const AppInfo& app, const std::vector<std::string>& words,
                            std::FILE* out) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') return i;
    if (word == "-h" || word == "--help") {
      put(out, general_help(app));
      throw Finished{kOk};
    }
    if (word == "-V" || word == "--version") {
      put(out, fmt::format("{} {}\n", app.name, app.version));
      throw Finished{kOk};
    }
    if (word.starts_with("--color=")) {
      choose_color(std::string_view(word).substr(8));
    } else if (word == "--color") {
      if (i + 1 == words.size()) throw UsageError("--color: expected auto, always or never");
      choose_color(words[++i]);
    } else {
      throw UsageError(fmt::format("unknown option '{}'{}", word,
                                   did_you_mean(word, {"--help", "--version", "--color"})));
    }
  }
  return words.size();
}

int dispatch(const AppInfo& app, const std::vector<std::string>& words, std::FILE* out,
             std::FILE* err, std::string& who) {
  const size_t at = read_general_options(app, words, out);
  if (at == words.size()) {
    put(out, general_help(app));
    return kOk;
  }
  const Command& command = find_command(app, words[at]);
  who = fmt::format("{} {}", app.name, command.name);
  const Args args{.app = &app,
                  .command = &command,
                  .words = {words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end()},
                  .out = out,
                  .err = err};
  return command.run(args);
}

void report(std::FILE* err, std::string_view who, std::string_view message) {
  put(err, fmt::format("{}: {} {}\n", who, paint("error:", Color::Red, use_color(err)), message));
}

// What was written must have arrived. A reader that went away (as `head` does) is no news to
// anyone.
int finish_output(std::FILE* out, std::FILE* err, std::string_view who, int exit_code) {
  errno = 0;
  const bool failed = std::fflush(out) != 0 || std::ferror(out) != 0;
  if (!failed) return exit_code;
  if (errno != EPIPE) {
    const std::string reason = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
    report(err, who, fmt::format("cannot write to standard output{}", reason));
  }
  return exit_code == kOk ? kFailed : exit_code;
}

}  // namespace

CommandLine::CommandLine(const Args& args)
    : CLI::App(std::string(args.command->summary)), args_(args) {
  set_help_flag("-h,--help", "Show this help");
  add_option("--color", color_, "auto, always or never; NO_COLOR is respected")->type_name("WHEN");
}

void CommandLine::read() {
  std::vector<std::string> reversed(args_.words.rbegin(), args_.words.rend());  // CLI11's order
  try {
    parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    put(args_.out, help_text());
    throw Finished{kOk};
  } catch (const CLI::ParseError& e) {
    // A mistyped option is often the reason why something else is missing, so it is named first.
    check_extras();
    throw UsageError(e.what());
  }
  if (!color_.empty()) choose_color(color_);
}

void CommandLine::check_extras() const {
  const std::vector<std::string> extras = remaining();
  if (extras.empty()) return;
  const auto option = std::find_if(extras.begin(), extras.end(), [](const std::string& w) {
    return w.size() > 1 && w[0] == '-';
  });
  if (option == extras.end()) throw UsageError(fmt::format("unexpected argument '{}'", extras[0]));
  std::vector<std::string> known;
  bool takes_arguments = false;
  for (const CLI::Option* o : get_options()) {
    for (const std::string& l : o->get_lnames()) known.push_back("--" + l);
    takes_arguments = takes_arguments || o->get_positional();
  }
  const std::string name = option->substr(0, option->find('='));
  std::string hint = did_you_mean(name, known);
  if (hint.empty() && takes_arguments && !name.starts_with("--"))
    hint = "; put -- before an argument that begins with '-'";
  throw UsageError(fmt::format("unknown option '{}'{}", name, hint));
}

std::string CommandLine::help_text() const {
  std::vector<std::pair<std::string, std::string>> arguments, options, last_options;
  std::string usage;
  for (const CLI::Option* o : get_options()) {
    std::string text = o->get_description();
    if (!o->get_default_str().empty()) text += fmt::format(" (default {})", o->get_default_str());
    if (o->get_positional()) {
      usage += " " + positional_usage(*o);
      arguments.emplace_back(o->get_name(true), text);
      continue;
    }
    const bool common = o->check_name("--help") || o->check_name("--color");
    (common ? last_options : options).emplace_back(option_term(*o), text);
  }
  options.insert(options.end(), last_options.begin(), last_options.end());
  const int width = terminal_width();
  std::string out =
      fmt::format("Usage: {} {} [OPTIONS]{}\n\n", args_.app->name, args_.command->name, usage);
  out += wrap(args_.command->description, std::max(width, 40), 0) + "\n";
  if (!arguments.empty()) out += "\nArguments:\n" + two_columns(arguments, width);
  out += "\nOptions:\n" + two_columns(options, width);
  if (!args_.command->examples.empty()) out += "\nExamples:\n" + indented(args_.command->examples);
  return out;
}

std::string_view program_version() { return PELLUCID_VERSION; }

int run_app(const AppInfo& app, const std::vector<std::string>& words, std::FILE* out,
            std::FILE* err) {
  std::string who(app.name);
  int exit_code = kFailed;
  try {
    exit_code = dispatch(app, words, out, err, who);
  } catch (const Finished& f) { exit_code = f.exit_code; } catch (const UsageError& e) {
    report(err, who, e.what());
    put(err, fmt::format("Try '{} --help'.\n", who));
    exit_code = kUsage;
  } catch (const Error& e) { report(err, who, e.what()); } catch (const std::bad_alloc&) {
    report(err, who, "out of memory");
  } catch (const std::exception& e) {
    // A failed write to a full or closed output is reported below, not as a defect of ours.
    if (std::ferror(out) == 0)
      report(err, who, fmt::format("internal error, please report it: {}", e.what()));
  }
  return finish_output(out, err, who, exit_code);
}

}  // namespace pellucid::cli
