#include "recorder/python_frames.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "recorder/recorder_state.h"

namespace pellucid::profile {
namespace {

// The reader is complete before `g_walk` is set.
PythonFrameReader g_reader;
constinit std::atomic<bool> g_walk{false};
constinit std::atomic<const char*> g_missing{nullptr};

// Code objects that have a number: their place in this table, counted from 1. Handlers of several
// threads add to it without locks; whoever takes a place describes the code.
constexpr size_t kPlaces = 8192, kMostTried = 64;
constinit std::array<std::atomic<uint64_t>, kPlaces> g_codes{};

void describe(const PythonFrame& frame, uint32_t number,
              char* (*reserve)(size_t bytes) noexcept) noexcept {
  constexpr size_t kMostLines = 32768;
  PythonCode code;
  if (!g_reader.describe(frame, code)) return;
  RawCode raw{0,
              number,
              code.first_line,
              static_cast<uint32_t>(code.file_bytes),
              static_cast<uint32_t>(code.name_bytes),
              static_cast<uint32_t>(std::min(code.lines_bytes, kMostLines)),
              0};
  char* at = reserve(sizeof raw + raw.bytes());
  if (!at) return;
  char* body = at + sizeof raw;
  std::memcpy(body, code.file, raw.file_bytes);
  std::memcpy(body + raw.file_bytes, code.name, raw.name_bytes);
  if (!read_memory(code.lines, body + raw.file_bytes + raw.name_bytes, raw.lines_bytes))
    std::memset(body + raw.file_bytes + raw.name_bytes, 0, raw.lines_bytes);
  std::memcpy(at, &raw, sizeof raw);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  reinterpret_cast<RawCode*>(at)->magic = kCodeMagic;
}

uint32_t number_of(const PythonFrame& frame, char* (*reserve)(size_t bytes) noexcept) noexcept {
  const uint64_t key = frame.key | 1;  // 0 is an empty place
  for (size_t tried = 0; tried < kMostTried; ++tried) {
    const size_t at = ((key >> 1) + tried) % kPlaces;
    uint64_t found = g_codes[at].load(std::memory_order_relaxed);
    const auto number = static_cast<uint32_t>(at + 1);
    if (found == 0 && g_codes[at].compare_exchange_strong(found, key)) {
      describe(frame, number, reserve);
      return number;
    }
    if (found == key) return number;
  }
  return 0;
}

}  // namespace

bool read_memory(uint64_t from, void* to, size_t bytes) noexcept {
  if (bytes == 0) return true;
  const iovec local{to, bytes}, remote{reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

void set_python_frames(PythonFrameReader reader, const char* missing) noexcept {
  g_missing.store(missing);
  if (reader.walk && !g_walk.load()) {
    g_reader = reader;
    g_walk.store(true);
  }
  if (missing && recording_mode() == Mode::Sample) {
    const std::lock_guard lock(Recorder::get().mutex);
    Recorder::get().note_python_frames();
  }
}

const char* python_frames_missing() noexcept { return g_missing.load(); }

size_t read_python_frames(RawPythonFrame* out, char* (*reserve)(size_t bytes) noexcept) noexcept {
  if (!g_walk.load(std::memory_order_acquire)) return 0;
  PythonFrame frames[kMostPythonFrames];
  const size_t count = g_reader.walk(frames, kMostPythonFrames);
  for (size_t i = 0; i < count; ++i)
    out[i] = {number_of(frames[i], reserve), (frames[i].instruction & ~RawPythonFrame::kEntry) |
                                                 (frames[i].entry ? RawPythonFrame::kEntry : 0)};
  return count;
}

void forget_python_code() noexcept {
  for (auto& code : g_codes) code.store(0, std::memory_order_relaxed);
}

namespace {

// Numbers of the table: six bits a byte, the lowest first, the seventh says that more follow.
class LineTable {
 public:
  LineTable(const unsigned char* table, size_t bytes) : at_(table), end_(table + bytes) {}
  bool more() const { return at_ < end_ && (*at_ & 0x80); }
  unsigned byte() { return at_ < end_ ? *at_++ : 0; }
  int64_t signed_number() {
    uint64_t value = 0;
    for (unsigned shift = 0; at_ < end_ && shift < 60; shift += 6) {
      const unsigned b = byte();
      value |= static_cast<uint64_t>(b & 63) << shift;
      if (!(b & 64)) break;
    }
    const auto whole = static_cast<int64_t>(value >> 1);
    return value & 1 ? -whole : whole;
  }
  // Entries begin with a byte whose highest bit is set, and no other byte has it.
  void skip_rest() {
    while (at_ < end_ && !(*at_ & 0x80)) ++at_;
  }

 private:
  const unsigned char *at_, *end_;
};

}  // namespace

int python_line(const unsigned char* table, size_t bytes, int first_line, uint32_t instruction) {
  LineTable entries(table, bytes);
  int64_t line = first_line;
  uint64_t reached = 0;
  int last = first_line;
  while (entries.more()) {
    const unsigned head = entries.byte(), form = head >> 3 & 15;
    if (form == 13 || form == 14)
      line += entries.signed_number();
    else if (form >= 10 && form <= 12)
      line += form - 10;
    if (form != 15) last = static_cast<int>(line);  // 15: code without a line
    reached += (head & 7) + 1;
    if (instruction < reached) return form == 15 ? last : static_cast<int>(line);
    entries.skip_rest();
  }
  return first_line;
}

}  // namespace pellucid::profile
