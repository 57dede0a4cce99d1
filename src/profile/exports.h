// The formats of export_profile(), one function each; export.cpp names them.
#pragma once

#include <fmt/format.h>

#include <ostream>
#include <string_view>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// Text on its way to a stream, in large pieces: a trace of a million events has hundreds of
/// megabytes.
class Output {
 public:
  explicit Output(std::ostream& out) : out_(out) {}
  Output(const Output&) = delete;
  ~Output() { flush(); }
  void put(std::string_view text) {
    buffer_.append(text.data(), text.data() + text.size());
    if (buffer_.size() > kPiece) flush();
  }
  template <class... Args> void print(fmt::format_string<Args...> format, Args&&... args) {
    format_args(format, fmt::make_format_args(args...));
  }

 private:
  void format_args(fmt::string_view format, fmt::format_args args);  // compiles fmt's engine once
  static constexpr size_t kPiece = 1 << 20;
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }
  std::ostream& out_;
  fmt::memory_buffer buffer_;
};

void export_chrome(const Profile& p, Output& out);
void export_speedscope(const Profile& p, Output& out);
void export_pstats(const Profile& p, Output& out);
void export_collapsed(const Profile& p, Output& out);
void export_csv(const Profile& p, Output& out);
void export_json(const Profile& p, Output& out);
void export_html(const Profile& p, Output& out);

/// Events of each thread, in order.
std::vector<std::vector<int32_t>> events_by_thread(const Profile& p);
/// The names of the signatures as strings of JSON, each made once.
std::vector<std::string> json_names(const Profile& p);
/// "[[64,1000],[100]]"
std::string json_sizes(const std::vector<TensorInfo>& tensors);

}  // namespace pellucid::profile
