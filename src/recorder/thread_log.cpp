#include "recorder/thread_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "pellucid/error.h"
#include "recorder/stalls.h"

namespace pellucid::profile {
namespace {
constexpr size_t kGrowth = size_t{4} << 20;   // how much of a file is made ready at a time
constexpr size_t kWindow = size_t{16} << 20;  // how much of it stays in the process's memory
}  // namespace

ClockPair read_clocks() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return {__rdtsc(), int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

void NumberTable::add(uint64_t key, uint32_t value, uint32_t more) {
  if (2 * (used_ + 1) > cells_.size()) {
    std::vector<Cell> old(cells_.size() * 2);
    old.swap(cells_);
    mask_ = cells_.size() - 1;
    used_ = 0;
    for (const Cell& c : old)
      if (c.value) add(c.key, c.value, c.more);
  }
  size_t i = key & mask_;
  while (cells_[i].value) i = (i + 1) & mask_;
  cells_[i] = {key, value, more};
  ++used_;
}

MappedFile::MappedFile(const std::string& path, size_t most) : most_(most) {
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  PELLUCID_CHECK(file_ >= 0, IoError, "profile: '{}' could not be made: {}.", path,
                 std::strerror(errno));
  void* p = MAP_FAILED;
  if (ftruncate(file_, static_cast<off_t>(most_)) == 0)
    p = mmap(nullptr, most_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (p == MAP_FAILED) {
    const int error = errno;
    close(file_);
    unlink(path.c_str());
    pellucid::detail::raise<IoError>("profile: '{}' could not be mapped: {}.", path,
                                     std::strerror(error));
  }
  base_ = static_cast<char*>(p);
}

MappedFile::~MappedFile() {
  if (!base_) return;
  munmap(base_, most_);
  [[maybe_unused]] const int cut = ftruncate(file_, static_cast<off_t>(used_));
  close(file_);
}

bool MappedFile::grow(size_t bytes) noexcept {
  if (bytes > most_ || !base_) return false;
  const size_t wanted = std::min(most_, (bytes + kGrowth - 1) / kGrowth * kGrowth);
  int error = 0;
  do {  // a timer's signal may interrupt it
    error = posix_fallocate(file_, static_cast<off_t>(ready_), static_cast<off_t>(wanted - ready_));
  } while (error == EINTR);
  if (error != 0) return false;
  ready_ = wanted;
  // What was written long ago goes to the disk; the process keeps a window.
  if (ready_ > released_ + 2 * kWindow) {
    madvise(base_ + released_, kWindow, MADV_DONTNEED);
    released_ += kWindow;
  }
  return true;
}

void MappedFile::abandon() noexcept {
  if (!base_) return;
  munmap(base_, most_);
  close(file_);
  base_ = nullptr;
}

namespace {
constexpr size_t kCounters = size_t{1} << 15;
constexpr size_t kBuffered = 8192;  // events, 256 KB
constexpr size_t file_bytes(bool counts) {
  return kRawHeaderBytes + (counts ? kCounters : kBuffered) * sizeof(RawEvent);
}
}  // namespace

ThreadLog::ThreadLog(const std::string& path, size_t limit, uint32_t serial, Mode how)
    : recording(serial), mode(how), file(path, file_bytes(how == Mode::Count)), limit_(limit) {
  const bool counts = mode == Mode::Count;
  PELLUCID_CHECK(file.grow(file_bytes(counts)), IoError, "profile: there is no room for '{}'.",
                 path);
  file.set_used(file_bytes(counts));
  // All pages at once cost less than one after the other, and not in the middle of an op. Where
  // the system is too old for this, each costs a fault.
  if (!counts) madvise(file.data(), file_bytes(counts), MADV_POPULATE_WRITE);
  auto* h = new (file.data()) RawHeader;
  h->event_bytes = sizeof(RawEvent);
  h->process = getpid();
  h->thread = static_cast<int32_t>(syscall(SYS_gettid));
  h->first = h->last = read_clocks();
  pthread_getname_np(pthread_self(), h->name, sizeof h->name);
  first = next = reinterpret_cast<RawEvent*>(file.data() + kRawHeaderBytes);
  end = first + (counts ? 0 : kBuffered);
  if (counts) return;
  spilled_ = ::open((path + ".more").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (spilled_ < 0) {  // the buffer alone is better than nothing
    h->full_error = errno;
    limit_ = 0;
  }
}

ThreadLog::~ThreadLog() {
  if (file.data()) header().last = read_clocks();
  if (spilled_ >= 0) close(spilled_);
}

void ThreadLog::abandon() noexcept {
  file.abandon();
  close(spilled_);
  spilled_ = -1;
}

bool ThreadLog::spill() noexcept {
  RawHeader& h = header();
  if (limit_ == 0) {  // it is full: nothing is tried again for every event
    ++h.dropped;
    return false;
  }
  h.last = read_clocks();
  drain_stalls();
  const auto bytes =
      static_cast<size_t>(reinterpret_cast<char*>(end) - reinterpret_cast<char*>(first));
  const auto offset = static_cast<off_t>((lap - 1) * bytes);
  const bool fits = bytes > 0 && static_cast<size_t>(offset) + 2 * bytes <= limit_;
  errno = ENOSPC;  // what a write that ends early means
  if (!fits || pwrite(spilled_, first, bytes, offset) != static_cast<ssize_t>(bytes)) {
    if (fits) h.full_error = errno;
    limit_ = 0;
    ++h.dropped;
    return false;
  }
  // A kill in between leaves the events in both places; the reader sees that by the lap.
  h.spilled = uint64_t{lap} * kBuffered;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  h.lap = ++lap;
  next = first;
  return true;
}

void ThreadLog::finish_spilled(const OpenScope& scope, uint64_t at, uint32_t link,
                               uint8_t flags) noexcept {
  RawEvent e;
  const uint64_t number =
      uint64_t{scope.lap - 1} * kBuffered + static_cast<uint64_t>(scope.event - first);
  const auto offset = static_cast<off_t>(number * sizeof(RawEvent));
  if (pread(spilled_, &e, sizeof e, offset) != static_cast<ssize_t>(sizeof e)) return;
  complete(e, at, link, flags);
  [[maybe_unused]] const ssize_t n = pwrite(spilled_, &e, sizeof e, offset);
}

void ThreadLog::count(uint32_t call, uint8_t kind) noexcept {
  if (call >= kCounters) {
    ++header().dropped;
    return;
  }
  RawEvent& cell = first[call];
  ++cell.begin;
  cell.call = call;
  cell.rest = RawEvent::pack(kind, 0, 0);
}

}  // namespace pellucid::profile
