// From the raw files of a recording to a Profile. A recording that was cut off anywhere is read as
// far as it goes.
#include "profile/collect.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/statistics.h"
#include "pellucid/error.h"
#include "profile/read_definitions.h"
#include "profile/read_events.h"

namespace pellucid::profile {
namespace {

std::vector<std::string> files_of(const std::string& folder) {
  DIR* d = opendir(folder.c_str());
  PELLUCID_CHECK(d, IoError, "profile: the folder '{}' of a recording could not be read: {}.",
                 folder, std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(d)) names.emplace_back(entry->d_name);
  closedir(d);
  std::sort(names.begin(), names.end());
  return names;
}

// "definitions-12-ab" and "events-12-ab-14-0" are of the process 12-ab.
std::string tag_of(const std::string& name) {
  const size_t first = name.find('-') + 1, second = name.find('-', first);
  if (first == 0 || second == std::string::npos) return {};
  return name.substr(first, std::min(name.find('-', second + 1), name.size()) - first);
}

// The longest span that both clocks were read over, before any time is computed.
void settle_clocks(std::map<std::string, Definitions>& processes, const std::string& folder,
                   const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.starts_with("events-") && !name.starts_with("counts-")) continue;
    if (name.ends_with(".more")) continue;
    const RawFile file(folder + "/" + name);
    const RawHeader* h = file.header();
    if (!h || !processes.contains(tag_of(name))) continue;
    processes.at(tag_of(name)).clock.settle(h->last.ticks, h->last.nanoseconds);
  }
}

// A process that was killed lasted as long as its blocks tell; one that ended before another gave
// its memory back.
void end_processes(Collected& all) {
  int64_t last = 0;
  for (const Collected::Block& b : all.blocks) {
    Collected::ProcessMemory& m = all.memory[static_cast<size_t>(b.process)];
    m.end = std::max(m.end, b.at);
  }
  for (const Collected::ProcessMemory& m : all.memory) last = std::max(last, m.end);
  for (Collected::ProcessMemory& m : all.memory) m.closes = m.end < last;
}

}  // namespace

int32_t Collected::place_of(const Site& s) {
  const auto [it, is_new] = places.try_emplace({s.file, s.line, s.function, s.object},
                                               static_cast<int32_t>(profile.sites.size()));
  if (is_new) profile.sites.push_back(s);
  return it->second;
}

int32_t Collected::child_frame(int32_t parent, int32_t site) {
  const auto [it, is_new] = frame_numbers.try_emplace(std::pair(parent, site),
                                                      static_cast<int32_t>(profile.frames.size()));
  if (is_new) profile.frames.push_back({parent, site});
  return it->second;
}

int32_t Collected::thread_index(int32_t process, int32_t id, const std::string& name) {
  for (size_t i = 0; i < profile.threads.size(); ++i)
    if (profile.threads[i].process == process && profile.threads[i].id == id)
      return static_cast<int32_t>(i);
  profile.threads.push_back({process, id, name});
  return static_cast<int32_t>(profile.threads.size() - 1);
}

int32_t Collected::module_signature(int32_t module) {
  const std::string& type = profile.modules[static_cast<size_t>(module)].type;
  const auto [it, is_new] = module_types.try_emplace(type, 0);
  if (is_new) {
    it->second = static_cast<int32_t>(profile.signatures.size());
    Signature s;
    s.kind = EventKind::Module;
    s.name = type;
    profile.signatures.push_back(std::move(s));
  }
  return it->second;
}

void Collected::add_note(const std::string& text) {
  std::vector<std::string>& notes = profile.run.notes;
  constexpr size_t kMost = 20;  // a program may start a thousand threads that have the same trouble
  if (notes.size() < kMost && std::find(notes.begin(), notes.end(), text) == notes.end())
    notes.push_back(text);
}

int32_t Collected::idle_signature() {
  if (idle < 0) {
    idle = static_cast<int32_t>(profile.signatures.size());
    Signature s;
    s.kind = EventKind::Wait;
    s.name = "(threads of the pool without work)";
    profile.signatures.push_back(std::move(s));
  }
  return idle;
}

bool Collected::is_python_package(const std::string& file) const {
  if (!python_package.empty()) return file.starts_with(python_package);
  return file.find("-packages/pellucid/") != std::string::npos;
}

Profile collect(const std::string& folder) {
  Collected all;
  const std::vector<std::string> names = files_of(folder);
  std::map<std::string, Definitions> processes;
  for (const std::string& name : names)
    if (name.starts_with("definitions-"))
      processes.try_emplace(tag_of(name), all, folder + "/" + name);
  PELLUCID_CHECK(!processes.empty() && !all.profile.run.started.empty(), IoError,
                 "profile: '{}' holds no recording.", folder);
  settle_clocks(processes, folder, names);
  Profile& p = all.profile;
  for (const std::string& name : names) {
    const bool counts = name.starts_with("counts-");
    if ((!counts && !name.starts_with("events-")) || name.ends_with(".more")) continue;
    const RawFile file(folder + "/" + name);
    const RawHeader* h = file.header();
    if (!h || !processes.contains(tag_of(name))) continue;
    Definitions& d = processes.at(tag_of(name));
    p.run.dropped += static_cast<int64_t>(h->dropped);
    p.run.scopes += static_cast<int64_t>(h->scopes);
    if (h->full_error)
      all.add_note(
          fmt::format("thread {}: only its first events are recorded: the file for more could "
                      "not be {} ({})",
                      h->thread, h->spilled ? "written" : "made", std::strerror(h->full_error)));
    const int32_t thread = all.thread_index(h->process, h->thread,
                                            std::string(h->name, strnlen(h->name, sizeof h->name)));
    if (counts)
      read_counts(all, d, file);
    else
      read_events(all, d, thread, file, RawFile(folder + "/" + name + ".more"));
  }
  charge_events(all);
  for (const auto& [tag, d] : processes) {
    if (d.number >= static_cast<int32_t>(all.memory.size())) continue;  // it has no start
    Collected::ProcessMemory& m = all.memory[static_cast<size_t>(d.number)];
    m.begin = d.clock.nanoseconds - all.start_ns;
    m.end = d.ended ? d.end_ns - all.start_ns : m.begin;
  }
  end_processes(all);
  pair_blocks(all);
  for (const auto& [tag, d] : processes) read_stalls(all, folder, tag, d.process, d.clock);
  std::stable_sort(p.stalls.begin(), p.stalls.end(),
                   [](const Stall& a, const Stall& b) { return a.begin < b.begin; });
  int64_t earliest = INT64_MAX;
  for (auto& [tag, d] : processes) {
    if (d.clock.nanoseconds < earliest) p.counters = d.counters;
    earliest = std::min(earliest, d.clock.nanoseconds);
    p.run.complete = p.run.complete && d.ended;
    if (d.ended) p.run.duration = std::max(p.run.duration, d.end_ns - all.start_ns);
    read_samples(all, folder, tag, d.process, d.clock, d.calls);
  }
  if (!p.samples.empty())  // the median: a handler that lost its core waited for others
    p.run.sample_cost = median(std::move(all.handler_ns)) +
                        static_cast<double>(all.watched_ns) / static_cast<double>(p.samples.size());
  for (const Event& e : p.events) p.run.duration = std::max(p.run.duration, e.end);
  for (const Sample& s : p.samples) p.run.duration = std::max(p.run.duration, s.at);
  return std::move(all.profile);
}

}  // namespace pellucid::profile
