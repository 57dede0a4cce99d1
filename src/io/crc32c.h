// CRC-32C (Castagnoli), the checksum of checkpoints and of TensorBoard's records.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pellucid/api.h"

namespace pellucid::io {

/// The checksum of bytes that follow those whose checksum is `before`.
PELLUCID_API uint32_t crc32c(const void* bytes, size_t count, uint32_t before = 0);

}  // namespace pellucid::io
