// The frame of the command line: exit codes, where messages go, help and suggestions.
#include "cli/app.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

using namespace pellucid;
using namespace pellucid::cli;

namespace {

int run_echo(const Args& args) {
  std::string word, mode = "plain";
  std::vector<std::string> values;
  int times = 1;
  bool json = false;
  CommandLine line(args);
  line.add_option("WORD", word, "What to say")->required();
  line.add_option("NAME=VALUE", values, "Values of names");
  line.add_option("-n,--times", times, "How often")->type_name("N")->capture_default_str();
  line.add_option("--mode", mode, "How")->check(CLI::IsMember({"plain", "loud"}));
  line.add_json(json);
  line.read();
  if (times < 0) throw UsageError("-n: expected a number from 0");
  for (int i = 0; i < times; ++i)
    std::fprintf(args.out, "%s%s\n", word.c_str(), json ? " json" : "");
  for (const std::string& v : values) std::fprintf(args.out, "%s\n", v.c_str());
  return 0;
}

int run_fail(const Args& args) {
  const std::string kind = args.words.empty() ? "" : args.words[0];
  if (kind == "shape") throw ShapeError("matmul: 3 is not 4");
  if (kind == "memory") throw std::bad_alloc();
  if (kind == "bug") throw std::logic_error("oops");
  return 1;
}

constexpr Command kEcho{.name = "echo",
                        .summary = "Say a word",
                        .description = "Says a word, once or more often.",
                        .examples = "app echo hello\napp echo hello -n 2",
                        .run = run_echo};
constexpr Command kFail{
    .name = "fail", .summary = "Fail", .description = "Fails.", .examples = "", .run = run_fail};
constexpr const Command* kTable[] = {&kEcho, &kFail};

struct Outcome {
  int code;
  std::string out, err;
};

// Collects a stream in memory.
class Capture {
 public:
  Capture() : file_(open_memstream(&data_, &size_)) {}
  ~Capture() {
    std::fclose(file_);
    std::free(data_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::FILE* file() const { return file_; }
  std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

const AppInfo kApp{.name = "app",
                   .version = "1.2.3",
                   .summary = "a test",
                   .examples = "app echo hello",
                   .commands = kTable};

Outcome run(const std::vector<std::string>& words) {
  Capture out, err;
  const int code = run_app(kApp, words, out.file(), err.file());
  return {code, out.text(), err.text()};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("app: data to out, exit code 0") {
  const Outcome r = run({"echo", "hello", "x=[1,2]", "-n", "2", "y=3"});
  CHECK(r.code == 0);
  CHECK(r.out == "hello\nhello\nx=[1,2]\ny=3\n");
  CHECK(r.err == "");
  CHECK(run({"echo", "--json", "a"}).out == "a json\n");
  CHECK(run({"echo", "[1, 2]"}).out == "[1, 2]\n");
  CHECK(run({"echo", "--", "-x*2"}).out == "-x*2\n");
}

TEST_CASE("app: wrong calls end in 2 with a message and a hint on err") {
  struct Case {
    std::vector<std::string> words;
    std::string err;
  };
  const std::vector<Case> cases = {
      {{"ehco"}, "app: error: unknown command 'ehco'; did you mean 'echo'?\nTry 'app --help'.\n"},
      {{"zzzzzz"}, "app: error: unknown command 'zzzzzz'\nTry 'app --help'.\n"},
      {{"--verson"},
       "app: error: unknown option '--verson'; did you mean '--version'?\nTry 'app --help'.\n"},
      {{"echo", "a", "--tims=3"},
       "app echo: error: unknown option '--tims'; did you mean '--times'?\nTry 'app echo "
       "--help'.\n"},
      {{"echo", "-x*2"},
       "app echo: error: unknown option '-x*2'; put -- before an argument that begins with "
       "'-'\nTry 'app echo --help'.\n"},
      {{"echo"},
       "app echo: error: WORD is missing (What to say); for example: app echo hello\nTry 'app echo "
       "--help'.\n"},
      {{"echo", "a", "-n", "many"},
       "app echo: error: --times: expected a whole number, found 'many'; for example: app echo "
       "hello -n 2\nTry 'app echo --help'.\n"},
      {{"echo", "a", "--json=maybe"},
       "app echo: error: --json takes no value; for example: app echo hello\nTry 'app echo "
       "--help'.\n"},
      {{"echo", "a", "-n", "-1"},
       "app echo: error: -n: expected a number from 0\nTry 'app echo --help'.\n"},
      {{"echo", "a", "--color", "pink"},
       "app echo: error: --color: expected auto, always or never, found 'pink'\nTry 'app echo "
       "--help'.\n"},
      {{"--color=pink", "echo", "a"},
       "app: error: --color: expected auto, always or never, found 'pink'\nTry 'app --help'.\n"},
      {{"--color"}, "app: error: --color: expected auto, always or never\nTry 'app --help'.\n"},
      {{"help", "ecoh"},
       "app help: error: unknown command 'ecoh'; did you mean 'echo'?\nTry 'app help --help'.\n"},
      {{"version", "now"},
       "app version: error: unexpected argument 'now'\nTry 'app version --help'.\n"},
  };
  for (const Case& c : cases) {
    INFO(c.err);
    const Outcome r = run(c.words);
    CHECK(r.code == 2);
    CHECK(r.out == "");
    CHECK(r.err == c.err);
  }
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"echo", "a", "-n", "two"}, {"echo", "a", "--mode", "odd"}, {"echo", "a", "-n"}}) {
    const Outcome r = run(words);
    CHECK(r.code == 2);
    CHECK(r.err.starts_with("app echo: error: "));
  }
}

TEST_CASE("app: a command that fails ends in 1") {
  const Outcome shape = run({"fail", "shape"});
  CHECK(shape.code == 1);
  CHECK(shape.out == "");
  CHECK(shape.err == "app fail: error: matmul: 3 is not 4\n");
  CHECK(run({"fail"}).code == 1);
  CHECK(run({"fail", "memory"}).err == "app fail: error: out of memory\n");
  CHECK(run({"fail", "memory"}).code == 1);
  CHECK(run({"fail", "bug"}).err == "app fail: error: internal error, please report it: oops\n");
  CHECK(run({"fail", "bug"}).code == 1);
}

TEST_CASE("app: help and version") {
  CHECK(run({"--version"}).out == "app 1.2.3\n");
  CHECK(run({"version"}).out == "app 1.2.3\n");
  CHECK(run({"version", "--json"}).out == "{\"name\": \"app\", \"version\": \"1.2.3\"}\n");
  const std::string general = run({"--help"}).out;
  CHECK(contains(general, "echo     Say a word"));
  CHECK(contains(general, "help     Explain a command"));
  CHECK(general.ends_with("Examples:\n  app echo hello\n"));
  for (const auto& words : std::vector<std::vector<std::string>>{{}, {"help"}, {"-h"}}) {
    const Outcome r = run(words);
    CHECK(r.code == 0);
    CHECK(r.out == general);
  }
  const Outcome help = run({"echo", "--help"});
  CHECK(help.code == 0);
  CHECK(help.out.starts_with(
      "Usage: app echo [OPTIONS] WORD [NAME=VALUE...]\n\nSays a word, once or more often.\n"));
  CHECK(contains(help.out, "  -n, --times N"));
  CHECK(contains(help.out, "How often (default 1)"));
  CHECK(help.out.ends_with("\nExamples:\n  app echo hello\n  app echo hello -n 2\n"));
  CHECK(run({"help", "echo"}).out == help.out);
}

TEST_CASE("app: output that cannot be written is an error") {
  std::FILE* full = std::fopen("/dev/full", "w");
  REQUIRE(full != nullptr);
  Capture err;
  CHECK(run_app(kApp, {"version"}, full, err.file()) == 1);
  CHECK(err.text() ==
        "app version: error: cannot write to standard output: No space left on device\n");
  std::fclose(full);
}
