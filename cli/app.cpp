// Dispatch, help and the one place where exceptions become messages and exit codes.
#include "cli/app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>

#include "cli/terminal.h"
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

constexpr int kWidestHelp = 100;  // longer lines are hard to read

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string indented(std::string_view lines) {
  std::string out;
  for (const std::string& line : lines_of(lines))
    out += line.empty() ? "\n" : fmt::format("  {}\n", line);
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

// The name of an option's value: CLI11 appends what its checks say after a colon.
std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

// "-o, --output FILE"; "--sample [HZ]" where the value may be left out
std::string option_term(const CLI::Option& option) {
  std::string out;
  for (const std::string& s : option.get_snames()) out += (out.empty() ? "-" : ", -") + s;
  for (const std::string& l : option.get_lnames()) out += (out.empty() ? "    --" : ", --") + l;
  if (const std::string type = value_name(option); !type.empty())
    out += option.get_items_expected_min() == 0 ? " [" + type + "]" : " " + type;
  return out;
}

// What an option says of itself, with its limits and its default.
std::string option_text(const CLI::Option& option) {
  std::string out = option.get_description();
  const std::string type = option.get_type_name();
  std::vector<std::string> more;
  if (const size_t colon = type.find(':'); colon != std::string::npos)
    more.push_back(type.substr(colon + 1));
  if (!option.get_default_str().empty())
    more.push_back(fmt::format("default {}", option.get_default_str()));
  if (!more.empty()) out += fmt::format(" ({})", fmt::join(more, "; "));
  return out;
}

// The line of the examples that uses an option; the first one where none does.
std::string example_of(std::string_view examples, const CLI::Option* option) {
  const std::vector<std::string> lines = lines_of(examples);
  std::vector<std::string> names;
  if (option) {
    for (const std::string& s : option->get_snames()) names.push_back(fmt::format(" -{} ", s));
    for (const std::string& l : option->get_lnames()) names.push_back(fmt::format(" --{} ", l));
  }
  for (const std::string& line : lines)
    for (const std::string& name : names)
      if (fmt::format(" {} ", line).find(name) != std::string::npos) return line;
  return lines.empty() ? "" : lines.front();
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
  const int width = std::min(terminal_width(), kWidestHelp);
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
  option_defaults()->group("Options");
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
    explain(e);
  }
  if (!color_.empty()) choose_color(color_);
}

void CommandLine::explain(const CLI::ParseError& error) const {
  const std::string text = error.what();
  // CLI11 names the option first: "--batch: 1 required N missing", "MODEL is required".
  const std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* option = get_option_no_throw(name);
  std::string message = text;
  if (dynamic_cast<const CLI::RequiredError*>(&error)) {
    message = fmt::format("{} is missing", name);
    if (option) message += fmt::format(" ({})", option->get_description());
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) {
    message = option && value_name(*option).empty() ? fmt::format("{} takes no value", name)
                                                    : fmt::format("{}: a value is missing", name);
    if (option && option->count() > 1)
      message = fmt::format("{} was given {} times; give it once", name, option->count());
  } else if (dynamic_cast<const CLI::ConversionError*>(&error)) {
    const size_t at = text.find("--");
    const size_t end = std::min(text.find_first_of(" =:", at), text.size());
    if (at != std::string::npos)
      message = fmt::format("{} takes no value", text.substr(at, end - at));
  }
  const std::string example = example_of(args_.command->examples, option);
  if (!example.empty())
    message += fmt::format("{}or example: {}", message.ends_with('?') ? " F" : "; f", example);
  throw UsageError(message);
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
  using Rows = std::vector<std::pair<std::string, std::string>>;
  Rows arguments, common;
  std::vector<std::pair<std::string, Rows>> groups = {{"Options", {}}};  // in order of appearance
  std::string usage;
  for (const CLI::Option* o : get_options()) {
    if (o->get_positional()) {
      usage += " " + positional_usage(*o);
      arguments.emplace_back(o->get_name(true), option_text(*o));
      continue;
    }
    if (o->check_name("--help") || o->check_name("--color")) {
      common.emplace_back(option_term(*o), option_text(*o));
      continue;
    }
    const std::string& name = o->get_group();
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == name; });
    if (group == groups.end()) group = groups.insert(groups.end(), {name, {}});
    group->second.emplace_back(option_term(*o), option_text(*o));
  }
  arguments.insert(arguments.end(), described_.begin(), described_.end());
  groups.front().second.insert(groups.front().second.end(), common.begin(), common.end());
  const int width = std::min(terminal_width(), kWidestHelp);
  const std::string who = fmt::format("{} {}", args_.app->name, args_.command->name);
  std::string out = fmt::format("Usage: {} [OPTIONS]{}\n\n", who, usage);
  if (!args_.command->usage.empty()) {
    out.clear();
    for (const std::string& form : lines_of(args_.command->usage))
      out += fmt::format("{}{} {}\n", out.empty() ? "Usage: " : "       ", who, form);
    out += '\n';
  }
  out += wrap(args_.command->description, std::max(width, 40), 0) + "\n";
  if (!arguments.empty()) out += "\nArguments:\n" + two_columns(arguments, width);
  for (const auto& [name, rows] : groups)
    if (!rows.empty()) out += fmt::format("\n{}:\n{}", name, two_columns(rows, width));
  if (!args_.command->examples.empty()) out += "\nExamples:\n" + indented(args_.command->examples);
  return out;
}

std::string_view program_version() { return PELLUCID_VERSION; }

int run_app(const AppInfo& app, const std::vector<std::string>& words, std::FILE* raw_out,
            std::FILE* raw_err) {
  const SafeStream safe_out(raw_out), safe_err(raw_err);
  std::FILE *const out = safe_out.get(), *const err = safe_err.get();
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
