// A profile as one SQLite file (docs/profile-format.md). Written under a temporary name, synced and
// renamed. Reading checks that it is ours, that its version is known, and that every reference
// stays inside its table: what comes from outside may be damaged or made up.
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "pellucid/error.h"
#include "pellucid/profiler.h"
#include "profile/ceilings.h"

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;
constexpr int kApplication = 0x706c6c63;  // "pllc", in the file's header
constexpr int kVersion = 2;

constexpr const char* kSchema = R"(
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
  thread INT, category INT);
CREATE TABLE frame(id INTEGER PRIMARY KEY, parent INT, site INT);
CREATE TABLE sample(id INTEGER PRIMARY KEY, at INT, thread INT, stack INT, signature INT, site INT);
CREATE TABLE count(signature INT, site INT, calls INT);
CREATE TABLE counter(name TEXT, value REAL, missing TEXT);
CREATE TABLE stall(id INTEGER PRIMARY KEY, kind TEXT, begin INT, duration INT, thread INT, event INT);
CREATE VIEW op AS SELECT event.id, signature.name, signature.kind, event.begin, event."end", event.self,
  site.file, site.line, module.path AS module, signature.inputs, signature.flops, signature.bytes
  FROM event JOIN signature ON signature.id = event.signature
  LEFT JOIN site ON site.id = event.site LEFT JOIN module ON module.id = event.module;
)";

[[noreturn]] void fail(const std::string& file, std::string_view what) {
  pellucid::detail::raise<IoError>("profile: '{}' {}.", file, what);
}

class Database {
 public:
  Database(const std::string& file, int flags) : file_(file) {
    if (sqlite3_open_v2(file.c_str(), &db_, flags, nullptr) != SQLITE_OK) {
      const std::string why = db_ ? sqlite3_errmsg(db_) : "out of memory";
      sqlite3_close(db_);
      fail(file, fmt::format("could not be opened: {}", why));
    }
  }
  ~Database() { sqlite3_close_v2(db_); }
  Database(const Database&) = delete;
  void run(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) complain();
  }
  [[noreturn]] void complain() {
    const int code = sqlite3_errcode(db_);
    if (code == SQLITE_NOTADB) fail(file_, "is no profile: it is not a SQLite file");
    if (code == SQLITE_CORRUPT)
      fail(file_, fmt::format("is damaged ({}); record the program again", sqlite3_errmsg(db_)));
    fail(file_, fmt::format("could not be used: {}", sqlite3_errmsg(db_)));
  }
  sqlite3* get() { return db_; }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  Statement(Database& db, const std::string& sql) : db_(db) {
    if (sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &s_, nullptr) != SQLITE_OK) db.complain();
  }
  ~Statement() { sqlite3_finalize(s_); }
  Statement(const Statement&) = delete;

  template <class... T> void insert(const T&... values) {
    int i = 0;
    (bind(++i, values), ...);
    if (sqlite3_step(s_) != SQLITE_DONE) db_.complain();
    sqlite3_reset(s_);
  }
  bool next() {
    const int code = sqlite3_step(s_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) db_.complain();
    return code == SQLITE_ROW;
  }
  int64_t integer(int i) const { return sqlite3_column_int64(s_, i); }
  int32_t index(int i) const {
    const int64_t v = integer(i);
    return v < -1 || v > INT32_MAX ? -2 : static_cast<int32_t>(v);
  }
  double number(int i) const { return sqlite3_column_double(s_, i); }
  std::string text(int i) const {
    const auto* t = sqlite3_column_text(s_, i);
    return t ? std::string(reinterpret_cast<const char*>(t),
                           static_cast<size_t>(sqlite3_column_bytes(s_, i)))
             : std::string();
  }

 private:
  void bind(int i, int64_t v) { sqlite3_bind_int64(s_, i, v); }
  void bind(int i, int32_t v) { sqlite3_bind_int(s_, i, v); }
  void bind(int i, bool v) { sqlite3_bind_int(s_, i, v); }
  void bind(int i, size_t v) { sqlite3_bind_int64(s_, i, static_cast<int64_t>(v)); }
  void bind(int i, double v) { sqlite3_bind_double(s_, i, v); }
  void bind(int i, const std::string& v) {
    sqlite3_bind_text(s_, i, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT);
  }
  Database& db_;
  sqlite3_stmt* s_ = nullptr;
};

