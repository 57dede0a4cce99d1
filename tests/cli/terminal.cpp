// What commands write: escape sequences of others are shown, the program's own colours pass.
#include "cli/terminal.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "cli/app.h"
#include "cli/text.h"
#include "pellucid/error.h"

using namespace pellucid;
using namespace pellucid::cli;

namespace {

std::string filtered(const std::string& text) {
  SafeStream stream(stderr);
  return stream.filter(text, true);
}

int run_print(const Args& args) {
  fmt::print(args.out, "{}", args.words.at(0));
  PELLUCID_CHECK(args.words.size() < 2, ValueError, "print: not '{}'", args.words[1]);
  return 0;
}

constexpr Command kPrint{
    .name = "print", .summary = "Print", .description = "", .examples = "", .run = run_print};
constexpr const Command* kCommands[] = {&kPrint};

std::string output_of(const std::vector<std::string>& words) {
  const AppInfo app{
      .name = "app", .version = "1", .summary = "", .examples = "", .commands = kCommands};
  char* text = nullptr;
  size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  run_app(app, words, stream, stream);
  std::fclose(stream);
  std::string out(text, size);
  std::free(text);
  return out;
}

}  // namespace

TEST_CASE("terminal: control characters, reordering and broken bytes are shown") {
  CHECK(filtered("plain äöü 漢字 🙂\n\ttab") == "plain äöü 漢字 🙂\n\ttab");
  CHECK(filtered("\x1b]0;title\a\x1b[2J\x1b[31mred\x1b[0m") ==
        "\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\x1b[0m");
  CHECK(filtered("a\rb\bc\x7f") == "a\\x0db\\x08c\\u007f");
  CHECK(filtered("line\r\nline\r\n") == "line\nline\n");
  CHECK(filtered("C1 \u009b31m \u0085") == "C1 \\u009b31m \\u0085");
  CHECK(filtered("\u202eabc\u2066\u200f\u2028") == "\\u202eabc\\u2066\\u200f\\u2028");
  CHECK(filtered("\xff\xc3(\xe2\x82") == "\ufffd\ufffd(\ufffd\ufffd");
  CHECK(filtered(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("terminal: characters and codes that come in parts") {
  SafeStream stream(stderr);
  const std::string text = "ä漢🙂" + paint("x", Color::Red, true) + "\r\n\x1b[31m";
  std::string out;
  for (const char c : text) out += stream.filter(std::string(1, c));
  out += stream.filter("", true);
  CHECK(out == "ä漢🙂\x1b[31mx\x1b[0m\n\\x1b[31m");
}

TEST_CASE("terminal: only this process can colour") {
  CHECK(filtered(paint("x", Color::Green, true)) == "\x1b[32mx\x1b[0m");
  CHECK(filtered("\x1b[32;1m") == "\\x1b[32;1m");
  CHECK(filtered("\x1b[32;" + color_code() + "0m") != "\x1b[32m");
}

TEST_CASE("terminal: a command's output, its errors and errors of wrong usage") {
  CHECK(output_of({"print", "a\x1b[2Jb\n"}) == "a\\x1b[2Jb\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"print", "", "\x1b[2J"}, {"\x1b[2J"}, {"--\x1b[2J"}}) {
    const std::string out = output_of(words);
    INFO(out);
    CHECK(out.find('\x1b') == std::string::npos);
    CHECK(out.find("\\x1b[2J") != std::string::npos);
  }
}

TEST_CASE("errors: names in messages cannot control a terminal") {
  try {
    detail::raise<ValueError>("no tensor '{}'\nin\tit", "\x1b]0;x\a\u202e\xff");
  } catch (const Error& e) {
    CHECK(std::string(e.what()) == "no tensor '\\x1b]0;x\\x07\\u202e\ufffd'\nin\tit");
  }
}
