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
inline constexpr int kVersion = 3;               // of the format (docs/profile-format.md)

[[noreturn]] inline void fail_file(const std::string& file, std::string_view what) {
  pellucid::detail::raise<IoError>("profile: '{}' {}.", file, what);
}

class Database {
 public:
  Database(const std::string& file, int flags) : file_(file) {
    if (sqlite3_open_v2(file.c_str(), &db_, flags, nullptr) != SQLITE_OK) {
      const std::string why = db_ ? sqlite3_errmsg(db_) : "out of memory";
      sqlite3_close(db_);
      fail_file(file, fmt::format("could not be opened: {}", why));
    }
  }
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
    fail_file(file_, fmt::format("could not be used: {}", sqlite3_errmsg(db_)));
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

}  // namespace pellucid::profile