std::string dump(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

// [["float32",[64,1000]],…]: readable in SQL too.
std::string tensors_text(const std::vector<TensorInfo>& tensors) {
  Json j = Json::array();
  for (const TensorInfo& t : tensors) j.push_back({fmt::format("{}", t.dtype), t.sizes});
  return dump(j);
}

std::vector<TensorInfo> tensors_from(const std::string& text) {
  std::vector<TensorInfo> tensors;
  for (const Json& j : Json::parse(text)) {
    const auto name = j.at(0).get<std::string>();
    TensorInfo t{kFloat32, j.at(1).get<std::vector<int64_t>>()};
    for (int d = 0; d < kDTypeCount; ++d)
      if (fmt::format("{}", static_cast<DType>(d)) == name) t.dtype = static_cast<DType>(d);
    tensors.push_back(std::move(t));
  }
  return tensors;
}

std::string insert_sql(const char* table, int columns) {
  std::string sql = fmt::format("INSERT INTO {} VALUES (?", table);
  for (int i = 1; i < columns; ++i) sql += ",?";
  return sql + ")";
}

void write_run(Database& db, const Profile& p) {
  Statement s(db, insert_sql("run", 2));
  const RunInfo& r = p.run;
  s.insert(std::string("program"), r.program);
  s.insert(std::string("mode"), r.mode);
  s.insert(std::string("version"), r.version);
  s.insert(std::string("started"), r.started);
  s.insert(std::string("duration"), r.duration);
  s.insert(std::string("exit_code"), r.exit_code);
  s.insert(std::string("signal"), r.signal);
  s.insert(std::string("complete"), r.complete);
  s.insert(std::string("dropped"), r.dropped);
  s.insert(std::string("event_cost"), r.event_cost);
  s.insert(std::string("recorded_bytes"), r.recorded_bytes);
  s.insert(std::string("sample_rate"), r.sample_rate);
  s.insert(std::string("peak_memory"), r.peak_memory);
  s.insert(std::string("memory_at_start"), r.memory_at_start);
  s.insert(std::string("stalls_missing"), r.stalls_missing);
  s.insert(std::string("stalls_lost"), r.stalls_lost);
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
  rows("allocation", 8, p.allocations, [](Statement& s, size_t i, const Allocation& a) {
    s.insert(i, a.begin, a.end, a.bytes, a.event, a.freed_by, a.thread,
             static_cast<int>(a.category));
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
  rows("stall", 6, p.stalls, [](Statement& s, size_t i, const Stall& x) {
    s.insert(i, std::string(name_of(x.kind)), x.begin, x.duration, x.thread, x.event);
  });
}

void sync_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || fsync(file) != 0) fail(path, fmt::format("was not synced: {}", strerror(errno)));
  close(file);
}

// ---- reading

void read_run(Database& db, Profile& p) {
  Statement s(db, "SELECT key, value FROM run");
  RunInfo& r = p.run;
  while (s.next()) {
    const std::string key = s.text(0);
    if (key == "program") r.program = s.text(1);
    if (key == "mode") r.mode = s.text(1);
    if (key == "version") r.version = s.text(1);
    if (key == "started") r.started = s.text(1);
    if (key == "duration") r.duration = s.integer(1);
    if (key == "exit_code") r.exit_code = static_cast<int>(s.integer(1));
    if (key == "signal") r.signal = static_cast<int>(s.integer(1));
    if (key == "complete") r.complete = s.integer(1) != 0;
    if (key == "dropped") r.dropped = s.integer(1);
    if (key == "event_cost") r.event_cost = s.number(1);
    if (key == "recorded_bytes") r.recorded_bytes = s.integer(1);
    if (key == "sample_rate") r.sample_rate = s.number(1);
    if (key == "peak_memory") r.peak_memory = s.integer(1);
    if (key == "memory_at_start") r.memory_at_start = s.integer(1);
    if (key == "stalls_missing") r.stalls_missing = s.text(1);
    if (key == "stalls_lost") r.stalls_lost = s.integer(1);
    if (key == "machine") p.machine = ceilings_from_text(s.text(1));
  }
}

EventKind kind_from(const std::string& name) {
  for (int k = 0; k < kEventKindCount; ++k)
    if (name_of(static_cast<EventKind>(k)) == name) return static_cast<EventKind>(k);
  return EventKind::User;
}

Stall::Kind stall_kind_from(const std::string& name) {
  using Kind = Stall::Kind;
  for (const Kind k : {Kind::Waiting, Kind::Preempted})
    if (name_of(k) == name) return k;
  return Kind::PageFault;
}

void read_names(Database& db, Profile& p) {
  for (Statement s(db, "SELECT process, number, name FROM thread ORDER BY id"); s.next();)
    p.threads.push_back({s.index(0), s.index(1), s.text(2)});
  for (Statement s(db,
                   "SELECT kind, name, op_kind, inputs, outputs, attributes, flops, "
                   "contraction_flops, bytes, has_cost FROM signature ORDER BY id");
       s.next();)
    p.signatures.push_back({kind_from(s.text(0)), s.text(1), s.text(2), tensors_from(s.text(3)),
                            tensors_from(s.text(4)), s.text(5), s.number(6), s.number(7),
                            s.number(8), s.integer(9) != 0});
  for (Statement s(db, "SELECT file, line, function, object, python FROM site ORDER BY id");
       s.next();)
    p.sites.push_back(
        {s.text(0), static_cast<int>(s.integer(1)), s.text(2), s.text(3), s.integer(4) != 0});
  for (Statement s(db,
                   "SELECT parent, name, path, type, parameters, parameter_bytes FROM module "
                   "ORDER BY id");
       s.next();)
    p.modules.push_back({s.index(0), s.text(1), s.text(2), s.text(3), s.integer(4), s.integer(5)});
}

void read_rows(Database& db, Profile& p, int64_t version) {
  const std::string columns =
      "begin, \"end\", parent, signature, thread, site, module, forward, stack, step, self, "
      "allocated, freed, phase, flags, ";
  for (Statement s(
           db, "SELECT " + columns + (version < 2 ? "0" : "inputs") + " FROM event ORDER BY id");
       s.next();) {
    Event e;
    e.begin = s.integer(0), e.end = s.integer(1);
    e.parent = s.index(2), e.signature = s.index(3), e.thread = s.index(4);
    e.site = s.index(5), e.module = s.index(6), e.forward = s.index(7);
    e.stack = s.index(8), e.step = s.index(9);
    e.self = s.integer(10), e.allocated = s.integer(11), e.freed = s.integer(12);
    e.phase = static_cast<Phase>(std::clamp<int64_t>(s.integer(13), 0, 2));
    e.threw = s.integer(14) & 1, e.open = s.integer(14) & 2;
    e.inputs = static_cast<uint32_t>(s.integer(15));
    p.events.push_back(e);
  }
  for (Statement s(db,
                   "SELECT begin, \"end\", bytes, event, freed_by, thread, category FROM "
                   "allocation ORDER BY id");
       s.next();)
    p.allocations.push_back({s.integer(0), s.integer(1), s.integer(2), s.index(3), s.index(4),
                             s.index(5),
                             static_cast<MemoryCategory>(
                                 std::clamp<int64_t>(s.integer(6), 0, kMemoryCategoryCount - 1))});
  for (Statement s(db, "SELECT parent, site FROM frame ORDER BY id"); s.next();)
    p.frames.push_back({s.index(0), s.index(1)});
  for (Statement s(db, "SELECT at, thread, stack, signature, site FROM sample ORDER BY id");
       s.next();)
    p.samples.push_back({s.integer(0), s.index(1), s.index(2), s.index(3), s.index(4)});
  for (Statement s(db, "SELECT signature, site, calls FROM count"); s.next();)
    p.counts.push_back({s.index(0), s.index(1), s.integer(2)});
  for (Statement s(db, "SELECT name, value, missing FROM counter"); s.next();)
    p.counters.push_back({s.text(0), s.number(1), s.text(2)});
  if (version < 2) return;
  for (Statement s(db, "SELECT kind, begin, duration, thread, event FROM stall ORDER BY id");
       s.next();)
    p.stalls.push_back(
        {stall_kind_from(s.text(0)), s.integer(1), s.integer(2), s.index(3), s.index(4)});
}

// Every reference lies inside its table, and parents come before their children, so that whoever
// reads a profile need not ask again.
void check_references(const Profile& p, const std::string& file) {
  const auto inside = [&](int64_t index, size_t size, const char* what, bool needed = false) {
    if (index < (needed ? 0 : -1) || index >= static_cast<int64_t>(size))
      fail(file, fmt::format("is damaged: it has no {} {}", what, index));
  };
  for (size_t i = 0; i < p.modules.size(); ++i) inside(p.modules[i].parent, i, "module");
  for (size_t i = 0; i < p.frames.size(); ++i) {
    inside(p.frames[i].parent, i, "frame");
    inside(p.frames[i].site, p.sites.size(), "site");
  }
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    inside(e.parent, i, "parent");
    inside(e.signature, p.signatures.size(), "signature", true);
    inside(e.thread, p.threads.size(), "thread", true);
    inside(e.site, p.sites.size(), "site");
    inside(e.module, p.modules.size(), "module");
    inside(e.forward, p.events.size(), "forward event");
    inside(e.stack, p.frames.size(), "stack");
    if (e.end < e.begin) fail(file, "is damaged: an event ends before it begins");
  }
  for (const Allocation& a : p.allocations) {
    inside(a.event, p.events.size(), "event");
    inside(a.freed_by, p.events.size(), "event");
    inside(a.thread, p.threads.size(), "thread", true);
  }
  for (const Sample& s : p.samples) {
    inside(s.thread, p.threads.size(), "thread", true);
    inside(s.stack, p.frames.size(), "stack");
    inside(s.signature, p.signatures.size(), "signature");
    inside(s.site, p.sites.size(), "site");
  }
  for (const Stall& s : p.stalls) {
    inside(s.thread, p.threads.size(), "thread", true);
    inside(s.event, p.events.size(), "event");
    if (s.duration < 0) fail(file, "is damaged: a stall ends before it begins");
  }
  for (const CallCount& c : p.counts) {
    inside(c.signature, p.signatures.size(), "signature", true);
    inside(c.site, p.sites.size(), "site");
  }
}

