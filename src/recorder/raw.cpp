// Names in a recording: of kinds of events, modes and raw files. Raw files are removed by name.
#include "recorder/raw.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "pellucid/error.h"
#include "recorder/recorder.h"

namespace pellucid::profile {

std::string_view name_of(EventKind kind) {
  constexpr std::string_view kNames[] = {"op",        "composite", "module", "backward", "engine",
                                         "optimizer", "wait",      "user",   "step"};
  return kNames[static_cast<int>(kind)];
}

Mode mode_from_name(std::string_view name) {
  if (name == "trace") return Mode::Trace;
  if (name == "count") return Mode::Count;
  if (name == "sample") return Mode::Sample;
  pellucid::detail::raise<ValueError>(
      "profile: '{}' is no mode; there are trace, count and sample.", name);
}

namespace {

// Takes a run of such characters off the text; whether there was one.
bool skip(std::string_view& text, std::string_view of) {
  const size_t n = std::min(text.find_first_not_of(of), text.size());
  text.remove_prefix(n);
  return n > 0;
}

// "events-12-ab-14-0.more": the names of raw.h, and no others that merely begin so.
bool is_raw_name(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789", kHex = "0123456789abcdef";
  for (const std::string_view kind :
       {"events-", "counts-", "definitions-", "samples-", "maps-", "stalls-"}) {
    if (!name.starts_with(kind)) continue;
    name.remove_prefix(kind.size());
    if (!skip(name, kDigits) || !skip(name, "-") || !skip(name, kHex)) return false;
    while (skip(name, "-"))
      if (!skip(name, kDigits)) return false;
    return name.empty() || name == ".more" || name == ".part";
  }
  return false;
}

}  // namespace

void remove_folder(const std::string& folder) {
  const int opened = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* d = opened >= 0 ? fdopendir(opened) : nullptr;
  if (!d) return;
  while (const dirent* entry = readdir(d))
    if (is_raw_name(entry->d_name)) unlinkat(opened, entry->d_name, 0);
  closedir(d);
  rmdir(folder.c_str());
}

}  // namespace pellucid::profile
