// Where the time of a run went, as the overview's table and the advice tell it.
#pragma once

#include "profile/averages.h"
#include "profile/overhead.h"

namespace pellucid::profile {

/// Nanoseconds of the run by what they were spent on; they sum to Overhead::whole().
struct TimeParts {
  TimeParts(const Profile& p, const Overhead& o);
  TimeSplit ops;
  double scopes = 0;   ///< between their ops
  double waits = 0;    ///< for data
  double outside = 0;  ///< every op and scope
};

}  // namespace pellucid::profile
