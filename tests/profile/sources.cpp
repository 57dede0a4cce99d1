// The program's own source files and revision in its profile, and the blocks that ops of the chosen
// step use.
#include "profile/sources.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/sha256.h"
#include "pellucid/lazy.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "temporary.h"

using namespace pellucid;
using profile::BlockUse;
using profile::Profile;
using test::TemporaryFolder;

TEST_CASE("profile sources: own files are kept, others are not") {
  const TemporaryFolder folder;
  test::write_bytes(folder / "own.cpp", "int main() {}\n");
  test::write_bytes(folder / "large.cpp", std::string(1'000'001, ' '));
  test::write_bytes(folder / "binary.cpp", "\xff\xfe");
  std::filesystem::create_directories(folder / "site-packages");
  test::write_bytes(folder / "site-packages/other.py", "x = 1\n");
  std::filesystem::create_symlink("/proc/self/mem", folder / "device.cpp");
  Profile p;
  p.run.folder = folder.path();
  for (const std::string& file :
       {folder / "own.cpp", folder / "own.cpp", folder / "large.cpp", folder / "binary.cpp",
        folder / "site-packages/other.py", folder / "device.cpp", folder.path(),
        std::string("own.cpp"), std::string("/usr/include/stdio.h"), std::string("<string>"),
        std::string(), folder / "missing.cpp"})
    p.sites.push_back({.file = file, .line = 1});
  profile::add_sources(p);
  REQUIRE(p.sources.size() == 2);
  CHECK(p.sources[0].file == folder / "own.cpp");
  CHECK(p.sources[0].text == "int main() {}\n");
  CHECK(p.sources[0].hash == io::sha256("int main() {}\n"));
  CHECK(p.sources[1].file == "own.cpp");  // a relative name is below the program's folder
  for (const auto& s : p.sources) CHECK(profile::unchanged(s, p.run.folder));
  test::write_bytes(folder / "own.cpp", "int main() { return 1; }\n");
  for (const auto& s : p.sources) CHECK(!profile::unchanged(s, p.run.folder));
  std::filesystem::remove(folder / "own.cpp");  // that it changed cannot be told
  CHECK(profile::unchanged(p.sources[0], p.run.folder));
}

TEST_CASE("profile sources: the revision of a repository, its worktrees and packed names") {
  const TemporaryFolder folder;
  const std::string first(40, 'a'), second(40, 'b'), third(64, 'c');
  CHECK(profile::git_revision("").empty());
  CHECK(profile::git_revision(folder / "nowhere").empty());
  const std::string git = folder / ".git";
  std::filesystem::create_directories(git + "/refs/heads");
  std::filesystem::create_directories(folder / "deep/er");
  test::write_bytes(git + "/HEAD", "ref: refs/heads/main\n");
  CHECK(profile::git_revision(folder.path()).empty());  // no commit yet
  test::write_bytes(git + "/packed-refs", "# pack\n" + second + " refs/heads/main\n");
  CHECK(profile::git_revision(folder / "deep/er") == second);
  test::write_bytes(git + "/refs/heads/main", first + "\n");
  CHECK(profile::git_revision(folder.path()) == first);
  test::write_bytes(git + "/HEAD", third + "\n");
  CHECK(profile::git_revision(folder.path()) == third);
  test::write_bytes(git + "/HEAD", "ref: ../../../etc/passwd\n");
  CHECK(profile::git_revision(folder.path()).empty());
  std::filesystem::create_directories(git + "/worktrees/w");
  std::filesystem::create_directories(folder / "deep/w");
  test::write_bytes(folder / "deep/w/.git", "gitdir: " + git + "/worktrees/w\n");
  test::write_bytes(git + "/worktrees/w/HEAD", "ref: refs/heads/main\n");
  test::write_bytes(git + "/worktrees/w/commondir", "../..\n");
  CHECK(profile::git_revision(folder / "deep/w") == first);
}

namespace {

// Three steps of a small network; what the chosen one did.
Profile trained(int chosen, bool mark) {
  const LazyGuard outermost(false);  // of calls that run as a group no uses are recorded
  ProfilerSession session("", {.chosen_step = chosen});
  Tensor w = randn({8, 4}).requires_grad_();
  optim::SGD sgd({w}, optim::SGDOptions(0.1));
  for (int step = 0; step < 3; ++step) {
    if (mark) profile::begin_step();
    const Tensor x = randn({16, 8});
    const Tensor loss = relu(matmul(x, w)).sum();
    loss.backward();
    sgd.step();
    sgd.zero_grad();
  }
  if (mark) profile::end_step();
  return session.stop();
}

std::string op_of(const Profile& p, const BlockUse& use) {
  return p.signatures[static_cast<size_t>(p.events[static_cast<size_t>(use.event)].signature)].name;
}

}  // namespace

TEST_CASE("profile uses: the blocks that ops of one step read, write and save") {
  for (const bool mark : {false, true}) {
    CAPTURE(mark);
    CHECK(trained(0, mark).uses.empty());
    CHECK(trained(9, mark).uses.empty());
    for (const int chosen : {1, 2, 3}) {
      CAPTURE(chosen);
      const Profile p = trained(chosen, mark);
      std::map<std::string, int> reads, writes, saved;
      for (const BlockUse& use : p.uses) {
        (use.kind == BlockUse::Kind::Read    ? reads
         : use.kind == BlockUse::Kind::Write ? writes
                                             : saved)[op_of(p, use)]++;
        const profile::Allocation& a = p.allocations[static_cast<size_t>(use.allocation)];
        const profile::Event& e = p.events[static_cast<size_t>(use.event)];
        CHECK(a.address != 0);
        CHECK(a.begin <= e.end);
        CHECK((a.end < 0 || a.end >= e.begin));
        CHECK((use.kind == BlockUse::Kind::Saved) == !use.name.empty());
        if (mark && e.step >= 0)
          CHECK(e.step == chosen - 1);  // the first includes what came before
      }
      CHECK(writes["relu"] == 1);  // of one step, not of three
      CHECK(reads["relu"] == 1);
      CHECK(saved["relu"] == 1);
      // What relu read is what the product wrote.
      const auto find = [&](const char* op, BlockUse::Kind kind) {
        const auto it = std::find_if(p.uses.begin(), p.uses.end(), [&](const BlockUse& use) {
          return use.kind == kind && op_of(p, use) == op;
        });
        return it == p.uses.end() ? -1 : it->allocation;
      };
      const std::string product = writes.contains("mm") ? "mm" : "matmul";
      CHECK(find("relu", BlockUse::Kind::Read) == find(product.c_str(), BlockUse::Kind::Write));
    }
  }
}

TEST_CASE("profile facts: what the program states, and how it was started") {
  setenv("PELLUCID_TEST_FACT", "7", 1);
  const TemporaryFolder folder;
  const std::string file = folder / "p";
  {
    ProfilerSession session(file);
    profile::state_fact("run_folder", "/a");
    profile::state_fact("run_folder", "/b\"\n");
    ones({2});
    session.stop();
  }
  unsetenv("PELLUCID_TEST_FACT");
  const Profile p = Profile::load(file);
  CHECK(p.run.format == 5);
  REQUIRE(p.run.facts.size() == 1);
  CHECK(p.run.facts[0] == std::pair<std::string, std::string>("run_folder", "/b\"\n"));
  const std::pair<std::string, std::string> variable("PELLUCID_TEST_FACT", "7");
  CHECK(std::find(p.run.variables.begin(), p.run.variables.end(), variable) !=
        p.run.variables.end());
  CHECK(p.run.folder == std::filesystem::current_path().string());
}
