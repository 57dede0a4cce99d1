// The viewer's playground: what it answers, and that it ends what takes too long or too much.
#include "cli/view/playground.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "pellucid/error.h"
#include "temporary.h"

using namespace pellucid;
using cli::view::Playground;
using test::TemporaryFolder;

namespace {

// A stand-in for the command: what it is given is a script's business.
std::string script(const TemporaryFolder& folder, const std::string& text) {
  std::string file = folder / "pellucid";
  test::write_bytes(file, "#!/bin/sh\n" + text);
  chmod(file.c_str(), 0755);
  return file;
}

}  // namespace

TEST_CASE("playground: the command gets the expression and its inputs as arguments") {
  const TemporaryFolder folder;
  const Playground p(script(folder, "for a; do echo \"<$a>\"; done; echo $PELLUCID_MEMORY_LIMIT"));
  CHECK(p.answer(R"~({"expression": "x; $(touch y)", "inputs": {"x": "2", "w": "[1, `3`]"}})~") ==
        "<step>\n<--json>\n<--layout>\n<-->\n<x; $(touch y)>\n<x=2>\n<w=[1, `3`]>\n1073741824\n");
}

TEST_CASE("playground: what goes wrong becomes a sentence") {
  const TemporaryFolder folder;
  const Playground p(
      script(folder, "echo 'pellucid step: error: unknown name q' >&2; echo more >&2; exit 1"));
  CHECK_THROWS_WITH_AS(p.answer(R"({"expression": "q"})"), "unknown name q", ValueError);
  const Playground killed(script(folder, "kill -9 $$"));
  CHECK_THROWS_WITH_AS(killed.answer(R"({"expression": "q"})"),
                       "The evaluation ended without a result.", ValueError);
  for (const char* bad :
       {"", "7", "[]", "{}", R"({"expression": 7})", "{\"expression\": ",
        R"({"expression": "x", "inputs": []})", R"({"expression": "x", "inputs": {"x": 1}})",
        R"({"expression": "x", "inputs": {"--out": "1"}})", R"({"expression": "x\u0000y"})"})
    CHECK_THROWS_AS(p.answer(bad), ValueError);
}

TEST_CASE("playground: it ends what does not end, or prints without end") {
  const TemporaryFolder folder;
  Playground p(script(folder, "exec sleep 1000"));
  p.seconds = 0.2;
  CHECK_THROWS_WITH_AS(p.answer(R"({"expression": "x"})"),
                       "The expression took longer than 0.2 s and was stopped.", ValueError);
  const Playground loud(script(folder, "exec yes"));
  CHECK_THROWS_WITH_AS(loud.answer(R"({"expression": "x"})"),
                       "The values of the expression are too many to show.", ValueError);
}

TEST_CASE("playground: one evaluation at a time") {
  const TemporaryFolder folder;
  Playground p(script(folder, "echo begun > " + (folder / "begun") + "; while [ ! -e " +
                                  (folder / "go") + " ]; do sleep 0.05; done"));
  p.seconds = 300;
  std::string first;
  std::thread other([&] { first = p.answer(R"({"expression": "x"})") + "done"; });
  while (test::read_bytes(folder / "begun").empty()) std::this_thread::yield();
  CHECK_THROWS_WITH_AS(p.answer(R"({"expression": "y"})"), doctest::Contains("Another expression"),
                       ValueError);
  test::write_bytes(folder / "go", "");
  other.join();
  CHECK(first == "done");
}