int64_t pragma(Database& db, const char* sql) {
  Statement s(db, sql);
  return s.next() ? s.integer(0) : 0;
}

}  // namespace

void Profile::save(const std::string& file) const {
  const std::string temporary = fmt::format("{}.{}.part", file, getpid());
  unlink(temporary.c_str());
  try {
    {
      Database db(temporary, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
      db.run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;");
      db.run(
          fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplication, kVersion)
              .c_str());
      db.run("BEGIN");
      db.run(kSchema);
      write_tables(db, *this);
      db.run("COMMIT");
    }
    sync_file(temporary);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  if (std::rename(temporary.c_str(), file.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    fail(file, fmt::format("could not be written: {}", strerror(error)));
  }
}

Profile Profile::load(const std::string& file) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    const int error = errno;
    // Whoever recorded it was ended before the raw files became a profile.
    if (stat((file + ".raw").c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
      return collect(file + ".raw");
    fail(file, fmt::format("could not be read: {}", strerror(error)));
  }
  if (!S_ISREG(facts.st_mode)) fail(file, "is no file");
  if (facts.st_size == 0) fail(file, "is no profile: it is empty");
  if (access(file.c_str(), R_OK) != 0)
    fail(file, fmt::format("could not be read: {}", strerror(errno)));
  Database db(file, SQLITE_OPEN_READONLY);
  const int64_t application = pragma(db, "PRAGMA application_id");
  if (application != kApplication) fail(file, "is a SQLite file, but no profile of pellucid");
  const int64_t version = pragma(db, "PRAGMA user_version");
  if (version > kVersion)
    fail(file, fmt::format("has version {} of the format; this pellucid reads up to {}: use a "
                           "newer one",
                           version, kVersion));
  Profile p;
  try {
    read_run(db, p);
    read_names(db, p);
    read_rows(db, p, version);
  } catch (const Json::exception&) { fail(file, "is damaged: a list of tensors cannot be read"); }
  check_references(p, file);
  return p;
}

}  // namespace pellucid::profile
