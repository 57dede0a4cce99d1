// From the raw files to a Profile: numbers become names and lines, ticks become nanoseconds, the
// order of events becomes a tree, and what backward did is charged to the calls that caused it. A
// recording that was cut off anywhere is read as far as it goes.
#include "profile/collect.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "pellucid/error.h"
#include "profile/raw.h"
#include "profile/symbols.h"

namespace pellucid::profile {
namespace {

using Json = nlohmann::json;

TensorInfo tensor_from(const Json& j) {
  TensorInfo t;
  if (j.is_null()) return t;
  t.dtype = static_cast<DType>(std::clamp(j.at(0).get<int>(), 0, kDTypeCount - 1));
  t.sizes = j.at(1).get<std::vector<int64_t>>();
  return t;
}

// Each thread that calls it first tells; they say the same.
void set_cost(Signature& s, const Json& j) {
  s.outputs.clear();
  for (const Json& t : j.at("outputs"))
    if (!t.is_null()) s.outputs.push_back(tensor_from(t));
  s.has_cost = j.contains("flops");
  s.flops = j.value("flops", 0.0);
  s.bytes = j.value("bytes", 0.0);
  s.contraction_flops = j.value("contraction", 0.0);
}

Signature signature_from(const Json& j) {
  Signature s;
  s.kind = static_cast<EventKind>(std::clamp(j.at("kind").get<int>(), 0, kEventKindCount - 1));
  s.name = j.at("name").get<std::string>();
  s.op_kind = j.value("op_kind", "");
  s.attributes = j.value("attributes", "");
  if (j.contains("inputs"))
    for (const Json& t : j.at("inputs"))
      if (!t.is_null()) s.inputs.push_back(tensor_from(t));
  return s;
}

// The numbers of one process, as positions in the profile's tables.
class Definitions {
 public:
  Definitions(Collected& all, const std::string& path) : all_(all) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      const Json j = Json::parse(line, nullptr, false);
      if (j.is_discarded()) continue;  // cut off in the middle, at the end
      try {
        add(j);
      } catch (const Json::exception&) {
        // A line that says less than it should: what refers to it stays without a name.
      }
    }
  }

  ProcessClock clock;
  bool ended = false;
  int32_t process = 0;  // as the system numbers it, which is not enough: it may replace itself
  int32_t number = 0;
  std::vector<CalledFrom> calls{{}};

 private:
  void put(std::vector<int32_t>& table, const Json& number, size_t position) {
    const auto n = number.get<size_t>();
    if (n > 50'000'000) return;  // no number of ours
    if (table.size() <= n) table.resize(n + 1, -1);
    table[n] = static_cast<int32_t>(position);
  }

  void add(const Json& j) {
    Profile& p = all_.profile;
    if (j.contains("call")) {
      add_call(j);
    } else if (j.contains("signature")) {
      p.signatures.push_back(signature_from(j));
      put(signatures_, j["signature"], p.signatures.size() - 1);
    } else if (j.contains("cost")) {
      const auto n = j["cost"].get<size_t>();
      if (n < signatures_.size() && signatures_[n] >= 0)
        set_cost(p.signatures[static_cast<size_t>(signatures_[n])], j);
    } else if (j.contains("site")) {
      p.sites.push_back(site_from(j));
      put(sites_, j["site"], p.sites.size() - 1);
    } else if (j.contains("stack")) {
      add_stack(j);
    } else if (j.contains("module")) {
      add_module(j);
    } else if (j.contains("stalls_missing")) {
      p.run.stalls_missing = j["stalls_missing"].get<std::string>();
    } else if (j.contains("start")) {
      start(j["start"]);
    } else if (j.contains("end")) {
      ended = true;
      const Json& e = j["end"];
      clock.settle(e.at("clocks").at(0), e.at("clocks").at(1));
      end_ns = e.at("clocks").at(1).get<int64_t>();
      for (const Json& c : e.at("counters")) counters.push_back({c.at(0), c.at(1), c.at(2)});
    }
  }

  Site site_from(const Json& j) {
    if (!j.contains("object")) {
      Site s;
      s.file = j.value("file", "");
      s.line = j.value("line", 0);
      s.function = j.value("function", "");
      s.python = true;
      return s;
    }
    return all_.symbols.program_line(j.at("object").get<std::string>(),
                                     j.at("offset").get<uint64_t>());
  }

