// See encode.h.
#include "serve/encode.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <new>

#include "base/sha256.h"
#include "pellucid/error.h"

namespace pellucid::serve {
namespace {

// Levels above 4 make the columns of a profile 3 % smaller and take twice as long.
constexpr int kLevel = 4;
constexpr int kRaw = -MAX_WBITS, kGzip = 16 + MAX_WBITS;

std::string compress(std::string_view bytes, int window) {
  z_stream z{};
  if (deflateInit2(&z, kLevel, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&z, bytes.size()), '\0');
  auto* in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib does not write it
  size_t read = 0, written = 0;
  constexpr size_t kMost = std::numeric_limits<uInt>::max();  // of one call
  for (int code = Z_OK; code != Z_STREAM_END;) {
    const size_t give = std::min(kMost, bytes.size() - read);
    const size_t room = std::min(kMost, out.size() - written);
    z.next_in = in + read, z.avail_in = static_cast<uInt>(give);
    z.next_out = reinterpret_cast<Bytef*>(out.data()) + written;
    z.avail_out = static_cast<uInt>(room);
    code = deflate(&z, read + give == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    PELLUCID_ASSERT(code == Z_OK || code == Z_STREAM_END);
    read += give - z.avail_in;
    written += room - z.avail_out;
  }
  deflateEnd(&z);
  out.resize(written);
  return out;
}

std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    int value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  const auto byte = [&](size_t i) -> uint32_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += kDigits[word >> 18];
    out += kDigits[word >> 12 & 63];
    out += i + 1 < bytes.size() ? kDigits[word >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? kDigits[word & 63] : '=';
  }
  return out;
}

std::string deflate_raw(std::string_view bytes) { return compress(bytes, kRaw); }
std::string gzip(std::string_view bytes) { return compress(bytes, kGzip); }

std::string policy_hash(std::string_view text) {
  return "'sha256-" + base64(from_hex(io::sha256(text))) + "'";
}

}  // namespace pellucid::serve
