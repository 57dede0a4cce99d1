#include "cli/timed_code.h"

#include "pellucid/lazy.h"

namespace pellucid::cli {

TimedLoop loop_of(Machine& machine, const expr::Code& code, bool lazily) {
  if (!lazily)
    return [&](int64_t number) {
      return seconds_of([&] {
        for (int64_t i = 0; i < number; ++i) machine.run(code);
      });
    };
  return [&](int64_t number) {
    return seconds_of([&] {
      const LazyGuard lazy;
      for (int64_t i = 0; i < number; ++i) {
        const Object result = machine.run(code);
        eval();
      }
    });
  };
}

}  // namespace pellucid::cli
