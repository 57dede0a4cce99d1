// What the machine could do at best with one call: the roofline.
#pragma once

#include <cstdint>

#include "pellucid/profile.h"

namespace pellucid::profile {

/// The least time of a call with this cost, and which ceiling sets it.
struct Ceiling {
  double compute = 0, memory = 0;  ///< nanoseconds; 0 where the machine was not measured
  double least() const { return compute > memory ? compute : memory; }
  bool memory_bound() const { return memory > compute; }
};

/// Bytes per second that all threads reach with this many bytes: those of the nearest level that
/// holds them, for reading or copying, whichever is greater.
double memory_rate(const MachineCeilings& m, double bytes);
PELLUCID_API Ceiling ceiling_of(const MachineCeilings& m, double flops, double bytes);

}  // namespace pellucid::profile
