// bench_core: the cases under Google Benchmark; with --server, the process that `bench/run` takes
// turns with.
#include <benchmark/benchmark.h>

#include <cstring>

#include "cases.h"

namespace pellucid::bench {

Cases all_cases() {
  Cases cases;
  add_small_cases(cases);
  add_memory_cases(cases);
  add_contraction_cases(cases);
  add_op_sample_cases(cases);
  add_training_cases(cases);
  return cases;
}

}  // namespace pellucid::bench

int main(int argc, char** argv) {
  using namespace pellucid::bench;
  if (argc == 2 && std::strcmp(argv[1], "--server") == 0) return serve();
  for (const Case& c : all_cases()) {
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& state) {
      const Work work = c.make();
      for (auto _ : state) {
        if (work.before) {
          state.PauseTiming();
          work.before();
          state.ResumeTiming();
        }
        work.once();
      }
      state.SetItemsProcessed(state.iterations() * work.steps);
    })->UseRealTime();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
