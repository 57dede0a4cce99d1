// Code points out of UTF-8 and into it, and which of them are letters, numbers and white space
// (Unicode 15, as GPT-2's pattern asks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pellucid::data {

/// The code point at `at`, which moves behind it. A byte that is not UTF-8 counts as one code point
/// above 0x110000, so that it survives a round trip.
uint32_t next_code_point(std::string_view text, size_t& at);
/// The inverse of next_code_point.
std::string to_utf8(uint32_t code_point);

bool is_letter(uint32_t code_point);
bool is_number(uint32_t code_point);
bool is_space(uint32_t code_point);

}  // namespace pellucid::data