  void add_stack(const Json& j) {
    int32_t frame = -1;
    const Json& list = j.at("frames");
    for (size_t i = list.size(); i-- > 0;) {  // the outermost is last
      frame = all_.child_frame(frame, all_.place_of(site_from(list[i])));
    }
    if (frame >= 0) put(stacks_, j["stack"], static_cast<size_t>(frame));
  }

  static int32_t at(const std::vector<int32_t>& table, const Json& number) {
    const auto n = number.get<size_t>();
    return n < table.size() ? table[n] : -1;
  }

  void add_call(const Json& j) {
    const auto n = j["call"].get<size_t>();
    if (n > 50'000'000) return;  // no number of ours
    CalledFrom c;
    if (j.at("kind").get<int>() == static_cast<int>(EventKind::Module)) {
      c.module = at(modules_, j.at("what"));
      if (c.module >= 0) c.signature = all_.module_signature(c.module);
    } else {
      c.signature = at(signatures_, j.at("what"));
    }
    const auto line = j.at("line").get<uint32_t>();
    if (line & kRawStack) {
      c.stack = at(stacks_, line & ~kRawStack);
      if (c.stack >= 0) c.site = all_.profile.frames[static_cast<size_t>(c.stack)].site;
    } else {
      c.site = at(sites_, line);
    }
    if (calls.size() <= n) calls.resize(n + 1);
    calls[n] = c;
  }

  void add_module(const Json& j) {
    ModuleInfo m;
    const auto parent = j.at("parent").get<size_t>();
    m.parent = parent < modules_.size() ? modules_[parent] : -1;
    m.type = j.at("type").get<std::string>();
    m.name = j.at("name").get<std::string>();
    m.parameters = j.at("parameters").get<int64_t>();
    m.parameter_bytes = j.at("bytes").get<int64_t>();
    if (m.parent >= 0) {
      const std::string& above = all_.profile.modules[static_cast<size_t>(m.parent)].path;
      m.path = above.empty() || m.name.empty() ? above + m.name : above + "." + m.name;
    }
    if (m.name.empty()) m.name = m.type;
    put(modules_, j["module"], all_.profile.modules.size());
    all_.profile.modules.push_back(std::move(m));
  }

  void start(const Json& s) {
    const Json& c = s.at("clocks");
    clock.ticks = c.at(0).get<uint64_t>();
    clock.nanoseconds = c.at(1).get<int64_t>();
    clock.settle(c.at(2), c.at(3));
    process = s.at("process").get<int32_t>();
    number = all_.processes++;
    RunInfo& run = all_.profile.run;
    if (!run.started.empty() && clock.nanoseconds > all_.start_ns) return;  // the child of a fork
    all_.start_ns = clock.nanoseconds;
    run.program = s.at("program").get<std::string>();
    run.version = s.at("version").get<std::string>();
    run.started = s.at("started").get<std::string>();
    run.mode = s.at("mode").get<std::string>();
    run.sample_rate = s.at("sample_rate").get<double>();
    run.memory_at_start = s.at("memory_at_start").get<int64_t>();
  }

  Collected& all_;
  std::vector<int32_t> signatures_{-1}, sites_{-1}, modules_{-1};
  std::vector<int32_t> stacks_{-1};  // the innermost frame

 public:
  int64_t end_ns = 0;
  std::vector<Counter> counters;  // of the process and of what it starts
};

// A file of raw events, mapped for reading.
class RawFile {
 public:
  explicit RawFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat facts {};
    if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size > 0) {
      size_ = static_cast<size_t>(facts.st_size);
      void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      data_ = p == MAP_FAILED ? nullptr : static_cast<const char*>(p);
      if (!data_) size_ = 0;
    }
    if (file >= 0) close(file);
  }
  ~RawFile() {
    if (data_) munmap(const_cast<char*>(data_), size_);
  }
  RawFile(const RawFile&) = delete;
  const RawHeader* header() const {
    const auto* h = reinterpret_cast<const RawHeader*>(data_);
    return data_ && size_ >= kRawHeaderBytes && h->magic == kRawMagic &&
                   h->event_bytes == sizeof(RawEvent)
               ? h
               : nullptr;
  }
  /// A file of events alone.
  const RawEvent* all() const { return reinterpret_cast<const RawEvent*>(data_); }
  size_t all_count() const { return size_ / sizeof(RawEvent); }
  const RawEvent* events() const {
    return reinterpret_cast<const RawEvent*>(data_ + kRawHeaderBytes);
  }
  size_t count() const { return (size_ - kRawHeaderBytes) / sizeof(RawEvent); }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// Turns one thread's events into rows, keeping the stack of scopes that are open.
