// Reads view data as the page does, so that tests see what a reader of the container sees.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pellucid::test {

class ViewData {
 public:
  nlohmann::json header;

  explicit ViewData(std::string_view container) {
    uint32_t length = 0;
    if (container.size() < 12 || container.substr(0, 8) != "PLCVIEW1")
      throw std::runtime_error("no view data");
    std::memcpy(&length, container.data() + 8, 4);
    header = nlohmann::json::parse(container.substr(12, length));
    bytes_ = container.substr(12 + length);
  }

  std::vector<int64_t> column(const std::string& name) const {
    const nlohmann::json& c = header.at("columns").at(name);
    std::string_view in = bytes_.substr(c.at("offset"), c.at("bytes"));
    if (crc32(0, reinterpret_cast<const Bytef*>(in.data()), static_cast<uInt>(in.size())) !=
        c.at("crc32").get<uint32_t>())
      throw std::runtime_error("checksum of " + name);
    const std::string encoding = c.at("encoding");
    std::vector<int64_t> out;
    while (!in.empty()) {
      uint64_t value = 0;
      if (encoding == "u8") {
        value = static_cast<unsigned char>(in[0]);
        in.remove_prefix(1);
      } else {
        for (int shift = 0;; shift += 7) {
          const auto byte = static_cast<unsigned char>(in.at(0));
          in.remove_prefix(1);
          value |= static_cast<uint64_t>(byte & 0x7f) << shift;
          if (byte < 0x80) break;
        }
      }
      if (encoding == "zigzag" || encoding == "delta") value = value >> 1 ^ (0 - (value & 1));
      if (encoding == "delta" && !out.empty()) value += static_cast<uint64_t>(out.back());
      out.push_back(static_cast<int64_t>(value));
    }
    if (out.size() != c.at("rows")) throw std::runtime_error("rows of " + name);
    return out;
  }

 private:
  std::string_view bytes_;
};

/// What DecompressionStream makes of it: "deflate-raw" with -15 bits, "gzip" with 31.
inline std::string inflated(std::string_view bytes, int window = -MAX_WBITS) {
  z_stream z{};
  if (inflateInit2(&z, window) != Z_OK) throw std::bad_alloc();
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  char part[1 << 14];
  int code = Z_OK;
  while (code == Z_OK) {
    z.next_out = reinterpret_cast<Bytef*>(part);
    z.avail_out = sizeof part;
    code = inflate(&z, Z_NO_FLUSH);
    out.append(part, sizeof part - z.avail_out);
  }
  inflateEnd(&z);
  if (code != Z_STREAM_END) throw std::runtime_error("not deflated");
  return out;
}

inline std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8));
  }
  return out;
}

}  // namespace pellucid::test
