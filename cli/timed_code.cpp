#include "cli/timed_code.h"

#include "pellucid/compile.h"
#include "pellucid/lazy.h"

namespace pellucid::cli {

Way way_from_name(std::string_view name) {
  return name == "lazy" ? Way::Lazy : name == "compiled" ? Way::Compiled : Way::AsIs;
}

TimedLoop loop_of(Machine& machine, const expr::Code& code, Way way) {
  if (way == Way::AsIs)
    return [&](int64_t number) {
      return seconds_of([&] {
        for (int64_t i = 0; i < number; ++i) machine.run(code);
      });
    };
  if (way == Way::Compiled)
    return [compiled = compile([&] { return machine.run(code); })](int64_t number) mutable {
      return seconds_of([&] {
        for (int64_t i = 0; i < number; ++i) compiled();
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
