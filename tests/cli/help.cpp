// Every command's help and every option's mistakes, read by a machine: plain sentences of ours with
// an example, and no text of the library that parses the words.
#include <doctest/doctest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cli/commands/commands.h"
#include "cli/text.h"

using namespace pellucid::cli;

namespace {

struct HelpOutcome {
  int code;
  std::string out, err;
};

HelpOutcome run_words(const std::vector<std::string>& words) {
  char *out = nullptr, *err = nullptr;
  size_t out_size = 0, err_size = 0;
  std::FILE* out_file = open_memstream(&out, &out_size);
  std::FILE* err_file = open_memstream(&err, &err_size);
  const AppInfo app{.name = "pellucid",
                    .version = "1.2.3",
                    .summary = "a test",
                    .examples = "pellucid version",
                    .commands = command_table()};
  const int code = run_app(app, words, out_file, err_file);
  std::fclose(out_file);
  std::fclose(err_file);
  HelpOutcome r{code, {out, out_size}, {err, err_size}};
  std::free(out);
  std::free(err);
  return r;
}

// The command lines that have a help of their own.
std::vector<std::vector<std::string>> all_forms() {
  std::vector<std::vector<std::string>> forms = {{"help"}, {"version"}};
  for (const Command* c : command_table()) forms.push_back({std::string(c->name)});
  for (const char* task : {"two-layer", "mnist", "resnet18", "gpt", "encoder"})
    forms.push_back({"train", task});
  return forms;
}

std::vector<std::string> words_with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string words_text(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  return out;
}

// An option as the help shows it: its names and what its value is called, "" for a flag.
struct ShownOption {
  std::vector<std::string> names;
  std::string value;
};

std::vector<ShownOption> options_of(const std::string& help) {
  static const std::regex shown(R"(^  +((?:-\w, )?--[\w-]+|-\w)( \[?([A-Z=]+)\]?)?(  .*)?$)");
  std::vector<ShownOption> out;
  for (const std::string& line : lines_in(help)) {
    std::smatch m;
    if (!std::regex_match(line, m, shown)) continue;
    ShownOption option;
    std::istringstream names(m[1]);
    for (std::string name; names >> name;) {
      if (name.back() == ',') name.pop_back();
      option.names.push_back(name);
    }
    option.value = m[3];
    out.push_back(option);
  }
  return out;
}

// Texts that only a library or a program's inside would write.
const std::regex kRaw(
    R"(INT\b|UINT|FLOAT|BOOLEAN|TEXT:|:\{|\{[a-z]+,|in \[\d|Flags\b|Could not|lexical|std::|Value .* not in|is required|required .* missing|not convert|arguments were not expected|Excludes|Requires:|%[sd])");

}  // namespace

TEST_CASE("help: every command's is plain, has examples and fits the page") {
  for (const auto& form : all_forms()) {
    const HelpOutcome r = run_words(words_with(form, {"--help"}));
    INFO(words_text(form) << "\n" << r.out);
    CHECK(r.code == 0);
    CHECK(r.err == "");
    CHECK(r.out.starts_with("Usage: pellucid " + form[0]));
    CHECK(r.out.find("\nExamples:\n  pellucid ") != std::string::npos);
    std::smatch raw;
    CHECK_FALSE(std::regex_search(r.out, raw, kRaw));
    for (const std::string& line : lines_in(r.out)) {
      INFO(line);
      CHECK(display_width(line) <= 100);
    }
    for (const ShownOption& option : options_of(r.out)) {
      INFO(words_text(option.names));
      CHECK((option.value.empty() || option.value != "TEXT" || form[0] == "generate"));
    }
  }
}

TEST_CASE("help: an example of a command calls it and names options that it has") {
  for (const auto& form : all_forms()) {
    const std::string help = run_words(words_with(form, {"--help"})).out;
    std::set<std::string> known;
    for (const ShownOption& o : options_of(help)) known.insert(o.names.begin(), o.names.end());
    bool examples = false;
    for (const std::string& line : lines_in(help)) {
      examples = examples || line == "Examples:";
      if (!examples || line.find("pellucid " + form[0] + " ") == std::string::npos) continue;
      const std::string own = line.substr(0, std::min(line.find(" -- "), line.find(" && ")));
      static const std::regex option(R"( (--[a-z][\w-]*))");
      for (std::sregex_iterator i(own.begin(), own.end(), option), end; i != end; ++i) {
        INFO(line);
        CHECK_MESSAGE(known.contains((*i)[1]), (*i)[1].str());
      }
    }
  }
}

