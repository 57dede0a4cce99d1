// The events and blocks of a profile once more, as packed columns beside their rows: SQLite takes
// a second to hand out a million rows, and this a twentieth of it. Each column has a checksum; the
// rows are what people query, and `pellucid report --verify` compares both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// One column: varints of the folded differences from row to row.
struct PackedColumn {
  std::string name;  ///< "event.begin"
  int64_t rows = 0;
  uint32_t checksum = 0;  ///< CRC-32 of the bytes
  std::string bytes;
};

std::vector<PackedColumn> pack(const Profile& p);

/// Reads the columns into the profile's events and blocks. False, and nothing changed, where one is
/// missing, damaged, of another length than the others, or of no known name.
bool unpack(const std::vector<PackedColumn>& columns, Profile& p);

}  // namespace pellucid::profile
