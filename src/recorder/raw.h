// The raw recording, as the recorder leaves it: a folder with, for each thread, a file of events
// that the process has mapped (so that they survive whatever ends it) and, for each process, a file
// of definitions, one JSON object a line. collect.cpp turns the folder into a Profile.
//
//   PID-TAG names a process: a program may replace itself and keep its number
//   events-PID-TAG-TID-N   RawHeader, padded to kRawHeaderBytes, then the latest RawEvents: those
//                      of the present lap, until one of another
//   counts-PID-TAG-TID-N   the same header, then a RawEvent for each call, by its number
//   events-….more      the RawEvents of all laps before; header.spilled of them count
//   definitions-PID-TAG    what the numbers in the events mean
//   samples-PID-TAG        RawSamples, each followed by its copy of the stack (mode "sample")
//   stalls-PID-TAG         RawStalls: page faults and switches of threads (mode "trace")
#pragma once

#include <cstddef>
#include <cstdint>

namespace pellucid::profile {

inline constexpr uint64_t kRawMagic = 0x32564550434c4c50;  // "PLLCPEV2"
inline constexpr size_t kRawHeaderBytes = 4096;

/// The processor's counter and the system's clock (CLOCK_MONOTONIC, nanoseconds) at one moment.
struct ClockPair {
  uint64_t ticks = 0;
  int64_t nanoseconds = 0;
};

struct RawHeader {
  uint64_t magic = kRawMagic;
  uint32_t event_bytes = 0;
  int32_t process = 0, thread = 0;
  uint32_t reserved = 0;
  ClockPair first, last;  // `last` is renewed now and then, and when the thread ends
  uint64_t dropped = 0;   // events that found no room
  uint64_t spilled = 0;   // events in the file of earlier laps
  uint32_t lap = 1;       // which round of the buffer this is
  int32_t full_error =
      0;  // errno of the file of earlier laps, where that is why events were dropped
  char name[32] = {};
  uint64_t scopes = 0;  // mode "sample": ops and scopes that told the sampler of themselves
};
static_assert(sizeof(RawHeader) <= kRawHeaderBytes);

/// Kinds of raw events: 1 + EventKind for scopes, and these.
enum RawKind : uint8_t {
  kRawNothing = 0,
  kRawAllocation = 100,
  kRawFree = 101,
  kRawCategory = 102,
  kRawUse = 103,  // of the chosen step: the innermost op reads, writes or keeps the block
};
enum RawFlags : uint8_t {
  kRawThrew = 1,  // the scope was left by an exception
  kRawDone = 2,   // the scope has ended
};

/// In the number of a line: it is that of a whole stack.
inline constexpr uint32_t kRawStack = 0x80000000u;

/// One scope: written when it begins, and completed when it ends. Or one block of memory taken,
/// given back or counted as something else from then on. 32 bytes, so that none lies across two
/// cache lines.
struct RawEvent {
  uint64_t begin;  // ticks; of a counter: how often
  uint64_t rest;   // kind | flags << 8 | ticks that it took << 16; of a block: kind | category << 8
                   // | address << 16
  uint32_t link;   // of an op: the number of the tape node it left; of Backward: the node's number
  uint32_t call;   // what was called from which line; of a block: link and call are its size; of a
                   // use: link is the number of the saved tensor's name
  uint32_t inputs;  // of an op: tells its inputs from others, 0 where nothing can be said; of a
                    // block: its number among those of all threads, 0 while one alone has a log
  uint32_t lap;     // written last; tells what is there from what an earlier round left behind

  uint8_t kind() const { return static_cast<uint8_t>(rest); }
  uint8_t flags() const { return static_cast<uint8_t>(rest >> 8); }
  uint64_t high() const { return rest >> 16; }
  uint64_t size() const { return uint64_t{call} << 32 | link; }
  static uint64_t pack(uint8_t kind, uint8_t flags, uint64_t high) {
    return kind | uint64_t{flags} << 8 | high << 16;
  }
};
static_assert(sizeof(RawEvent) == 32);

}  // namespace pellucid::profile
