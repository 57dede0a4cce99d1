// One thread's part of a recording: a mapped file that events are appended to, the scopes that are
// open, and what this thread has already numbered. Only its own thread touches it, but for the
// clock in the header.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "profile/raw.h"

namespace pellucid::profile {

/// A map from 64-bit keys to numbers, for one thread.
class NumberTable {
 public:
  /// 0 where the key is unknown.
  uint32_t find(uint64_t key) const noexcept {
    for (size_t i = key & mask();; i = (i + 1) & mask()) {
      if (cells_[i].value == 0) return 0;
      if (cells_[i].key == key) return cells_[i].value;
    }
  }
  void add(uint64_t key, uint32_t value);

 private:
  struct Cell {
    uint64_t key = 0;
    uint32_t value = 0;
  };
  size_t mask() const { return cells_.size() - 1; }
  std::vector<Cell> cells_ = std::vector<Cell>(256);
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
  uint64_t event = kNotRecorded;  // its number in this log
  uint32_t what = 0, site = 0, module = 0;
  uint16_t kind = 0;
  static constexpr uint64_t kNotRecorded = ~uint64_t{0};
};

/// Events go round in a small mapped buffer; when it is full, it is appended to a file with one
/// write. So memory stays small, pages are touched once, and a killed process loses nothing.
struct ThreadLog {
  static constexpr int kMostOpen = 256;
  ThreadLog(const std::string& path, size_t limit, uint32_t recording, bool counts);
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
  uint64_t number_of(const RawEvent* e) const { return base + static_cast<uint64_t>(e - first); }
  /// Completes an event, wherever it is by now.
  void finish(uint64_t number, uint64_t at, uint64_t link, uint16_t flags) noexcept;
  /// The counter of one (signature, site) in a recording that counts.
  RawEvent* counter(uint32_t what, uint32_t site) noexcept;
  const OpenScope* innermost() const {
    return depth > 0 && depth <= kMostOpen ? &open[depth - 1] : nullptr;
  }

  MappedFile file;
  uint32_t recording;  // which one this belongs to
  RawEvent *first = nullptr, *next = nullptr, *end = nullptr;
  uint64_t base = 0;  // the number of *first
  uint32_t lap = 1;
  int depth = 0;  // may pass kMostOpen; deeper scopes are not recorded
  OpenScope open[kMostOpen];
  NumberTable sites, stacks, signatures, modules;
  /// Closes without a word: the files belong to the process that forked.
  void abandon() noexcept;

 private:
  bool spill() noexcept;
  int spilled_ = -1;  // the file of earlier laps
  size_t limit_;
};

/// Both clocks now.
ClockPair read_clocks() noexcept;

}  // namespace pellucid::profile
