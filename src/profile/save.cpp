// A profile becomes one SQLite file (docs/profile-format.md), which appears whole or not at all.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/files.h"
#include "pellucid/profiler.h"
#include "profile/ceilings.h"
#include "profile/database.h"
#include "profile/packed.h"
#include "profile/recording_file.h"

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;

}  // namespace

const char* const kSchema = R"(
CREATE TABLE run(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE thread(id INTEGER PRIMARY KEY, process INT, number INT, name TEXT);
CREATE TABLE signature(id INTEGER PRIMARY KEY, kind TEXT, name TEXT, op_kind TEXT, inputs TEXT, outputs TEXT,
  attributes TEXT, flops REAL, contraction_flops REAL, bytes REAL, has_cost INT);
CREATE TABLE site(id INTEGER PRIMARY KEY, file TEXT, line INT, function TEXT, object TEXT, python INT);
CREATE TABLE module(id INTEGER PRIMARY KEY, parent INT, name TEXT, path TEXT, type TEXT, parameters INT,
  parameter_bytes INT);
CREATE TABLE event(id INTEGER PRIMARY KEY, begin INT, "end" INT, parent INT, signature INT, thread INT, site INT,
  module INT, forward INT, stack INT, step INT, self INT, allocated INT, freed INT, phase INT, flags INT, inputs INT);
CREATE TABLE allocation(id INTEGER PRIMARY KEY, begin INT, "end" INT, bytes INT, event INT, freed_by INT,
  thread INT, category INT, before INT, "order" INT, freed_order INT, address INT);
CREATE TABLE frame(id INTEGER PRIMARY KEY, parent INT, site INT);
CREATE TABLE sample(id INTEGER PRIMARY KEY, at INT, thread INT, stack INT, signature INT, site INT);
CREATE TABLE count(signature INT, site INT, calls INT);
CREATE TABLE counter(name TEXT, value REAL, missing TEXT);
CREATE TABLE stall(id INTEGER PRIMARY KEY, kind TEXT, begin INT, duration INT, thread INT, event INT,
  count INT);
CREATE TABLE source(id INTEGER PRIMARY KEY, file TEXT, hash TEXT, text TEXT);
CREATE TABLE use(id INTEGER PRIMARY KEY, event INT, allocation INT, kind TEXT, name TEXT);
CREATE TABLE packed(name TEXT PRIMARY KEY, rows INT, checksum INT, bytes BLOB);
CREATE VIEW op AS SELECT event.id, signature.name, signature.kind, event.begin, event."end", event.self,
  site.file, site.line, module.path AS module, signature.inputs, signature.flops, signature.bytes
  FROM event JOIN signature ON signature.id = event.signature
  LEFT JOIN site ON site.id = event.site LEFT JOIN module ON module.id = event.module;
)";

namespace {

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// [["float32",[64,1000]],…]: readable in SQL too.
std::string tensors_text(const std::vector<TensorInfo>& tensors) {
  Json j = Json::array();
  for (const TensorInfo& t : tensors) j.push_back({fmt::format("{}", t.dtype), t.sizes});
  return dump(j);
}

std::string insert_sql(const char* table, int columns) {
  std::string sql = fmt::format("INSERT INTO {} VALUES (?", table);
  for (int i = 1; i < columns; ++i) sql += ",?";
  return sql + ")";
}

Json object_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json j = Json::object();
  for (const auto& [key, value] : pairs) j[key] = value;
  return j;
}

void write_run(Database& db, const Profile& p) {
  Statement s(db, insert_sql("run", 2));
  const RunInfo& r = p.run;
  s.insert(std::string("program"), r.program);
  s.insert(std::string("mode"), r.mode);
  s.insert(std::string("version"), r.version);
  s.insert(std::string("started"), r.started);
  s.insert(std::string("isa"), r.isa);
  s.insert(std::string("threads"), r.threads);
  s.insert(std::string("duration"), r.duration);
  s.insert(std::string("exit_code"), r.exit_code);
  s.insert(std::string("signal"), r.signal);
  s.insert(std::string("complete"), r.complete);
  s.insert(std::string("dropped"), r.dropped);
  s.insert(std::string("event_cost"), r.event_cost);
  s.insert(std::string("scopes"), r.scopes);
  s.insert(std::string("sample_cost"), r.sample_cost);
  s.insert(std::string("recorded_bytes"), r.recorded_bytes);
  s.insert(std::string("sample_rate"), r.sample_rate);
  s.insert(std::string("peak_memory"), r.peak_memory);
  s.insert(std::string("memory_at_start"), r.memory_at_start);
  s.insert(std::string("stalls_missing"), r.stalls_missing);
  s.insert(std::string("stalls_lost"), r.stalls_lost);
  s.insert(std::string("notes"), dump(r.notes));
  s.insert(std::string("folder"), r.folder);
  s.insert(std::string("revision"), r.revision);
  s.insert(std::string("facts"), dump(object_of(r.facts)));
  s.insert(std::string("variables"), dump(object_of(r.variables)));
  if (!p.machine.cpu.empty()) s.insert(std::string("machine"), ceilings_text(p.machine));
}

