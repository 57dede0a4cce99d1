// The header of a safetensors file: reading it with every claim checked, and writing it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/io/safetensors.h"

namespace pellucid::io {

/// One tensor of a header; offsets count from the end of the header.
struct HeaderEntry {
  std::string name;
  DType dtype = kFloat32;
  Dims sizes;
  uint64_t begin = 0, end = 0;
};

struct Header {
  std::vector<HeaderEntry> entries;
  Metadata metadata;
};

/// Parses the JSON text; `data_bytes` is what follows it in the file. Checks names, dtypes, shapes,
/// and that the tensors fill the data without gap or overlap. `where` begins the messages.
Header parse_header(std::string_view json, uint64_t data_bytes, const std::string& where);
/// The JSON text, padded with spaces to a multiple of eight bytes less the length that stands
/// before it.
std::string write_header(const Header& header);

}  // namespace pellucid::io
