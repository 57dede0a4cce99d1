// Where Python is, for profiles: noted while the GIL is held, before an op may give it up.
#pragma once

#include "pellucid/autograd.h"
#include "pellucid/profiler.h"

namespace pellucid::python {

/// Remembers the line of the program that runs on this thread; the GIL is held.
void note_place() noexcept;
inline void remember_place() noexcept {
  if (profile::recording() || autograd::AnomalyMode::is_enabled()) [[unlikely]]
    note_place();
}

}  // namespace pellucid::python
