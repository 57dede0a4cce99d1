// Eight bytes at a time: with the CPU's instruction where it has it, else with eight tables.
#include "io/crc32c.h"

#include <array>
#include <cstring>

namespace pellucid::io {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected 0x1edc6f41

using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t c = b;
    for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ kPolynomial : c >> 1;
    t[0][b] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8 ^ t[0][t[k - 1][b] & 0xff];
  return t;
}
constexpr Tables kTables = make_tables();

uint32_t by_table(const unsigned char* p, size_t n, uint32_t c) {
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= c;
    c = 0;
    for (size_t k = 0; k < 8; ++k) c ^= kTables[7 - k][word >> (8 * k) & 0xff];
  }
  for (; n > 0; ++p, --n) c = c >> 8 ^ kTables[0][(c ^ *p) & 0xff];
  return c;
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(const unsigned char* p, size_t n,
                                                          uint32_t c) {
  uint64_t wide = c;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  c = static_cast<uint32_t>(wide);
  for (; n > 0; ++p, --n) c = __builtin_ia32_crc32qi(c, *p);
  return c;
}

}  // namespace

uint32_t crc32c(const void* bytes, size_t count, uint32_t before) {
  static const auto run = __builtin_cpu_supports("sse4.2") ? by_instruction : by_table;
  return ~run(static_cast<const unsigned char*>(bytes), count, ~before);
}

}  // namespace pellucid::io