class ThreadReader {
 public:
  ThreadReader(Collected& all, const Definitions& d, int32_t thread)
      : all_(all), d_(d), thread_(thread) {}

  void read(const RawFile& file, const RawFile& earlier) {
    const RawHeader& h = *file.header();
    read(earlier.all(), std::min<size_t>(h.spilled, earlier.all_count()), 0);
    // Killed between writing a lap and beginning the next: what is in the buffer was read above.
    const bool twice = h.spilled > (uint64_t{h.lap} - 1) * file.count();
    if (!twice) read(file.events(), file.count(), h.lap);
    while (!open_.empty()) leave();
  }

 private:
  // Until an event that is not of this lap; 0 takes all.
  void read(const RawEvent* e, size_t count, uint32_t lap) {
    for (size_t i = 0; i < count && (lap == 0 || e[i].lap == lap); ++i) {
      all_.profile.run.recorded_bytes += sizeof(RawEvent);
      if (e[i].kind() == kRawAllocation || e[i].kind() == kRawFree)
        memory(e[i]);
      else if (e[i].kind() <= kEventKindCount)
        scope(e[i]);
    }
  }

  Event& event(int32_t i) { return all_.profile.events[static_cast<size_t>(i)]; }
  int64_t time(uint64_t ticks) const { return d_.clock.at(ticks) - all_.start_ns; }

  void leave() {
    const Event& e = event(open_.back());
    open_.pop_back();
    if (e.parent >= 0) event(e.parent).self -= e.end - e.begin;
  }
  void leave_before(int64_t now) {
    while (!open_.empty() && !event(open_.back()).open && event(open_.back()).end <= now) leave();
  }

  void memory(const RawEvent& raw) {
    const int64_t now = time(raw.begin);
    leave_before(now);
    all_.blocks.push_back({raw.begin, raw.high(), static_cast<int64_t>(raw.size()), d_.number, now,
                           thread_, open_.empty() ? -1 : open_.back(), raw.flags(),
                           raw.kind() == kRawFree});
  }

  void scope(const RawEvent& raw) {
    Event e;
    e.begin = time(raw.begin);
    leave_before(e.begin);
    e.open = !(raw.flags() & kRawDone);
    e.end = e.open ? e.begin : std::max(e.begin, time(raw.begin + raw.high()));
    e.threw = raw.flags() & kRawThrew;
    e.thread = thread_;
    e.inputs = raw.inputs;
    if (raw.call >= d_.calls.size() || d_.calls[raw.call].signature < 0) return;
    const CalledFrom& call = d_.calls[raw.call];
    e.signature = call.signature;
    e.site = call.site;
    e.stack = call.stack;
    const auto kind = static_cast<EventKind>(raw.kind() - 1);
    if (!open_.empty()) {
      const Event& above = event(open_.back());
      e.parent = open_.back();
      e.phase = above.phase;
      e.module = above.module;
      if (!e.open && !above.open)  // rounding of ticks
        e.end = std::max(e.begin, std::min(e.end, above.end));
    }
    if (kind == EventKind::Engine) e.phase = Phase::Backward;
    if (kind == EventKind::Optimizer) e.phase = Phase::Optimizer;
    if (kind == EventKind::Step) ++step_;
    e.step = step_;
    if (kind == EventKind::Module) e.module = call.module;
    e.self = e.end - e.begin;
    const auto index = static_cast<int32_t>(all_.profile.events.size());
    if (kind == EventKind::Op && raw.link) all_.nodes[Collected::key(d_.number, raw.link)] = index;
    if (kind == EventKind::Backward) all_.backward.push_back({index, d_.number, raw.link});
    all_.profile.events.push_back(e);
    open_.push_back(index);
  }

  Collected& all_;
  const Definitions& d_;
  int32_t thread_;
  int32_t step_ = -1;
  std::vector<int32_t> open_;
};

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

// An event that was cut off lasts as long as what is known of it.
void close_open_events(Profile& p) {
  std::map<int32_t, int64_t> last;
  for (const Event& e : p.events) last[e.thread] = std::max(last[e.thread], e.end);
  for (size_t i = p.events.size(); i-- > 0;) {
    Event& e = p.events[i];
    if (!e.open) continue;
    const int64_t end = std::max(last[e.thread], e.begin);
    e.self += end - e.end;
    if (e.parent >= 0) p.events[static_cast<size_t>(e.parent)].self -= end - e.end;
    e.end = end;
  }
}

