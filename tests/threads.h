// Sets the number of threads for a scope.
#pragma once

#include "pellucid/parallel.h"

struct Threads {
  explicit Threads(int n) : before(pellucid::get_num_threads()) { pellucid::set_num_threads(n); }
  ~Threads() { pellucid::set_num_threads(before); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  int before;
};
