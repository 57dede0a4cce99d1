// How many threads the library uses. Results never depend on it.
#pragma once

#include "pellucid/api.h"

namespace pellucid {

/// The threads that an op may use: PELLUCID_NUM_THREADS, else OMP_NUM_THREADS, else every CPU.
PELLUCID_API int get_num_threads();
/// Sets the number of threads for the whole process; throws ValueError below 1.
PELLUCID_API void set_num_threads(int threads);

}  // namespace pellucid
