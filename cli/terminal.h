// What a command writes passes through here: names from files, generated text, arguments and
// messages may hold escape sequences, and none of them reaches a terminal. Control characters other
// than newlines and tabs, characters that reorder text and bytes that are not UTF-8 are shown as
// \x1b, \u202e and U+FFFD. Colour (paint) and the progress bar (control) are the ways around it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace pellucid::cli {

/// Begins a command to the terminal.
inline constexpr char kEscape = '\x1b';

/// A stream that shows what it is given and passes it on to `target`.
class SafeStream {
 public:
  explicit SafeStream(std::FILE* target);
  ~SafeStream();
  SafeStream(const SafeStream&) = delete;
  std::FILE* get() const { return stream_; }

  /// Makes bytes safe; what may be the beginning of a character or a colour code is kept for the
  /// next call.
  std::string filter(std::string_view bytes, bool last = false);

 private:
  friend std::FILE* target_of(std::FILE* stream);
  static ssize_t write(void* self, const char* bytes, size_t count);
  std::FILE* target_;
  std::FILE* stream_;
  std::string held_;
  SafeStream* next_;  ///< the list of all that live
};

/// The stream behind a SafeStream's, for data that is not text (export) and for questions about the
/// terminal; another stream itself.
std::FILE* target_of(std::FILE* stream);

/// Writes a control sequence of the program's own, after all that was written before.
void control(std::FILE* stream, std::string_view sequence);

/// A code that only this process knows: SafeStream lets ESC [ N ; CODE m pass as the colour N.
const std::string& color_code();

}  // namespace pellucid::cli
