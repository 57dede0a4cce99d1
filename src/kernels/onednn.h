// What the kernels that use oneDNN share: the engine, a stream for each thread, memory handles
// without allocation of their own, and errors turned into exceptions. Nothing here knows a
// particular primitive.
#pragma once

#include <omp.h>

#include <dnnl.hpp>
#include <initializer_list>

namespace pellucid::kernels::onednn {

/// The one CPU engine.
const dnnl::engine& engine();
/// This thread's stream.
const dnnl::stream& stream();

/// OpenMP's threads set to one until the end of the scope, for building and running one-thread
/// primitives.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// One argument of a primitive: its role (DNNL_ARG_SRC…), description and data.
struct Argument {
  int role;
  const dnnl::memory::desc* desc;
  const void* data;  // null: the argument is left out
};

/// Runs a primitive and waits for it. The scratchpad is an argument like the others.
void execute(const dnnl::primitive& primitive, std::initializer_list<Argument> arguments);

}  // namespace pellucid::kernels::onednn
