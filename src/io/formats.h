// What the loaders share: recognising files of other programs.
#pragma once

#include <string>
#include <string_view>

namespace pellucid::io {

/// Throws IoError with a sentence on converting if the bytes (nine or more, where the file has
/// them) begin a pickle or zip file (torch.save).
void refuse_pickle(std::string_view first_bytes, const std::string& path);

}  // namespace pellucid::io
