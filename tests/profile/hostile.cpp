// Profiles made to harm whoever reads them: valid SQLite with other tables, endless queries, absurd
// values. Each is loaded and can be reported, or is refused with a sentence, in bounded work.
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "pellucid/pellucid.h"
#include "pellucid/profile_report.h"
#include "pellucid/profiler.h"
#include "recorder/recorder.h"
#include "temporary.h"

using namespace pellucid;
using profile::Profile;
using test::read_bytes;
using test::TemporaryFolder;
using test::write_bytes;

namespace {

Profile recorded() {
  ProfilerSession session;
  const RecordFunction scope("part");
  Tensor x = ones({3, 4}).requires_grad_();
  matmul(x, ones({4, 5})).sum().backward();
  return session.stop();
}

/// Runs SQL on the file; whether all of it was done.
bool run_sql(const std::string& file, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  const bool done = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(db);
  return done;
}

/// Why the file is refused; "" if it is loaded.
std::string refusal(const std::string& file) {
  try {
    Profile::load(file);
  } catch (const IoError& e) { return e.what(); }
  return "";
}

/// All that is made of a profile. Typed errors are allowed, nothing else.
void use(const Profile& p) {
  for (const profile::ReportName& name : profile::report_names()) {
    INFO(name.name);
    try {
      const auto tables = profile::report(p, std::string(name.name));
      profile::to_text(tables), profile::to_json(tables), profile::to_csv(tables);
    } catch (const Error&) {}
  }
  for (const profile::ReportName& format : profile::export_formats()) {
    INFO(format.name);
    std::ostringstream out;
    try {
      profile::export_profile(p, format.name, out);
    } catch (const Error&) {}
  }
  try {
    profile::diff(p, p);
  } catch (const Error&) {}
}

constexpr const char* kEndless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) ";

}  // namespace

TEST_CASE("hostile profiles: views, triggers, virtual tables and other columns are refused") {
  const TemporaryFolder folder;
  const std::string file = folder / "p";
  const Profile good = recorded();
  const auto refused = [&](const std::string& sql) {
    std::filesystem::remove(file);
    good.save(file);
    INFO(sql);
    REQUIRE(run_sql(file, sql));
    CHECK(refusal(file).find("damaged") != std::string::npos);
  };
  refused("DROP TABLE run; CREATE VIEW run(key, value) AS " + std::string(kEndless) +
          "SELECT 'k' || i, i FROM n");
  refused("DROP TABLE event; CREATE VIEW event AS " + std::string(kEndless) +
          "SELECT i AS id, i AS begin, i AS \"end\" FROM n");
  refused("CREATE VIEW more AS SELECT 1");
  refused("CREATE TRIGGER t AFTER INSERT ON event BEGIN SELECT 1; END");
  refused("CREATE INDEX i ON event(begin)");
  refused("CREATE TABLE more(x)");
  refused("ALTER TABLE event ADD COLUMN more INT");
  refused("ALTER TABLE site ADD COLUMN more AS (zeroblob(1000000000))");
  refused(
      "DROP TABLE frame; CREATE TABLE frame(id INTEGER PRIMARY KEY, parent INT, site INT AS "
      "(length(hex(zeroblob(100000000)))))");
  refused("DROP TABLE counter");
  refused("PRAGMA user_version=0");
  refused("PRAGMA user_version=-5");
  // The view of ours is never read, whatever it says.
  good.save(file);
  REQUIRE(run_sql(file,
                  "DROP VIEW op; CREATE VIEW op AS " + std::string(kEndless) + "SELECT i FROM n"));
  CHECK(refusal(file).empty());
}

TEST_CASE("hostile profiles: a table that claims to be virtual, and a tree that shares its pages") {
  const TemporaryFolder folder;
  const std::string file = folder / "p";
  recorded().save(file);
  REQUIRE(run_sql(file,
                  "PRAGMA writable_schema=1; UPDATE sqlite_master SET sql = 'CREATE VIRTUAL "
                  "TABLE run USING fts5(key, value)', rootpage = 0 WHERE name = 'run'"));
  CHECK_FALSE(refusal(file).empty());
  // Two tables over one tree: rows are there twice, and more of them than the file has bytes for
  // would be noticed.
  recorded().save(file);
  REQUIRE(run_sql(file,
                  "PRAGMA writable_schema=1; UPDATE sqlite_master SET rootpage = (SELECT "
                  "rootpage FROM sqlite_master WHERE name = 'event') WHERE name = 'frame'"));
  refusal(file);
}

