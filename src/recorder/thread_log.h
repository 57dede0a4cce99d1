// One thread's part of a recording: a mapped file that events are appended to, the scopes that are
// open, and what this thread has already numbered. Only its own thread touches it, but for the
// clock in the header.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "pellucid/recorder.h"
#include "recorder/raw.h"
#include "recorder/usage.h"

namespace pellucid::profile {

/// A map from 64-bit keys to numbers, for one thread.
class NumberTable {
 public:
  struct Cell {
    uint64_t key = 0;
    uint32_t value = 0;
    uint32_t more = 0;  // of a module's call: the module
  };
  /// Null where the key is unknown.
  const Cell* find_cell(uint64_t key) const noexcept {
    for (size_t i = key & mask_;; i = (i + 1) & mask_) {
      const Cell& c = cells_[i];
      if (c.key == key && c.value != 0) [[likely]]
        return &c;
      if (c.value == 0) return nullptr;
    }
  }
  /// 0 where the key is unknown.
  uint32_t find(uint64_t key) const noexcept {
    const Cell* c = find_cell(key);
    return c ? c->value : 0;
  }
  void add(uint64_t key, uint32_t value, uint32_t more = 0);

 private:
  size_t mask_ = 255;
  std::vector<Cell> cells_ = std::vector<Cell>(mask_ + 1);
  size_t used_ = 0;
};

/// A file of fixed length in memory that grows in steps as it is filled; what is written survives
/// the process. Blocks are reserved on disk before they are touched, so that a full disk ends the
/// recording and not the program.
class MappedFile {
 public:
  /// `most` bytes are set aside in the address space. Throws IoError.
  MappedFile(const std::string& path, size_t most);
  ~MappedFile();  // cuts the file to what is used
  MappedFile(const MappedFile&) = delete;
  char* data() const { return base_; }
  size_t ready() const { return ready_; }  // bytes that may be touched
  /// Makes room up to `bytes`; false at the limit or where the disk is full.
  bool grow(size_t bytes) noexcept;
  /// The bytes that the file keeps when it is closed.
  void set_used(size_t bytes) { used_ = bytes; }
  /// Closes without cutting: the file belongs to another process now.
  void abandon() noexcept;

 private:
  int file_ = -1;
  char* base_ = nullptr;
  size_t most_ = 0, ready_ = 0, used_ = 0, released_ = 0;
};

struct OpenScope {
  const void* owner = nullptr;
  uint64_t place = 0;         // the line it was begun from, see find_place
  RawEvent* event = nullptr;  // null: not recorded
  uint32_t lap = 0;           // of the event; in a later one it is no longer there
  uint32_t module = 0;        // the innermost one
  uint32_t call = 0;
  uint16_t kind = 0;
  uint16_t counts_usage = 0;
};

/// Events go round in a small mapped buffer; when it is full, it is appended to a file with one
/// write. So memory stays small, pages are touched once, and a killed process loses nothing.
/// What every event needs comes first, in one cache line.
struct alignas(64) ThreadLog {
  static constexpr int kMostOpen = 256;
  ThreadLog(const std::string& path, size_t limit, uint32_t recording, Mode mode);
  ~ThreadLog();
  RawHeader& header() { return *reinterpret_cast<RawHeader*>(file.data()); }
  RawEvent* append() noexcept {
    if (next == end && !spill()) [[unlikely]]
      return nullptr;
    return next++;
  }
  /// The event is complete enough to be read.
  void publish(RawEvent* e) const noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    e->lap = lap;
  }
  /// Completes the event of a scope, wherever it is by now.
  void finish(const OpenScope& scope, uint64_t at, uint32_t link, uint8_t flags) noexcept {
    if (scope.lap == lap) [[likely]]
      complete(*scope.event, at, link, flags);
    else
      finish_spilled(scope, at, link, flags);
  }
  /// Counts a call, in a recording that counts.
  void count(uint32_t call, uint8_t kind) noexcept;
  const OpenScope* innermost() const {
    return depth > 0 && depth <= kMostOpen ? &open[depth - 1] : nullptr;
  }

  RawEvent *first = nullptr, *next = nullptr, *end = nullptr;
  uint32_t recording;  // which one this belongs to
  uint32_t lap = 1;
  int depth = 0;  // may pass kMostOpen; deeper scopes are not recorded
  Mode mode;
  /// Whether blocks are numbered: other threads record theirs too, so that the order of this log
  /// is not that of all.
  std::atomic<bool> numbers_blocks{false};
  uint64_t last = 0;                   // the latest stamp
  std::unique_ptr<UsageScopes> usage;  // null where the kernel tells of page faults and switches
  NumberTable calls;                   // by a hash of what is called and from where
  MappedFile file;
  OpenScope open[kMostOpen];
  NumberTable signatures, modules, sites, stacks, pairs;
  /// Closes without a word: the files belong to the process that forked.
  void abandon() noexcept;

 private:
  static void complete(RawEvent& e, uint64_t at, uint32_t link, uint8_t flags) noexcept {
    if (link) e.link = link;
    e.rest = RawEvent::pack(e.kind(), flags | kRawDone, at - e.begin);
  }
  void finish_spilled(const OpenScope& scope, uint64_t at, uint32_t link, uint8_t flags) noexcept;
  bool spill() noexcept;
  int spilled_ = -1;  // the file of earlier laps
  size_t limit_;
};

/// Both clocks now.
ClockPair read_clocks() noexcept;

}  // namespace pellucid::profile
