// The container of view data: a header of JSON and packed columns of numbers (docs/view-format.md).
// It knows no profile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/varint.h"
#include "pellucid/api.h"

namespace pellucid::serve {

/// How the numbers of a column become bytes.
enum class Encoding : uint8_t {
  Varint,  ///< unsigned LEB128
  Zigzag,  ///< signed LEB128: 0, -1, 1, -2… become 0, 1, 2, 3…
  Delta,   ///< zigzag of the difference from the row before
  F64,     ///< little-endian doubles
  U8,      ///< bytes
};
std::string_view name_of(Encoding encoding);

/// Columns by name. Each is given row by row, so that no table is copied first.
class PELLUCID_API Columns {
 public:
  template <class Rows, class Value>
  void add(std::string name, Encoding encoding, const Rows& rows, const Value& value) {
    begin(std::move(name), encoding);
    for (size_t i = 0; i < rows.size(); ++i) put(static_cast<int64_t>(value(rows[i], i)));
    end(rows.size());
  }
  void add(std::string name, const std::vector<double>& values);

  /// {"event.begin": {"rows": …, "encoding": "delta", "offset": …, "bytes": …, "crc32": …}, …}
  std::string index() const;
  const std::string& bytes() const { return bytes_; }

 private:
  struct Column {
    std::string name;
    Encoding encoding;
    size_t rows, offset, bytes;
    uint32_t crc;
  };
  void begin(std::string name, Encoding encoding);
  void put(int64_t value) {
    switch (encoding_) {
      case Encoding::Varint:
        return put_varint(bytes_, static_cast<uint64_t>(value));
      case Encoding::Zigzag:
        return put_varint(bytes_, zigzag(value));
      case Encoding::Delta:
        put_varint(bytes_, zigzag(static_cast<int64_t>(static_cast<uint64_t>(value) -
                                                       static_cast<uint64_t>(before_))));
        before_ = value;
        return;
      case Encoding::U8:
        bytes_ += static_cast<char>(value);
        return;
      case Encoding::F64:
        return;
    }
  }
  void end(size_t rows);

  std::vector<Column> columns_;
  std::string bytes_, name_;
  Encoding encoding_ = Encoding::Varint;
  size_t offset_ = 0;
  int64_t before_ = 0;
};

/// "PLCVIEW1", the header's length, the header, the columns. The columns' index is put into the
/// header, which is an object of JSON without it.
PELLUCID_API std::string container(std::string header, const Columns& columns);

}  // namespace pellucid::serve
