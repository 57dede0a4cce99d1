// See database.h.
#include "profile/database.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace pellucid::profile {
namespace {

/// The path as an URI in which nothing is taken for an option.
std::string read_only_uri(const std::string& file) {
  std::string uri = "file:";
  for (const char c : file)
    uri +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '-' || c == '_'
            ? std::string(1, c)
            : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  // A profile never changes in its place. So no journal beside it is looked for, played back or
  // made, whatever its head says.
  return uri + "?mode=ro&immutable=1";
}

/// A column as SQLite describes it: name, type, place in the key, kind (generated ones have one).
using Columns = std::vector<std::string>;

std::map<std::string, Columns> tables_of(Database& db, bool strict) {
  std::vector<std::pair<std::string, std::string>> found;  // type and name
  for (Statement s(db, "SELECT type, name, rootpage, tbl_name FROM sqlite_master"); s.next();) {
    const std::string type = s.text(0), name = s.text(1);
    const bool own_view = type == "view" && name == "op";  // for people; never read here
    const bool own_index = type == "index" && name.starts_with("sqlite_autoindex_");
    if (strict && !own_view && !own_index && (type != "table" || s.integer(2) <= 0))
      fail_file(db.file(), fmt::format("is damaged: it has a {} '{}', which no profile has",
                                       type == "table" ? "virtual table" : type, name));
    if (type == "table") found.emplace_back(type, name);
  }
  std::map<std::string, Columns> tables;
  for (const auto& [type, name] : found) {
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != std::string::npos)
      fail_file(db.file(),
                fmt::format("is damaged: it has a table '{}', which no profile has", name));
    Columns& columns = tables[name];
    for (Statement s(db, "PRAGMA table_xinfo(\"" + name + "\")"); s.next();)
      columns.push_back(
          fmt::format("{} {} {} {}", s.text(1), s.text(2), s.integer(5), s.integer(6)));
  }
  return tables;
}

}  // namespace

Database::Database(const std::string& file, uint64_t bytes) : file_(file) {
  open(read_only_uri(file), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_PRIVATECACHE);
  constexpr uint64_t kSlack = uint64_t{1} << 20;
  left_ = 2 * bytes + kSlack;  // texts in UTF-16 may grow
  for (const auto& [option, on] : {std::pair(SQLITE_DBCONFIG_DEFENSIVE, 1),
                                   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                   {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                                   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                                   {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}})
    sqlite3_db_config(db_, option, on, nullptr);
  sqlite3_limit(db_, SQLITE_LIMIT_LENGTH,
                static_cast<int>(std::min<uint64_t>(2 * bytes + kSlack, 1'000'000'000)));
  sqlite3_limit(db_, SQLITE_LIMIT_ATTACHED, 0);
  // A row takes a few dozen steps of SQLite's machine, and at least some bytes of the file.
  constexpr int kSteps = 10'000;
  work_ = static_cast<int64_t>(1000 + bytes / 100);
  sqlite3_progress_handler(
      db_, kSteps, [](void* left) { return --*static_cast<int64_t*>(left) < 0 ? 1 : 0; }, &work_);
}

void check_schema(Database& db, int64_t version) {
  Database pattern(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_MEMORY);
  pattern.run(kSchema);
  std::map<std::string, Columns> wanted = tables_of(pattern, false), found = tables_of(db, true);
  const auto without = [&](const char* table, std::string_view column) {
    std::erase_if(wanted[table], [&](const std::string& c) {
      return std::string_view(c).substr(0, c.find(' ')) == column;
    });
  };
  if (version < 5) {
    without("allocation", "address");
    for (const char* table : {"source", "use", "packed"}) wanted.erase(table);
  }
  if (version < 4)
    for (const char* column : {"before", "order", "freed_order"}) without("allocation", column);
  if (version < 3) without("stall", "count");
  if (version < 2) without("event", "inputs"), wanted.erase("stall");
  for (const auto& [name, columns] : found)
    if (!wanted.contains(name))
      fail_file(db.file(),
                fmt::format("is damaged: it has a table '{}', which no profile has", name));
  for (const auto& [name, columns] : wanted)
    if (!found.contains(name) || found[name] != columns)
      fail_file(db.file(), fmt::format("is damaged: its table '{}' is missing or has other columns "
                                       "than it should",
                                       name));
}

}  // namespace pellucid::profile
