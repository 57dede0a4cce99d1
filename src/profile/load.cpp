// A profile from its file. Reading checks that it is ours, that its version is known, and that
// every reference stays inside its table: what comes from outside may be damaged or made up.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "pellucid/profiler.h"
#include "profile/ceilings.h"
#include "profile/database.h"
#include "profile/load_checks.h"
#include "profile/packed.h"
#include "profile/recording_file.h"

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;

std::vector<TensorInfo> tensors_from(const std::string& text) {
  std::vector<TensorInfo> tensors;
  for (const Json& j : Json::parse(text)) {
    const auto name = j.at(0).get<std::string>();
    TensorInfo t{kFloat32, {}};
    for (const Json& size : j.at(1)) {
      // A fraction or 1e300 is no size, and its conversion would be undefined.
      if (!size.is_number_integer()) throw Json::type_error::create(302, "a size", &size);
      t.sizes.push_back(size.get<int64_t>());
    }
    for (int d = 0; d < kDTypeCount; ++d)
      if (fmt::format("{}", static_cast<DType>(d)) == name) t.dtype = static_cast<DType>(d);
    tensors.push_back(std::move(t));
  }
  return tensors;
}

std::vector<std::pair<std::string, std::string>> pairs_from(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const Json object = Json::parse(text);
  for (const auto& [key, value] : object.items()) pairs.emplace_back(key, value.get<std::string>());
  return pairs;
}

void read_run(Database& db, Profile& p) {
  Statement s(db, "SELECT key, value FROM run");
  RunInfo& r = p.run;
  while (s.next()) {
    const std::string key = s.text(0);
    if (key == "program") r.program = s.text(1);
    if (key == "mode") r.mode = s.text(1);
    if (key == "version") r.version = s.text(1);
    if (key == "started") r.started = s.text(1);
    if (key == "isa") r.isa = s.text(1);
    if (key == "threads") r.threads = static_cast<int>(s.integer(1));
    if (key == "duration") r.duration = s.integer(1);
    if (key == "exit_code") r.exit_code = static_cast<int>(s.integer(1));
    if (key == "signal") r.signal = static_cast<int>(s.integer(1));
    if (key == "complete") r.complete = s.integer(1) != 0;
    if (key == "dropped") r.dropped = s.integer(1);
    if (key == "event_cost") r.event_cost = s.number(1);
    if (key == "scopes") r.scopes = s.integer(1);
    if (key == "sample_cost") r.sample_cost = s.number(1);
    if (key == "recorded_bytes") r.recorded_bytes = s.integer(1);
    if (key == "sample_rate") r.sample_rate = s.number(1);
    if (key == "peak_memory") r.peak_memory = s.integer(1);
    if (key == "memory_at_start") r.memory_at_start = s.integer(1);
    if (key == "stalls_missing") r.stalls_missing = s.text(1);
    if (key == "stalls_lost") r.stalls_lost = s.integer(1);
    if (key == "notes") r.notes = Json::parse(s.text(1)).get<std::vector<std::string>>();
    if (key == "folder") r.folder = s.text(1);
    if (key == "revision") r.revision = s.text(1);
    if (key == "facts") r.facts = pairs_from(s.text(1));
    if (key == "variables") r.variables = pairs_from(s.text(1));
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

BlockUse::Kind use_kind_from(const std::string& name) {
  using Kind = BlockUse::Kind;
  for (const Kind k : {Kind::Write, Kind::Saved})
    if (name_of(k) == name) return k;
  return Kind::Read;
}

// The rows of the two large tables, as people query them.
void read_large(Database& db, Profile& p, int64_t version) {
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
  for (Statement s(
           db, std::string("SELECT begin, \"end\", bytes, event, freed_by, thread, category, ") +
                   (version < 4 ? "0, -1, -1" : "before, \"order\", freed_order") +
                   (version < 5 ? ", 0" : ", address") + " FROM allocation ORDER BY id");
       s.next();)
    p.allocations.push_back(
        {s.integer(0), s.integer(1), s.integer(2), s.index(3), s.index(4), s.index(5),
         static_cast<MemoryCategory>(
             std::clamp<int64_t>(s.integer(6), 0, kMemoryCategoryCount - 1)),
         s.integer(7) != 0, static_cast<uint64_t>(s.integer(10)), s.integer(8), s.integer(9)});
}

// The same from their packed columns, which is much faster.
bool read_packed(Database& db, Profile& p) {
  std::vector<PackedColumn> columns;
  for (Statement s(db, "SELECT name, rows, checksum, bytes FROM packed"); s.next();)
    columns.push_back({s.text(0), s.integer(1), static_cast<uint32_t>(s.integer(2)), s.bytes(3)});
  return unpack(columns, p);
}

void read_small(Database& db, Profile& p, int64_t version) {
  for (Statement s(db, "SELECT parent, site FROM frame ORDER BY id"); s.next();)
    p.frames.push_back({s.index(0), s.index(1)});
  for (Statement s(db, "SELECT at, thread, stack, signature, site FROM sample ORDER BY id");
       s.next();)
    p.samples.push_back({s.integer(0), s.index(1), s.index(2), s.index(3), s.index(4)});
  for (Statement s(db, "SELECT signature, site, calls FROM count"); s.next();)
    p.counts.push_back({s.index(0), s.index(1), s.integer(2)});
  for (Statement s(db, "SELECT name, value, missing FROM counter"); s.next();)
    p.counters.push_back({s.text(0), s.number(1), s.text(2)});
  if (version >= 5) {
    for (Statement s(db, "SELECT file, hash, text FROM source ORDER BY id"); s.next();)
      p.sources.push_back({s.text(0), s.text(1), s.text(2)});
    for (Statement s(db, "SELECT event, allocation, kind, name FROM use ORDER BY id"); s.next();)
      p.uses.push_back({s.index(0), s.index(1), use_kind_from(s.text(2)), s.text(3)});
  }
  if (version < 2) return;
  for (Statement s(db, std::string("SELECT kind, begin, duration, thread, event, ") +
                           (version < 3 ? "1" : "count") + " FROM stall ORDER BY id");
       s.next();)
    p.stalls.push_back({stall_kind_from(s.text(0)), s.integer(1), s.integer(2), s.index(3),
                        s.index(4), s.integer(5)});
}

Profile checked(Profile p, const std::string& file) {
  check_references(p, file);
  check_values(p, file);
  return p;
}

int64_t pragma(Database& db, const char* sql) {
  Statement s(db, sql);
  return s.next() ? s.integer(0) : 0;
}

enum class From : uint8_t { Packed, Rows };

Profile load_from(const std::string& file, From from) {
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    const int error = errno;
    // Whoever recorded it was ended before the raw files became a profile.
    if (stat((file + ".raw").c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))
      return checked(collect(file + ".raw"), file + ".raw");
    fail_file(file, fmt::format("could not be read: {}", strerror(error)));
  }
  if (!S_ISREG(facts.st_mode)) fail_file(file, "is no file");
  if (facts.st_size == 0) fail_file(file, "is no profile: it is empty");
  if (access(file.c_str(), R_OK) != 0)
    fail_file(file, fmt::format("could not be read: {}", strerror(errno)));
  Database db(file, static_cast<uint64_t>(facts.st_size));
  const int64_t application = pragma(db, "PRAGMA application_id");
  if (application != kApplication) fail_file(file, "is a SQLite file, but no profile of pellucid");
  const int64_t version = pragma(db, "PRAGMA user_version");
  if (version > kVersion)
    fail_file(file, fmt::format("has version {} of the format; this pellucid reads up to {}: use a "
                                "newer one",
                                version, kVersion));
  if (version < 1) fail_file(file, fmt::format("is damaged: it has version {}", version));
  check_schema(db, version);
  Profile p;
  try {
    read_run(db, p);
    read_names(db, p);
    if (version < 5 || from == From::Rows || !read_packed(db, p)) read_large(db, p, version);
    read_small(db, p, version);
    p.run.format = static_cast<int>(version);
  } catch (const Json::exception&) { fail_file(file, "is damaged: a list in it cannot be read"); }
  return checked(std::move(p), file);
}

}  // namespace

