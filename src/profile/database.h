// SQLite as the profile's file uses it: errors become exceptions that name the file.
#pragma once

#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/error.h"

namespace pellucid::profile {

inline constexpr int kApplication = 0x706c6c63;  // "pllc", in the file's header
inline constexpr int kVersion = 5;               // of the format (docs/profile-format.md)

[[noreturn]] inline void fail_file(const std::string& file, std::string_view what) {
  pellucid::detail::raise<IoError>("profile: '{}' {}.", file, what);
}

class Database {
 public:
  Database(const std::string& file, int flags) : file_(file) { open(file, flags); }
  /// For reading a file that may be made up: nothing in its schema is run, nothing is written
  /// beside it, and it cannot cost more work or memory than a file of `bytes` bytes explains.
  Database(const std::string& file, uint64_t bytes);
  ~Database() { sqlite3_close_v2(db_); }
  Database(const Database&) = delete;
  void run(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) complain();
  }
  [[noreturn]] void complain() {
    const int code = sqlite3_errcode(db_);
    if (code == SQLITE_NOTADB) fail_file(file_, "is no profile: it is not a SQLite file");
    if (code == SQLITE_CORRUPT)
      fail_file(file_,
                fmt::format("is damaged ({}); record the program again", sqlite3_errmsg(db_)));
    if (code == SQLITE_INTERRUPT)
      fail_file(file_, "is damaged: reading it does not come to an end");
    fail_file(file_, fmt::format("could not be used: {}", sqlite3_errmsg(db_)));
  }
  /// Takes from what a file of this size can hold.
  void charge(uint64_t bytes) {
    if (bytes > left_) fail_file(file_, "is damaged: it has more rows than its file has room for");
    left_ -= bytes;
  }
  sqlite3* get() { return db_; }
  const std::string& file() const { return file_; }

 private:
  void open(const std::string& name, int flags) {
    if (sqlite3_open_v2(name.c_str(), &db_, flags, nullptr) == SQLITE_OK) return;
    const std::string why = db_ ? sqlite3_errmsg(db_) : "out of memory";
    sqlite3_close(db_);
    fail_file(file_, fmt::format("could not be opened: {}", why));
  }
  std::string file_;
  sqlite3* db_ = nullptr;
  uint64_t left_ = UINT64_MAX;  ///< bytes that rows and texts may still take
  int64_t work_ = 0;            ///< calls of the progress handler that are left
};

/// The tables, as CREATE statements.
extern const char* const kSchema;
/// Throws unless the tables are those of this version of the format, and nothing else is there
/// that SQLite would run: other views, triggers, virtual tables, generated columns.
void check_schema(Database& db, int64_t version);

/// Bytes that are no text, for as long as a row is inserted.
struct Blob {
  std::string_view bytes;
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
    constexpr uint64_t kLeastRow = 6;  // bytes in the file of the narrowest table's row
    if (code == SQLITE_ROW) db_.charge(kLeastRow);
    return code == SQLITE_ROW;
  }
  int64_t integer(int i) const { return sqlite3_column_int64(s_, i); }
  int32_t index(int i) const {
    const int64_t v = integer(i);
    return v < -1 || v > INT32_MAX ? -2 : static_cast<int32_t>(v);
  }
  double number(int i) const { return sqlite3_column_double(s_, i); }
  /// The bytes of a blob, or of a text.
  std::string bytes(int i) const {
    const void* data = sqlite3_column_blob(s_, i);
    const auto size = static_cast<size_t>(data ? sqlite3_column_bytes(s_, i) : 0);
    db_.charge(size);
    return std::string(static_cast<const char*>(data), size);
  }
  std::string text(int i) const {
    const auto* t = sqlite3_column_text(s_, i);
    const auto size = static_cast<size_t>(t ? sqlite3_column_bytes(s_, i) : 0);
    db_.charge(size);
    return std::string(reinterpret_cast<const char*>(t), size);
  }

 private:
  void bind(int i, int64_t v) { sqlite3_bind_int64(s_, i, v); }
  void bind(int i, int32_t v) { sqlite3_bind_int(s_, i, v); }
  void bind(int i, bool v) { sqlite3_bind_int(s_, i, v); }
  void bind(int i, size_t v) { sqlite3_bind_int64(s_, i, static_cast<int64_t>(v)); }
  void bind(int i, double v) { sqlite3_bind_double(s_, i, v); }
  void bind(int i, const Blob& v) {
    sqlite3_bind_blob64(s_, i, v.bytes.data(), v.bytes.size(), SQLITE_STATIC);
  }
  void bind(int i, const std::string& v) {
    sqlite3_bind_text(s_, i, v.data(), static_cast<int>(v.size()), SQLITE_TRANSIENT);
  }
  Database& db_;
  sqlite3_stmt* s_ = nullptr;
};

}  // namespace pellucid::profile
