// Whole numbers in as few bytes as they need: LEB128, seven bits a byte, the lowest first. Signed
// ones are folded first, so that small ones of either sign are short.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pellucid {

/// 0, -1, 1, -2… become 0, 1, 2, 3…
inline uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t from_zigzag(uint64_t folded) {
  return static_cast<int64_t>(folded >> 1 ^ (0 - (folded & 1)));
}

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

/// Takes the next number off the bytes; nothing where they end before it does or it has more than
/// 64 bits.
inline std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace pellucid