TEST_CASE("help: options that the documents show are in the help") {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(__FILE__).parent_path().parent_path().parent_path();
  std::vector<fs::path> pages = {root / "README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::map<std::string, std::set<std::string>> known;
  for (const auto& form : all_forms())
    for (const ShownOption& o : options_of(run_words(words_with(form, {"--help"})).out))
      known[form[0]].insert(o.names.begin(), o.names.end());
  static const std::regex call(R"((?:^|[ `$])pellucid ([a-z]+)((?: [^`|#]*)?))");
  static const std::regex option(R"( (--[a-z][\w-]*))");
  int seen = 0;
  for (const fs::path& page : pages) {
    std::ifstream file(page);
    for (std::string line; std::getline(file, line);)
      for (std::sregex_iterator c(line.begin(), line.end(), call), end; c != end; ++c) {
        const std::string command = (*c)[1];
        if (!known.contains(command)) continue;
        const std::string words = (*c)[2];
        const std::string own = words.substr(0, words.find(" -- "));
        for (std::sregex_iterator o(own.begin(), own.end(), option); o != end; ++o) {
          ++seen;
          INFO(page << ": " << line);
          CHECK_MESSAGE(known[command].contains((*o)[1]), command << " " << (*o)[1].str());
        }
      }
  }
  CHECK(seen > 20);
}

TEST_CASE("help: a wrong value of any option is told in a sentence with an example") {
  const std::set<std::string> numbers = {"N",    "T",     "K",    "P",      "R",     "HZ",
                                         "RATE", "SHARE", "NORM", "PIXELS", "DEPTH", "BYTES"};
  int missing = 0, bad = 0;
  for (const auto& form : all_forms())
    for (const ShownOption& option : options_of(run_words(words_with(form, {"--help"})).out))
      for (const std::string& name : option.names) {
        if (name == "--help" || name == "-h") continue;
        const auto check = [&](const std::vector<std::string>& words) {
          const HelpOutcome r = run_words(words);
          INFO(words_text(words) << "\n" << r.err);
          CHECK(r.code == 2);
          CHECK(r.out == "");
          std::smatch raw;
          CHECK_FALSE(std::regex_search(r.err, raw, kRaw));
          CHECK(r.err.find(name) != std::string::npos);
          CHECK(r.err.find("Try 'pellucid " + form[0] + " --help'.") != std::string::npos);
          const bool example = r.err.find("for example: pellucid ") != std::string::npos ||
                               r.err.find("expected auto, always or never") != std::string::npos;
          CHECK(example);
        };
        if (option.value.empty()) {
          if (name.starts_with("--")) check(words_with(form, {name + "=maybe"}));
          continue;
        }
        if (name != "--sample") {  // whose value may be left out
          check(words_with(form, {name}));
          ++missing;
        }
        if (numbers.contains(option.value)) {
          for (const std::string wrong : {"abc", "1x", "nan", "", "--1"})
            if (!wrong.empty() || name != "--sample") check(words_with(form, {name + "=" + wrong}));
          ++bad;
        }
      }
  CHECK(missing > 50);
  CHECK(bad > 20);
}

TEST_CASE("help: numbers outside their range name the range") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"estimate", "gpt2", "--batch", "0"}, "--batch: expected a number of at least 1, found '0'"},
      {{"estimate", "gpt2", "--batch", "-3"},
       "--batch: expected a number of at least 1, found '-3'"},
      {{"estimate", "gpt2", "--batch", "99999999999999999999"}, "--batch: expected a whole number"},
      {{"estimate", "gpt2", "--dtype", "float23"},
       "--dtype: expected float32, float64, float16 or bfloat16, found 'float23'; did you mean"},
      {{"profile", "--sample", "0", "--", "true"},
       "--sample: expected a number from 1 to 10,000, found '0'"},
      {{"profile", "--sample", "many", "--", "true"}, "--sample: expected a whole number"},
      {{"profile", "--limit", "lots", "--", "true"}, "--limit: expected a number of bytes"},
      {{"profile", "--count", "--trace", "--", "true"}, "choose one"},
      {{"profile", "--batch", "2", "--", "true"}, "--batch: this option is for a model"},
      {{"profile", "mnist-cnn", "--count"}, "--count: this option is for recording a program"},
      {{"profile"}, "give the program to run after --"},
      {{"profile", "--"}, "give the program to run after --"},
      {{"doctor", "--fresh", "--replace"}, "choose one"},
      {{"generate", "--model", "m", "--top-p", "2"},
       "--top-p: expected a number above 0 and at most 1, found '2'"},
      {{"generate", "--model", "m", "--seed", "-1"}, "--seed: expected a whole number from 0"},
      {{"train", "gpt", "--dropout", "1.5"}, "--dropout: expected a number from 0 to 0.9"},
      {{"train", "gpt", "--tokenizer", "gpt3"},
       "--tokenizer: expected characters or gpt2, found 'gpt3'; did you mean 'gpt2'?"},
      {{"report", "p", "--format", "xml"}, "--format: expected text, json or csv, found 'xml'"},
      {{"report", "p", "--limit", "-1"}, "--limit: expected a number of at least 0"},
      {{"export", "p", "--format", "xml"}, "--format: expected chrome, speedscope"},
      {{"graph", "x", "--rankdir", "XY"}, "--rankdir: expected LR or TB, found 'XY'"},
      {{"time"}, "EXPR is missing (What to time"},
      {{"time", "x", "-r", "2", "-r", "3"}, "--repeat was given 2 times; give it once"}};
  for (const auto& [words, expected] : cases) {
    const HelpOutcome r = run_words(words);
    INFO(words_text(words) << "\n" << r.err);
    CHECK(r.code == 2);
    CHECK(r.err.find(expected) != std::string::npos);
  }
}

TEST_CASE("help: profile shows both of its forms and all of their options") {
  std::string help;  // in one line, wherever it was wrapped
  for (const char c : run_words({"profile", "--help"}).out)
    if (!std::isspace(static_cast<unsigned char>(c)))
      help += c;
    else if (!help.ends_with(' '))
      help += ' ';
  INFO(help);
  for (const char* part :
       {"Usage: pellucid profile [OPTIONS] -- PROGRAM [ARGS...]",
        "pellucid profile MODEL [OPTIONS]", "-- PROGRAM [ARGS...]", "--input SIZES",
        "--machine RATES", "--sample [HZ]", "(from 1 to 10,000; default 199)"})
    CHECK(help.find(part) != std::string::npos);
}
