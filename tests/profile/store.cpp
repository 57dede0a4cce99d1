// The profile's file: what is written is read back; what is damaged, foreign or newer is refused
// with a sentence.
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "pellucid/pellucid.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"
#include "profile/packed.h"
#include "profile/recording_file.h"

namespace pellucid {
namespace {

using profile::Profile;

struct File {
  explicit File(const char* name)
      : path((std::filesystem::temp_directory_path() /
              (std::string("pellucid-test-") + name + std::to_string(getpid())))
                 .string()) {
    std::filesystem::remove(path);
  }
  ~File() { std::filesystem::remove(path); }
  std::string path;
};

Profile recorded() {
  ProfilerSession session;
  const RecordFunction scope("part; DROP TABLE event; --'\"");
  Tensor x = ones({3, 4}).requires_grad_();
  matmul(x, ones({4, 5})).sum().backward();
  return session.stop();
}

void run_sql(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

std::string message_of(const std::string& file) {
  try {
    Profile::load(file);
  } catch (const IoError& e) { return e.what(); }
  return "";
}

TEST_CASE("profile file: what is saved is loaded") {
  const File file("roundtrip");
  Profile p = recorded();
  p.run.event_cost = 12.5;
  p.run.scopes = 77;
  p.run.sample_cost = 4321.5;
  p.machine.cpu = "some CPU";
  p.machine.flops_one = p.machine.flops_all = p.machine.seconds = 1;
  p.machine.levels = {{"L1", 1024, {1, 2, 3}, {4, 5, 6}}};
  p.counters.push_back({"cycles", 0, "no hardware counters"});
  p.events[0].inputs = 0xfedcba98u;
  p.stalls = {{profile::Stall::Kind::PageFault, 10, 5, 0, 0},
              {profile::Stall::Kind::Waiting, 20, 0, 0, -1, 9},
              {profile::Stall::Kind::Preempted, 30, 7, 0, 1}};
  p.run.stalls_missing = "not permitted";
  p.run.stalls_lost = 3;
  p.run.notes = {"thread 7 is not recorded", "<b>\"\x1b"};
  p.save(file.path);
  const Profile q = Profile::load(file.path);
  CHECK(q.run.program == p.run.program);
  CHECK(q.run.event_cost == 12.5);
  CHECK(q.run.scopes == 77);
  CHECK(q.run.sample_cost == 4321.5);
  CHECK(q.run.peak_memory == p.run.peak_memory);
  CHECK(q.machine.cpu == "some CPU");
  CHECK(q.machine.levels.at(0).all.copy == 6);
  CHECK(q.counters.back().missing == "no hardware counters");
  CHECK(q.events[0].inputs == 0xfedcba98u);
  REQUIRE(q.stalls.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(q.stalls[i].kind == p.stalls[i].kind);
    CHECK(q.stalls[i].begin == p.stalls[i].begin);
    CHECK(q.stalls[i].duration == p.stalls[i].duration);
    CHECK(q.stalls[i].event == p.stalls[i].event);
    CHECK(q.stalls[i].count == p.stalls[i].count);
  }
  CHECK(q.run.stalls_missing == "not permitted");
  CHECK(q.run.stalls_lost == 3);
  CHECK(q.run.notes == p.run.notes);
  REQUIRE(q.events.size() == p.events.size());
  for (size_t i = 0; i < p.events.size(); ++i) {
    CHECK(q.events[i].begin == p.events[i].begin);
    CHECK(q.events[i].end == p.events[i].end);
    CHECK(q.events[i].self == p.events[i].self);
    CHECK(q.events[i].parent == p.events[i].parent);
    CHECK(q.events[i].forward == p.events[i].forward);
    CHECK(q.events[i].phase == p.events[i].phase);
    CHECK(q.events[i].allocated == p.events[i].allocated);
  }
  REQUIRE(q.signatures.size() == p.signatures.size());
  for (size_t i = 0; i < p.signatures.size(); ++i) {
    CHECK(q.signatures[i].name == p.signatures[i].name);
    CHECK(q.signatures[i].kind == p.signatures[i].kind);
    CHECK(q.signatures[i].flops == p.signatures[i].flops);
    REQUIRE(q.signatures[i].inputs.size() == p.signatures[i].inputs.size());
    for (size_t k = 0; k < p.signatures[i].inputs.size(); ++k) {
      CHECK(q.signatures[i].inputs[k].sizes == p.signatures[i].inputs[k].sizes);
      CHECK(q.signatures[i].inputs[k].dtype == p.signatures[i].inputs[k].dtype);
    }
  }
  CHECK(q.allocations.size() == p.allocations.size());
}

// What version 5 added, and what version 4 added to the table of blocks.
constexpr const char* kWithoutPacked =
    "DROP TABLE packed; DROP TABLE source; DROP TABLE use; "
    "ALTER TABLE allocation DROP COLUMN address; ";
constexpr const char* kWithoutOrder =
    "DROP TABLE packed; DROP TABLE source; DROP TABLE use; "
    "ALTER TABLE allocation DROP COLUMN address; DELETE FROM allocation WHERE before; ALTER TABLE "
    "allocation DROP COLUMN before; "
    "ALTER TABLE allocation DROP COLUMN \"order\"; "
    "ALTER TABLE allocation DROP COLUMN freed_order; ";

TEST_CASE("profile file: one of version 1 has neither stalls nor inputs") {
  const File file("first");
  const Profile p = recorded();
  p.save(file.path);
  run_sql(file.path,
          std::string(kWithoutOrder) +
              "DROP TABLE stall; ALTER TABLE event DROP COLUMN inputs; PRAGMA user_version=1");
  const Profile q = Profile::load(file.path);
  CHECK(q.events.size() == p.events.size());
  CHECK(q.events[0].inputs == 0);
  CHECK(q.stalls.empty());
}

TEST_CASE("profile file: one of version 2 has no number of stalls") {
  const File file("second");
  Profile p = recorded();
  p.stalls = {{profile::Stall::Kind::Waiting, 20, 3, 0, -1}};
  p.save(file.path);
  run_sql(file.path, std::string(kWithoutOrder) +
                         "ALTER TABLE stall DROP COLUMN count; PRAGMA user_version=2");
  const Profile q = Profile::load(file.path);
  REQUIRE(q.stalls.size() == 1);
  CHECK(q.stalls[0].count == 1);
  CHECK(q.stalls[0].duration == 3);
}

TEST_CASE("profile file: one of version 3 has no order of blocks, and times decide") {
  const File file("third");
  const Profile p = recorded();
  p.save(file.path);
  run_sql(file.path, std::string(kWithoutOrder) + "PRAGMA user_version=3");
  const Profile q = Profile::load(file.path);
  CHECK(q.run.memory_at_start == p.run.memory_at_start);
  for (const profile::Allocation& a : q.allocations) CHECK(a.order == -1);
  for (const profile::ReportTable& t : profile::report(q, "peak"))
    for (const auto& row : t.rows) CHECK(row[1].number >= 0);
}

TEST_CASE("profile file: one of version 4 has neither sources nor packed columns") {
  const File file("fourth");
  const Profile p = recorded();
  p.save(file.path);
  run_sql(file.path, std::string(kWithoutPacked) + "PRAGMA user_version=4");
  const Profile q = Profile::load(file.path);
  CHECK(q.run.format == 4);
  CHECK(q.events.size() == p.events.size());
  CHECK(q.sources.empty());
  REQUIRE(!q.allocations.empty());
  CHECK(q.allocations[0].address == 0);
  CHECK(profile::verify(file.path).find("version 4") != std::string::npos);
}

TEST_CASE("profile file: rows and packed columns are the same") {
  const File file("packed");
  const Profile p = recorded();
  p.save(file.path);
  const Profile fast = Profile::load(file.path);
  CHECK(profile::verify(file.path).find("the same") != std::string::npos);
  run_sql(file.path, "DELETE FROM packed WHERE name = 'event.self'");
  const Profile slow = Profile::load(file.path);  // from the rows, since a column is missing
  REQUIRE(fast.events.size() == slow.events.size());
  for (size_t i = 0; i < slow.events.size(); ++i) {
    const profile::Event &a = fast.events[i], &b = slow.events[i];
    CHECK(std::tie(a.begin, a.end, a.parent, a.signature, a.thread, a.site, a.module, a.forward) ==
          std::tie(b.begin, b.end, b.parent, b.signature, b.thread, b.site, b.module, b.forward));
    CHECK(std::tie(a.stack, a.step, a.self, a.allocated, a.freed, a.inputs, a.phase, a.threw,
                   a.open) == std::tie(b.stack, b.step, b.self, b.allocated, b.freed, b.inputs,
                                       b.phase, b.threw, b.open));
  }
  REQUIRE(fast.allocations.size() == slow.allocations.size());
  for (size_t i = 0; i < slow.allocations.size(); ++i) {
    const profile::Allocation &a = fast.allocations[i], &b = slow.allocations[i];
    CHECK(std::tie(a.begin, a.end, a.bytes, a.event, a.freed_by, a.thread, a.category) ==
          std::tie(b.begin, b.end, b.bytes, b.event, b.freed_by, b.thread, b.category));
    CHECK(std::tie(a.before, a.address, a.order, a.freed_order) ==
          std::tie(b.before, b.address, b.order, b.freed_order));
  }
}

TEST_CASE("profile file: --verify finds what differs") {
  const File file("verify");
  const auto differs = [&](const char* sql) {
    recorded().save(file.path);
    run_sql(file.path, sql);
    try {
      profile::verify(file.path);
    } catch (const IoError& e) { return std::string(e.what()); }
    return std::string();
  };
  CHECK(differs("SELECT 1").empty());
  CHECK(differs("UPDATE event SET self = self + 1 WHERE id = 1").find("event.self") !=
        std::string::npos);
  CHECK(differs("DELETE FROM packed WHERE name = 'event.end'").find("event.end") !=
        std::string::npos);
  CHECK(differs("UPDATE packed SET checksum = 7 WHERE name = 'allocation.bytes'")
            .find("allocation.bytes") != std::string::npos);
  CHECK(
      differs("UPDATE packed SET rows = rows + 1 WHERE name = 'event.begin'").find("event.begin") !=
      std::string::npos);
  CHECK(differs("INSERT INTO packed VALUES('more', 0, 0, x'')").find("no profile has") !=
        std::string::npos);
}

TEST_CASE("profile file: packed columns that are damaged are not believed") {
  const File file("hostile-packed");
  const Profile p = recorded();
  // With the right checksum, so that it is the numbers that are checked.
  const auto load_with = [&](const std::vector<profile::PackedColumn>& columns) {
    Profile q;
    return profile::unpack(columns, q) ? q.events.size() : SIZE_MAX;
  };
  const auto columns = profile::pack(p);
  CHECK(load_with(columns) == p.events.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    auto bad = columns;
    bad[c].rows += 1;
    CHECK(load_with(bad) == SIZE_MAX);
    bad = columns;
    bad[c].rows = INT64_MAX;
    CHECK(load_with(bad) == SIZE_MAX);
    bad = columns;
    bad[c].rows = -1;
    CHECK(load_with(bad) == SIZE_MAX);
    bad = columns;
    bad[c].bytes.pop_back();
    CHECK(load_with(bad) == SIZE_MAX);
    bad = columns;
    bad.erase(bad.begin() + static_cast<std::ptrdiff_t>(c));
    CHECK(load_with(bad) == SIZE_MAX);
  }
  // What it says about references is checked as rows are.
  Profile wrong = p;
  wrong.events[1].signature = 100'000;
  wrong.save(file.path);
  CHECK(message_of(file.path).find("it has no signature 100000") != std::string::npos);
}

TEST_CASE("profile file: blocks that are freed before they are taken are refused") {
  const File file("order");
  recorded().save(file.path);
  run_sql(file.path,
          "DELETE FROM packed; UPDATE allocation SET freed_order = \"order\" WHERE \"end\" >= 0");
  CHECK(message_of(file.path).find("a block is freed before it is taken") != std::string::npos);
}

TEST_CASE("profile file: missing, foreign, newer and damaged files") {
  const File file("bad");
  CHECK(message_of(file.path).find("could not be read") != std::string::npos);
  CHECK(message_of("/tmp").find("is no file") != std::string::npos);
  std::ofstream(file.path) << "this is no database, but it is long enough to look at\n"
                           << std::string(2000, 'x');
  CHECK(message_of(file.path).find("is no profile") != std::string::npos);
  std::filesystem::remove(file.path);
  run_sql(file.path, "CREATE TABLE t(x)");
  CHECK(message_of(file.path).find("no profile of pellucid") != std::string::npos);

  const Profile p = recorded();
  CHECK_THROWS_AS(p.save(file.path), IoError);  // nor is it replaced by one
  std::filesystem::remove(file.path);
  p.save(file.path);
  CHECK(message_of(file.path).empty());
  run_sql(file.path, "PRAGMA user_version=99");
  CHECK(message_of(file.path).find("version 99") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "DELETE FROM packed; UPDATE event SET signature = 100000 WHERE id = 1");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "DELETE FROM packed; UPDATE event SET parent = 5 WHERE id = 1");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "UPDATE signature SET inputs = '{'");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "INSERT INTO stall VALUES (NULL, 'waiting', 1, 1, 0, 100000, 1)");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "INSERT INTO stall VALUES (NULL, 'waiting', 1, 1, 0, -1, 0)");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "UPDATE run SET value = '[1' WHERE key = 'notes'");
  CHECK(message_of(file.path).find("damaged") != std::string::npos);
  p.save(file.path);
  run_sql(file.path, "DROP TABLE frame");
  CHECK_FALSE(message_of(file.path).empty());
}

TEST_CASE("profile file: cut or changed anywhere, it loads or is refused") {
  const File file("cut"), copy("cut-copy");
  recorded().save(file.path);
  std::ifstream stream(file.path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  for (size_t k = 0; k < 300; ++k) {
    std::string changed = bytes;
    const size_t at = k * 7919 % bytes.size();
    if (k % 3 == 0)
      changed.resize(at);
    else
      changed[at] = static_cast<char>(changed[at] ^ (1 << k % 8));
    std::ofstream(copy.path, std::ios::binary | std::ios::trunc) << changed;
    try {
      Profile::load(copy.path);
    } catch (const IoError&) {}
  }
}

TEST_CASE("profile file: a folder that cannot be written") {
  CHECK_THROWS_AS(recorded().save("/nonexistent/folder/p.pellucid"), IoError);
}

}  // namespace
}  // namespace pellucid
