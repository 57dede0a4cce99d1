// From raw events to rows: ticks become nanoseconds, and the order of events becomes a tree. What
// was cut off is read as far as it goes.
#include "profile/read_events.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/files.h"

namespace pellucid::profile {

RawFile::RawFile(const std::string& path) {
  const int file = io::open_regular(path, O_RDONLY, io::Links::Refuse);
  struct stat facts {};
  if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size > 0) {
    size_ = static_cast<size_t>(facts.st_size);
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    data_ = p == MAP_FAILED ? nullptr : static_cast<const char*>(p);
    if (!data_) size_ = 0;
  }
  if (file >= 0) close(file);
}

RawFile::~RawFile() {
  if (data_) munmap(const_cast<char*>(data_), size_);
}

namespace {

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
      if (e[i].kind() >= kRawAllocation && e[i].kind() <= kRawUse)
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
    all_.blocks.push_back({raw.high(), static_cast<int64_t>(raw.size()), now, raw.inputs, d_.number,
                           thread_, open_.empty() ? -1 : open_.back(), raw.flags(),
                           raw.kind() == kRawFree, raw.kind() == kRawCategory,
                           raw.kind() == kRawUse});
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

}  // namespace

void read_events(Collected& all, const Definitions& d, int32_t thread, const RawFile& file,
                 const RawFile& earlier) {
  ThreadReader(all, d, thread).read(file, earlier);
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

}  // namespace pellucid::profile
