// Bytes that arrive in pieces, given on as whole characters of UTF-8: a token may end in the middle
// of a character.
#pragma once

#include <string>
#include <string_view>

namespace pellucid::cli {

class Utf8Stream {
 public:
  /// The characters that are whole now; bytes that can be none become U+FFFD.
  std::string add(std::string_view bytes);
  /// What is left at the end: U+FFFD for an unfinished character, else "".
  std::string finish();

 private:
  std::string held_;
};

}  // namespace pellucid::cli
