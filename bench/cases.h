// A benchmark case: a name, and how to make the work that is timed. The cases are listed once,
// here; Google Benchmark runs them (bench_core), and so does the server that `bench/run` talks to
// (bench_core --server).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pellucid/pellucid.h"

namespace pellucid::bench {

/// What one case runs. Inputs are made before the clock starts; results are read after it stopped.
struct Work {
  std::function<void()> once;       ///< the work, one time
  std::vector<Tensor> inputs = {};  ///< what PyTorch must start from to get the same results
  std::function<std::vector<Tensor>()> results = {};
  int64_t steps = 1;  ///< operations in `once`, where the time of one is asked for
  std::shared_ptr<Sample> sample = {};  ///< the call, for an op's large sample
  std::function<void()> before = {};    ///< run before each `once`, and not timed
};

struct Case {
  std::string name;
  std::function<Work()> make;
};

using Cases = std::vector<Case>;
void add_small_cases(Cases& cases);  ///< the cost of a call and of a tape node
void add_memory_cases(
    Cases& cases);  ///< ops bounded by memory, and plain loops that move the same bytes
void add_contraction_cases(Cases& cases);  ///< matmul, convolution, attention, and bare oneDNN
void add_op_sample_cases(Cases& cases);    ///< every op's large sample
void add_training_cases(Cases& cases);     ///< training steps, decoding, loading
/// All of them.
Cases all_cases();

/// How our side runs a case. Environment variable BENCH_WAY; `bench/run --ways` starts a process
/// for each.
enum class Way {
  Eager,
  Compiled,  ///< each run in a compiled function, which may go back to eager calls
  Sealed     ///< training steps: a sealed function; other cases run eagerly
};
Way way();

/// Reads cases and counts from stdin, and writes times to stdout, until stdin ends.
int serve();

/// The value in `result`, and its block given back first: the next result gets the same block, as
/// in a steady loop.
// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved
template <class F> Work reusing(std::vector<Tensor> inputs, F f) {
  auto kept = std::make_shared<Tensor>();
  return {.once =
              [kept, f] {
                kept->reset();
                *kept = f();
              },
          .inputs = std::move(inputs),
          .results = [kept] { return std::vector<Tensor>{*kept}; }};
}

}  // namespace pellucid::bench
