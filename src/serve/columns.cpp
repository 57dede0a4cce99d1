// See columns.h.
#include "serve/columns.h"

#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <cstring>

#include "base/escape.h"
#include "pellucid/error.h"

namespace pellucid::serve {

static_assert(std::endian::native == std::endian::little);

std::string_view name_of(Encoding encoding) {
  constexpr std::string_view kNames[] = {"varint", "zigzag", "delta", "f64", "u8"};
  return kNames[static_cast<size_t>(encoding)];
}

void Columns::begin(std::string name, Encoding encoding) {
  name_ = std::move(name);
  encoding_ = encoding;
  offset_ = bytes_.size();
  before_ = 0;
}

void Columns::end(size_t rows) {
  const size_t count = bytes_.size() - offset_;
  const auto* first = reinterpret_cast<const Bytef*>(bytes_.data() + offset_);
  columns_.push_back({name_, encoding_, rows, offset_, count,
                      static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), first, count))});
}

void Columns::add(std::string name, const std::vector<double>& values) {
  begin(std::move(name), Encoding::F64);
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  end(values.size());
}

std::string Columns::index() const {
  std::string out = "{";
  for (const Column& c : columns_)
    out += fmt::format(
        "{}{}: {{\"rows\": {}, \"encoding\": \"{}\", \"offset\": {}, \"bytes\": {}, \"crc32\": "
        "{}}}",
        out.size() > 1 ? ",\n" : "", text::json_string(c.name), c.rows, name_of(c.encoding),
        c.offset, c.bytes, c.crc);
  return out + "}";
}

std::string container(std::string header, const Columns& columns) {
  PELLUCID_ASSERT(header.size() >= 2 && header.front() == '{' && header.back() == '}');
  header.pop_back();
  header += fmt::format("{}\"columns\": {}}}", header.size() > 1 ? ", " : "", columns.index());
  PELLUCID_CHECK(header.size() < UINT32_MAX, ValueError,
                 "view: the header of the view data has {} bytes, more than its format holds.",
                 header.size());
  const auto length = static_cast<uint32_t>(header.size());
  std::string out = "PLCVIEW1";
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += header;
  return out + columns.bytes();
}

}  // namespace pellucid::serve
