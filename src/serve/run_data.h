// A run folder of `pellucid train` for the page: its metrics, and what is added to them while it
// runs. Links in the folder are not followed, and a line that is not whole yet is left for later.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::serve {

/// The files of a run that the page shows: metrics.jsonl, layers.jsonl and live.jsonl.
inline constexpr std::array<std::string_view, 3> kRunFiles = {"metrics", "layers", "live"};
/// How many bytes of each were read.
using RunPosition = std::array<uint64_t, kRunFiles.size()>;

/// Whether the folder is one of a run: it holds metrics.jsonl.
PELLUCID_API bool is_run_folder(const std::string& path);

/// The view data of a run. Throws IoError for a folder without metrics.
PELLUCID_API std::string run_data(const std::string& folder, std::string_view name);

/// The whole lines that were added since, as one message of JSON, or "" where there are none; moves
/// the position on. A file that became shorter is read from its beginning, and the message says so.
PELLUCID_API std::string run_news(const std::string& folder, RunPosition& position);

}  // namespace pellucid::serve
