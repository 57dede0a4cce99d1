// A std::ostream that hands each finished line to a function at once: messages of long work that
// reach a terminal, a progress display or a test alike.
#pragma once

#include <functional>
#include <ostream>
#include <streambuf>
#include <string>

namespace pellucid::cli {

class LineStream : private std::streambuf, public std::ostream {
 public:
  /// `line` gets each line without its newline.
  explicit LineStream(std::function<void(const std::string&)> line)
      : std::ostream(static_cast<std::streambuf*>(this)), line_(std::move(line)) {}

 private:
  int overflow(int c) override {
    if (c == '\n') {
      line_(text_);
      text_.clear();
    } else if (c != std::char_traits<char>::eof()) {
      text_ += static_cast<char>(c);
    }
    return 0;
  }
  std::function<void(const std::string&)> line_;
  std::string text_;
};

}  // namespace pellucid::cli