TEST_CASE("hostile profiles: nothing is written beside a profile that is read") {
  const TemporaryFolder folder;
  const std::string file = folder / "p?mode=rwc#x";
  recorded().save(file);
  REQUIRE(run_sql(file, "PRAGMA journal_mode=WAL"));
  CHECK(refusal(file).empty());
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(folder.path()))
    names.push_back(e.path().filename().string());
  CHECK(names == std::vector<std::string>{"p?mode=rwc#x"});
}

TEST_CASE("hostile profiles: impossible values are refused") {
  const TemporaryFolder folder;
  const std::string file = folder / "p";
  const Profile good = recorded();
  const auto refused = [&](const std::string& sql) {
    good.save(file);
    INFO(sql);
    REQUIRE(run_sql(file, sql));
    CHECK_FALSE(refusal(file).empty());
  };
  for (const char* number :
       {"9223372036854775807", "-9223372036854775808", "4611686018427387904"}) {
    for (const char* column : {"begin", "\"end\"", "self", "allocated", "freed", "step", "parent",
                               "signature", "thread", "site", "module", "forward", "stack"})
      refused(fmt::format("DELETE FROM packed; UPDATE event SET {} = {}", column, number));
    for (const char* column : {"begin", "bytes", "event", "thread"})
      refused(fmt::format("DELETE FROM packed; UPDATE allocation SET {} = {}", column, number));
    refused(fmt::format("UPDATE run SET value = {} WHERE key = 'duration'", number));
  }
  refused("UPDATE signature SET flops = 9e999");
  refused("UPDATE signature SET flops = -1.0");
  refused("UPDATE signature SET bytes = -9e999");
  refused("UPDATE signature SET inputs = '[[\"float32\",[1e300]]]'");
  refused("UPDATE signature SET inputs = '[[\"float32\",[-1]]]'");
  refused("UPDATE signature SET inputs = '[[\"float32\",[4611686018427387904,4]]]'");
  refused("UPDATE signature SET inputs = '" + std::string(100'000, '[') + "'");
  refused("UPDATE run SET value = 9e999 WHERE key = 'event_cost'");
  refused("UPDATE run SET value = -1 WHERE key = 'dropped'");
  refused("UPDATE site SET line = -7");
  refused("INSERT INTO module SELECT 0, 0, 'a', 'a', 'A', 1, 1");  // its own parent
  // A chain of a million calls inside calls.
  refused(
      "DELETE FROM frame; WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE "
      "i < 1000000) INSERT INTO frame SELECT i, i - 1, 0 FROM n");
}

TEST_CASE("hostile profiles: what is loaded can be used, whatever was changed") {
  const TemporaryFolder folder;
  const std::string file = folder / "p", changed = folder / "changed";
  recorded().save(file);
  const std::string bytes = read_bytes(file);
  const std::vector<std::pair<const char*, std::vector<const char*>>> columns = {
      {"event",
       {"begin", "\"end\"", "parent", "signature", "thread", "site", "module", "forward", "stack",
        "step", "self", "allocated", "freed", "phase", "flags", "inputs"}},
      {"allocation", {"begin", "\"end\"", "bytes", "event", "freed_by", "thread", "category"}},
      {"signature",
       {"kind", "name", "op_kind", "inputs", "outputs", "attributes", "flops", "contraction_flops",
        "bytes", "has_cost"}},
      {"site", {"file", "line", "function", "object", "python"}},
      {"thread", {"process", "number", "name"}},
      {"run", {"value"}}};
  const std::vector<const char*> values = {"0",
                                           "-1",
                                           "1",
                                           "2",
                                           "1000000",
                                           "2147483647",
                                           "1e15",
                                           "-1e15",
                                           "9e999",
                                           "NULL",
                                           "''",
                                           "'text'",
                                           "CAST(x'00410042' AS TEXT)",
                                           "CAST(x'1b5d303b610780ff' AS TEXT)",
                                           "x'00ff'",
                                           "'/dev/zero'",
                                           "'[]'",
                                           "'[[\"float32\",[0]]]'",
                                           "'[[\"int64\",[1000000,1000000]]]'",
                                           "1e300"};
  std::mt19937_64 random(4);
  const int rounds = std::getenv("PELLUCID_TEST_LONG") != nullptr ? 20'000 : 250;
  int loaded = 0;
  for (int i = 0; i < rounds; ++i) {
    write_bytes(changed, bytes);
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const auto& [table, names] = columns[random() % columns.size()];
      const std::string sql =
          fmt::format("UPDATE {} SET {} = {} WHERE abs(random()) % 3 = 0", table,
                      names[random() % names.size()], values[random() % values.size()]);
      INFO(sql);
      CHECK(run_sql(changed, sql));
    }
    try {
      const Profile p = Profile::load(changed);
      ++loaded;
      use(p);
    } catch (const IoError&) {}
  }
  CHECK(loaded > 0);
}

TEST_CASE("hostile profiles: deep chains that are loaded can be reported") {
  Profile p = recorded();
  p.sites.push_back({.file = "deep.cpp", .line = 1, .function = "f"});
  const auto site = static_cast<int32_t>(p.sites.size()) - 1;
  const auto first = static_cast<int32_t>(p.frames.size());
  for (int i = 0; i < 1900; ++i) p.frames.push_back({i == 0 ? -1 : first + i - 1, site});
  p.samples.push_back({1, 0, static_cast<int32_t>(p.frames.size()) - 1, -1, site});
  for (int i = 0; i < 1900; ++i) {
    profile::Event e = p.events[0];
    e.parent = i == 0 ? -1 : static_cast<int32_t>(p.events.size()) - 1;
    e.stack = first + i, e.site = site;
    p.events.push_back(e);
  }
  const TemporaryFolder folder;
  p.save(folder / "p");
  use(Profile::load(folder / "p"));
}

TEST_CASE("hostile recordings: raw files of other kinds, and numbers without end") {
  const TemporaryFolder folder;
  const std::string raw = folder / "p.raw";
  std::filesystem::create_directory(raw);
  REQUIRE(mkfifo((raw + "/definitions-1-a").c_str(), 0666) == 0);  // opening it would wait
  std::filesystem::create_symlink("/dev/zero", raw + "/definitions-2-b");
  CHECK_FALSE(refusal(folder / "p").empty());
  const std::string start =
      R"({"start":{"clocks":[1,1,2,2],"process":3,"program":"p","version":"1","started":"now",)"
      R"("mode":"trace","sample_rate":1,"memory_at_start":0}})";
  std::string text = start + "\n";
  text += "{\"call\":4190000,\"kind\":0,\"what\":1,\"line\":1}\n";
  text += "{\"site\":4190000,\"file\":\"f\",\"line\":1}\n";
  for (int i = 1; i < 1500; ++i)
    text += fmt::format(
        "{{\"module\":{},\"parent\":{},\"type\":\"{}\",\"name\":\"{}\",\"parameters\":0,\"bytes\":"
        "0}}\n",
        i, i - 1, "T", std::string(500, 'm'));
  write_bytes(raw + "/definitions-3-c", text);
  REQUIRE(mkfifo((raw + "/events-3-c-4-0").c_str(), 0666) == 0);
  REQUIRE(mkfifo((raw + "/stalls-3-c").c_str(), 0666) == 0);
  REQUIRE(mkfifo((raw + "/samples-3-c").c_str(), 0666) == 0);
  const Profile p = Profile::load(folder / "p");
  CHECK(p.modules.size() == 1499);
  CHECK(p.modules.back().path.size() < 100'000);
}

TEST_CASE("removing a recording removes its own files alone") {
  const TemporaryFolder folder;
  const std::string raw = folder / "p.raw";
  std::filesystem::create_directory(raw);
  for (const char* name : {"events-12-ab-14-0", "events-12-ab-14-0.more", "definitions-12-ab",
                           "samples-2024.csv", "events-of-the-year.txt", "maps-12-ab.part"})
    write_bytes(raw + "/" + name, "x");
  profile::remove_folder(raw);
  CHECK(std::filesystem::exists(raw + "/samples-2024.csv"));
  CHECK(std::filesystem::exists(raw + "/events-of-the-year.txt"));
  CHECK(std::distance(std::filesystem::directory_iterator(raw), {}) == 2);
  std::filesystem::create_directory(folder / "other");
  write_bytes(folder / "other/definitions-12-ab", "x");
  std::filesystem::create_symlink("other", folder / "q.raw");
  profile::remove_folder(folder / "q.raw");
  CHECK(std::filesystem::exists(folder / "other/definitions-12-ab"));
}

TEST_CASE("a profile replaces nothing that is no profile") {
  const TemporaryFolder folder;
  const Profile p = recorded();
  write_bytes(folder / "script.py", "print('precious')\n");
  CHECK_THROWS_WITH_AS(p.save(folder / "script.py"), doctest::Contains("is no profile"), IoError);
  CHECK(read_bytes(folder / "script.py") == "print('precious')\n");
  CHECK_THROWS_WITH_AS(p.save("/dev/null"), doctest::Contains("no regular file"), IoError);
  CHECK_THROWS_WITH_AS(p.save(folder.path()), doctest::Contains("no regular file"), IoError);
  write_bytes(folder / "empty", "");
  CHECK_NOTHROW(p.save(folder / "empty"));
  CHECK_NOTHROW(p.save(folder / "empty"));
}