Profile Profile::load(const std::string& file) { return load_from(file, From::Packed); }

std::string verify(const std::string& file) {
  const Profile rows = load_from(file, From::Rows);
  if (rows.run.format < 5)
    return fmt::format(
        "{} events and {} blocks can be read; version {} of the format has nothing "
        "to compare them with",
        rows.events.size(), rows.allocations.size(), rows.run.format);
  const auto bytes = static_cast<uint64_t>(std::filesystem::file_size(file));
  Database db(file, bytes);
  const std::vector<PackedColumn> wanted = pack(rows);
  std::map<std::string, PackedColumn> found;
  for (Statement s(db, "SELECT name, rows, checksum, bytes FROM packed"); s.next();) {
    PackedColumn c{s.text(0), s.integer(1), static_cast<uint32_t>(s.integer(2)), s.bytes(3)};
    found.emplace(c.name, std::move(c));
  }
  for (const PackedColumn& c : wanted) {
    const auto it = found.find(c.name);
    if (it == found.end())
      fail_file(file, fmt::format("is damaged: it has no packed column {}", c.name));
    if (it->second.rows != c.rows || it->second.checksum != c.checksum ||
        it->second.bytes != c.bytes)
      fail_file(file, fmt::format("is damaged: the packed column {} and the rows differ", c.name));
  }
  if (found.size() != wanted.size())
    fail_file(file, "is damaged: it has packed columns that no profile has");
  return fmt::format("{} events and {} blocks: the rows and the packed columns are the same",
                     rows.events.size(), rows.allocations.size());
}

}  // namespace pellucid::profile
