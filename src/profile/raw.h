// The raw recording, as the recorder leaves it: a folder with, for each thread, a file of events
// that the process has mapped (so that they survive whatever ends it) and, for each process, a file
// of definitions, one JSON object a line. collect.cpp turns the folder into a Profile.
//
//   PID-TAG names a process: a program may replace itself and keep its number
//   events-PID-TAG-TID-N   RawHeader, padded to kRawHeaderBytes, then the latest RawEvents: those
//   of the
//                      present lap, until one of another
//   events-….more      the RawEvents of all laps before; header.spilled of them count
//   definitions-PID-TAG    what the numbers in the events mean
//   samples-PID-TAG        RawSampleHeaders, each followed by its copy of the stack (mode "sample")
#pragma once

#include <cstddef>
#include <cstdint>

namespace pellucid::profile {

inline constexpr uint64_t kRawMagic = 0x31564550434c4c50;  // "PLLCPEV1"
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
  uint32_t reserved2 = 0;
  char name[32] = {};
};
static_assert(sizeof(RawHeader) <= kRawHeaderBytes);

/// Kinds of raw events: 1 + EventKind for scopes, and these.
enum RawKind : uint16_t { kRawNothing = 0, kRawAllocation = 100, kRawFree = 101 };
inline constexpr uint16_t kRawThrew = 1;  // a flag: the scope was left by an exception

inline constexpr uint32_t kRawStack = 0x80000000u;

/// One scope: written when it begins, with end 0, and completed when it ends. Or one block of
/// memory taken or given back: then `end` is its address, `link` its size, `what` its category.
struct RawEvent {
  uint64_t begin;
  uint64_t end;
  uint64_t link;  // of an op: the number of the tape node it left; of Backward: the node's number
  uint32_t what;  // a signature; of Module: a module
  uint32_t site;  // or kRawStack and a stack, where whole stacks are recorded
  uint16_t kind;
  uint16_t flags;
  uint32_t lap;  // written last; tells what is there from what an earlier round left behind
};
static_assert(sizeof(RawEvent) == 40);

}  // namespace pellucid::profile