void write_tables(Database& db, const Profile& p) {
  write_run(db, p);
  const auto rows = [&](const char* table, int columns, const auto& items, const auto& insert) {
    Statement s(db, insert_sql(table, columns));
    for (size_t i = 0; i < items.size(); ++i) insert(s, i, items[i]);
  };
  rows("thread", 4, p.threads,
       [](Statement& s, size_t i, const Thread& t) { s.insert(i, t.process, t.id, t.name); });
  rows("signature", 11, p.signatures, [](Statement& s, size_t i, const Signature& x) {
    s.insert(i, std::string(name_of(x.kind)), x.name, x.op_kind, tensors_text(x.inputs),
             tensors_text(x.outputs), x.attributes, x.flops, x.contraction_flops, x.bytes,
             x.has_cost);
  });
  rows("site", 6, p.sites, [](Statement& s, size_t i, const Site& x) {
    s.insert(i, x.file, x.line, x.function, x.object, x.python);
  });
  rows("module", 7, p.modules, [](Statement& s, size_t i, const ModuleInfo& m) {
    s.insert(i, m.parent, m.name, m.path, m.type, m.parameters, m.parameter_bytes);
  });
  rows("event", 17, p.events, [](Statement& s, size_t i, const Event& e) {
    s.insert(i, e.begin, e.end, e.parent, e.signature, e.thread, e.site, e.module, e.forward,
             e.stack, e.step, e.self, e.allocated, e.freed, static_cast<int>(e.phase),
             static_cast<int>(e.threw) | static_cast<int>(e.open) << 1,
             static_cast<int64_t>(e.inputs));
  });
  rows("allocation", 12, p.allocations, [](Statement& s, size_t i, const Allocation& a) {
    s.insert(i, a.begin, a.end, a.bytes, a.event, a.freed_by, a.thread,
             static_cast<int>(a.category), a.before, a.order, a.freed_order,
             static_cast<int64_t>(a.address));
  });
  rows("frame", 3, p.frames,
       [](Statement& s, size_t i, const Frame& f) { s.insert(i, f.parent, f.site); });
  rows("sample", 6, p.samples, [](Statement& s, size_t i, const Sample& x) {
    s.insert(i, x.at, x.thread, x.stack, x.signature, x.site);
  });
  rows("count", 3, p.counts,
       [](Statement& s, size_t, const CallCount& c) { s.insert(c.signature, c.site, c.calls); });
  rows("counter", 3, p.counters,
       [](Statement& s, size_t, const Counter& c) { s.insert(c.name, c.value, c.missing); });
  rows("source", 4, p.sources,
       [](Statement& s, size_t i, const SourceFile& x) { s.insert(i, x.file, x.hash, x.text); });
  rows("use", 5, p.uses, [](Statement& s, size_t i, const BlockUse& x) {
    s.insert(i, x.event, x.allocation, std::string(name_of(x.kind)), x.name);
  });
  rows("packed", 4, pack(p), [](Statement& s, size_t, const PackedColumn& c) {
    s.insert(c.name, c.rows, static_cast<int64_t>(c.checksum), Blob{c.bytes});
  });
  rows("stall", 7, p.stalls, [](Statement& s, size_t i, const Stall& x) {
    s.insert(i, std::string(name_of(x.kind)), x.begin, x.duration, x.thread, x.event, x.count);
  });
}

// The first bytes of a file; nothing where it is no regular file.
std::string head_of(const std::string& file) {
  const int opened = io::open_regular(file, O_RDONLY, io::Links::Follow);
  if (opened < 0) return "";
  char head[100] = {};  // SQLite's
  const ssize_t got = pread(opened, head, sizeof head, 0);
  close(opened);
  return std::string(head, got > 0 ? static_cast<size_t>(got) : 0);
}

bool is_profile_head(const std::string& head) {
  uint32_t application = 0;
  if (head.size() < 100 || !head.starts_with("SQLite format 3")) return false;
  for (size_t i = 68; i < 72; ++i)
    application = application << 8 | static_cast<unsigned char>(head[i]);
  return application == kApplication;
}

}  // namespace

bool is_profile(const std::string& file) { return is_profile_head(head_of(file)); }

void check_replaceable(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode))
    fail_file(file, "cannot hold a profile: it is no regular file");
  if (const std::string head = head_of(file); !head.empty() && !is_profile_head(head))
    fail_file(file,
              "exists and is no profile, so it is not replaced: name another file, or "
              "remove it");
}

void Profile::save(const std::string& file) const {
  check_replaceable(file);
  io::AtomicFile target("profile", file);
  {
    Database db(target.temporary(), SQLITE_OPEN_READWRITE);
    db.run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;");
    db.run(fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplication, kVersion)
               .c_str());
    db.run("BEGIN");
    db.run(kSchema);
    write_tables(db, *this);
    db.run("COMMIT");
  }
  target.commit();
}

}  // namespace pellucid::profile