// Templates of our headers run in the program's own code; the line that called them is that of the
// scope around.
void skip_headers(Profile& p) {
  std::vector<char> ours;
  for (const Site& s : p.sites) ours.push_back(is_library_header(s.file));
  for (Event& e : p.events) {
    if (e.parent < 0 || (e.site >= 0 && !ours[static_cast<size_t>(e.site)])) continue;
    const int32_t above = p.events[static_cast<size_t>(e.parent)].site;
    if (above >= 0) e.site = above;
  }
}

// Backward work belongs to the forward call that left the node: its line and module.
void charge_backward(Collected& all) {
  Profile& p = all.profile;
  for (const Collected::BackwardNode& b : all.backward) {
    const auto it = all.nodes.find(Collected::key(b.process, b.node));
    if (it != all.nodes.end()) p.events[static_cast<size_t>(b.event)].forward = it->second;
  }
  for (Event& e : p.events) {
    if (e.phase != Phase::Backward) continue;
    if (e.forward >= 0) {
      const Event& f = p.events[static_cast<size_t>(e.forward)];
      e.site = f.site;
      e.module = f.module;
    } else if (e.parent >= 0) {
      const Event& above = p.events[static_cast<size_t>(e.parent)];
      if (p.signatures[static_cast<size_t>(above.signature)].kind != EventKind::Engine) {
        e.site = above.site;
        e.module = above.module;
      }
    }
  }
}

// Matches frees with allocations, over all threads in the order of time, and finds the peak.
void pair_blocks(Collected& all) {
  Profile& p = all.profile;
  std::sort(all.blocks.begin(), all.blocks.end(),
            [](const auto& a, const auto& b) { return a.ticks < b.ticks; });
  std::unordered_map<uint64_t, int32_t> alive;
  int64_t now = p.run.memory_at_start, peak = now;
  for (const Collected::Block& b : all.blocks) {
    const auto event = [&]() -> Event* {
      return b.event >= 0 ? &p.events[static_cast<size_t>(b.event)] : nullptr;
    }();
    const uint64_t key = Collected::key(b.process, b.address);
    if (b.is_free) {
      now -= b.bytes;
      if (event) event->freed += b.bytes;
      if (const auto it = alive.find(key); it != alive.end()) {
        Allocation& a = p.allocations[static_cast<size_t>(it->second)];
        a.end = b.at;
        a.freed_by = b.event;
        alive.erase(it);
      }
      continue;
    }
    now += b.bytes;
    peak = std::max(peak, now);
    if (event) event->allocated += b.bytes;
    alive[key] = static_cast<int32_t>(p.allocations.size());
    const int category = std::min<int>(b.category, kMemoryCategoryCount - 1);
    p.allocations.push_back(
        {b.at, -1, b.bytes, b.event, -1, b.thread, static_cast<MemoryCategory>(category)});
  }
  p.run.peak_memory = peak;
}

void read_counts(Collected& all, const Definitions& d, const RawFile& file) {
  for (size_t i = 0; i < file.count(); ++i) {
    const RawEvent& e = file.events()[i];
    if (e.kind() == kRawNothing || e.call >= d.calls.size()) continue;
    const CalledFrom& call = d.calls[e.call];
    all.profile.run.recorded_bytes += sizeof(RawEvent);
    if (call.signature >= 0)
      all.profile.counts.push_back({call.signature, call.site, static_cast<int64_t>(e.begin)});
  }
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
    const int32_t thread = all.thread_index(h->process, h->thread,
                                            std::string(h->name, strnlen(h->name, sizeof h->name)));
    if (counts)
      read_counts(all, d, file);
    else
      ThreadReader(all, d, thread).read(file, RawFile(folder + "/" + name + ".more"));
  }
  close_open_events(p);
  skip_headers(p);
  charge_backward(all);
  pair_blocks(all);
  for (const auto& [tag, d] : processes) read_stalls(all, folder, tag, d.process);
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
  for (const Event& e : p.events) p.run.duration = std::max(p.run.duration, e.end);
  for (const Sample& s : p.samples) p.run.duration = std::max(p.run.duration, s.at);
  return std::move(all.profile);
}

}  // namespace pellucid::profile
