// The events of one thread, from its raw files into the rows of a profile.
#pragma once

#include <string>

#include "profile/collect.h"
#include "profile/read_definitions.h"
#include "recorder/raw.h"

namespace pellucid::profile {

/// A file of raw events, mapped for reading.
class RawFile {
 public:
  explicit RawFile(const std::string& path);
  ~RawFile();
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

/// Adds a thread's events: those of earlier laps, then those in its buffer.
void read_events(Collected& all, const Definitions& d, int32_t thread, const RawFile& file,
                 const RawFile& earlier);
/// Adds what a thread counted.
void read_counts(Collected& all, const Definitions& d, const RawFile& file);

}  // namespace pellucid::profile
