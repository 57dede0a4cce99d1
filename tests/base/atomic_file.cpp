// Saving: whoever reads a path sees a whole file, whoever saves it at the same time, and whatever
// ends a saver; what is not a saver's own stays as it is.
#include "base/atomic_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/file_lock.h"
#include "base/files.h"
#include "pellucid/error.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::io;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

namespace {

/// A file that knows whether it is whole: one letter, all of one length.
std::string text_of_saver(int saver) {
  return std::string(static_cast<size_t>(20'000 + 977 * saver),
                     static_cast<char>('a' + saver % 26));
}

bool is_whole(const std::string& text) {
  return !text.empty() && text.find_first_not_of(text[0]) == std::string::npos &&
         text.size() == text_of_saver(text[0] - 'a').size();
}

/// Saves in parts, so that a torn file would show.
void save(const std::string& path, int saver) {
  const std::string text = text_of_saver(saver);
  AtomicFile file("test", path);
  for (size_t at = 0; at < text.size(); at += 4096)
    file.write(std::string_view(text).substr(at, 4096));
  file.commit();
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder))
    names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Reads the path until `done`; how many of the reads were not whole.
int torn_reads(const std::string& path, const std::atomic<bool>& done, int& reads) {
  int torn = 0;
  for (reads = 0; !done || reads < 10; ++reads) torn += !is_whole(read_bytes(path));
  return torn;
}

}  // namespace

TEST_CASE("atomic file: processes that save one path at once never tear it") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  save(path, 0);
  std::vector<pid_t> savers;
  for (int i = 0; i < 6; ++i) {
    savers.push_back(fork());
    if (savers.back() == 0) {
      int code = 0;
      try {
        for (int k = 0; k < 15; ++k) save(path, i);
      } catch (...) { code = 1; }
      _exit(code);
    }
  }
  std::atomic<bool> done{false};
  std::thread waits([&] {
    for (const pid_t saver : savers) {
      int status = 0;
      waitpid(saver, &status, 0);
      CHECK(status == 0);
    }
    done = true;
  });
  int reads = 0;
  CHECK(torn_reads(path, done, reads) == 0);
  waits.join();
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("atomic file: threads that save one path at once never tear it") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  save(path, 0);
  std::atomic<int> left{6}, failed{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> savers;
  for (int i = 0; i < 6; ++i)
    savers.emplace_back([&, i] {
      try {
        for (int k = 0; k < 15; ++k) save(path, i);
      } catch (const std::exception&) { ++failed; }
      if (--left == 0) done = true;
    });
  int reads = 0;
  CHECK(torn_reads(path, done, reads) == 0);
  for (std::thread& t : savers) t.join();
  CHECK(failed == 0);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file"});
}

TEST_CASE("atomic file: what killed savers left is removed, what living ones write is not") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  save(path, 1);
  // Some are in the middle of a save at the same time, then they are killed.
  std::vector<pid_t> savers;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  for (int i = 0; i < 5; ++i) {
    savers.push_back(fork());
    if (savers.back() == 0) {
      AtomicFile file("test", path);
      file.write("half of ");
      [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
      for (;;) pause();
    }
  }
  for (int i = 0; i < 5; ++i) {
    char c = 0;
    REQUIRE(read(ready[0], &c, 1) == 1);
  }
  CHECK(names_in(folder.path()).size() == 6);
  save(path, 2);
  CHECK(names_in(folder.path()).size() == 6);  // they live
  for (const pid_t saver : savers) kill(saver, SIGKILL);
  for (const pid_t saver : savers) waitpid(saver, nullptr, 0);
  CHECK(read_bytes(path) == text_of_saver(2));
  save(path, 3);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"file"});
  CHECK(read_bytes(path) == text_of_saver(3));
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("atomic file: planted files decide nothing, and foreign ones stay") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_bytes(folder / "victim", "untouched");
  const std::string planted = folder / ".file.pellucid-0.tmp";
  std::filesystem::create_symlink("victim", planted);
  std::filesystem::create_directory(folder / ".file.pellucid-1.tmp");
  REQUIRE(mkfifo((folder / ".file.pellucid-2.tmp").c_str(), 0666) == 0);
  write_bytes(path + ".tmp", "somebody else's");
  const mode_t before = umask(022);
  save(path, 4);
  umask(before);
  struct stat facts {};
  REQUIRE(lstat(path.c_str(), &facts) == 0);
  CHECK(S_ISREG(facts.st_mode));
  CHECK((facts.st_mode & 07777) == 0644);
  CHECK(is_whole(read_bytes(path)));
  CHECK(read_bytes(folder / "victim") == "untouched");
  CHECK(read_bytes(path + ".tmp") == "somebody else's");
  CHECK(std::filesystem::is_symlink(planted));
}

TEST_CASE("atomic file: what replaces a private file is private all the time") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_bytes(path, "secret");
  chmod(path.c_str(), 0600);
  AtomicFile file("test", path);
  struct stat facts {};
  REQUIRE(stat(file.temporary().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
}

TEST_CASE("atomic file: links, long names, devices and places that cannot be written") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("there", folder / "link");  // to nothing yet
  save(folder / "link", 5);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(is_whole(read_bytes(folder / "there")));
  const std::string name(255, 'n');
  save(folder / name, 6);
  CHECK(is_whole(read_bytes(folder / name)));
  CHECK_NOTHROW(write_file("test", "/dev/null", "text"));
  CHECK_THROWS_WITH_AS(write_file("test", "/dev/full", "text"), doctest::Contains("errno 28"),
                       IoError);
  CHECK_THROWS_WITH_AS(write_file("test", folder.path(), "text"), doctest::Contains("a folder"),
                       IoError);
  CHECK_THROWS_WITH_AS(write_file("test", folder / "no/file", "text"),
                       doctest::Contains("No such file"), IoError);
  CHECK_THROWS_AS(write_file("test", "", "text"), IoError);
  CHECK_THROWS_AS(write_file("test", std::string("a\0b", 3), "text"), IoError);
}

TEST_CASE("file lock: it names who has it, and whatever ends the holder releases it") {
  const TemporaryFolder folder;
  const std::string path = folder / "lock";
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const FileLock lock("test", path, "it", "");
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char c = 0;
  REQUIRE(read(ready[0], &c, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  std::string message;
  try {
    const FileLock lock("test", path, "the folder", "Try another.");
  } catch (const IoError& e) { message = e.what(); }
  CHECK(message.find("the folder is in use by process " + std::to_string(holder)) !=
        std::string::npos);
  CHECK(message.find(program_invocation_short_name) != std::string::npos);
  CHECK(message.find("Try another.") != std::string::npos);
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  {
    const FileLock lock("test", path, "it", "");
    CHECK_FALSE(FileLock::attempt(path).has_value());  // of one process, too
  }
  CHECK_FALSE(std::filesystem::exists(path));
  std::filesystem::create_symlink("victim", path);
  CHECK_THROWS_WITH_AS(FileLock("test", path, "it", ""), doctest::Contains("is a link"), IoError);
}

TEST_CASE("files: plain names and one file by two paths") {
  for (const char* name : {"a", "events.out.tfevents.1.host.2.0", "..."})
    CHECK(is_plain_name(name));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("/a"),
        std::string("a\0b", 3), std::string(300, 'a')})
    CHECK_FALSE(is_plain_name(name));
  const TemporaryFolder folder;
  write_bytes(folder / "a", "x");
  write_bytes(folder / "b", "x");
  std::filesystem::create_symlink("a", folder / "link");
  std::filesystem::create_hard_link(folder / "a", folder / "hard");
  CHECK(same_file(folder / "a", folder / "link"));
  CHECK(same_file(folder / "a", folder / "hard"));
  CHECK_FALSE(same_file(folder / "a", folder / "b"));
  CHECK_FALSE(same_file(folder / "a", folder / "none"));
  CHECK(same_file(folder / "none", folder.path() + "/./none"));
}
