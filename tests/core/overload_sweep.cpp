// Every generated function and method is called, at compile time, with each kind of number in the
// place of each number that it takes: what does not mean such a number must not compile, and what
// does must. tools/gen_ops writes the calls; the compiler's overload resolution is what is tested.
#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include "pellucid/ops.h"

namespace pellucid::overload_sweep {
namespace {

/// The types of a call that fits.
template <class... Types> struct Call {};
/// A number's place in it, and the kinds that may stand there.
template <size_t at, unsigned kinds> struct Place {};

struct Mismatch {
  std::string call;
  size_t place;
  std::string given;
  bool compiles;
};

struct Sweep {
  std::vector<Mismatch> mismatches;
  size_t checked = 0;

  template <class Caller, class Probe, size_t at, unsigned kinds, class... Types, size_t... I>
  void check(const char* call, const char* given, Call<Types...>, Place<at, kinds>,
             std::index_sequence<I...>) {
    constexpr bool compiles = std::is_invocable_v<
        Caller,
        std::conditional_t<I == at, Probe, std::tuple_element_t<I, std::tuple<Types...>>>...>;
    constexpr bool meant = detail::Among<Probe, kinds>;
    ++checked;
    if (compiles != meant) mismatches.push_back({call, at, given, compiles});
  }

  template <class Caller, class... Types, class At>
  void check_place(const char* call, Call<Types...> types, At at) {
    constexpr std::index_sequence_for<Types...> all;
    check<Caller, int>(call, "int", types, at, all);
    check<Caller, size_t>(call, "size_t", types, at, all);
    check<Caller, int64_t>(call, "int64_t", types, at, all);
    check<Caller, bool>(call, "bool", types, at, all);
    check<Caller, double>(call, "double", types, at, all);
    check<Caller, float>(call, "float", types, at, all);
    check<Caller, const char*>(call, "const char*", types, at, all);
    check<Caller, std::nullptr_t>(call, "nullptr", types, at, all);
  }

  template <class Caller, class Types, class... Places>
  void check_call(const char* call, Types types, std::tuple<Places...>) {
    (check_place<Caller>(call, types, Places{}), ...);
  }
};

#define PELLUCID_SWEEP_UNWRAP(...) __VA_ARGS__
#define PELLUCID_SWEEP_METHOD(name)                                             \
  struct Method_##name {                                                        \
    template <class... A>                                                       \
    auto operator()(A&&... a) const                                             \
        -> decltype(std::declval<const Tensor&>().name(std::forward<A>(a)...)); \
  };
#define PELLUCID_SWEEP_FUNCTION(name)                                                   \
  struct Function_##name {                                                              \
    template <class... A>                                                               \
    auto operator()(A&&... a) const -> decltype(pellucid::name(std::forward<A>(a)...)); \
  };
#define PELLUCID_SWEEP_CALL_OF_METHOD(name, types, places)
#define PELLUCID_SWEEP_CALL_OF_FUNCTION(name, types, places)
#include "overload_sweep.inc"
#undef PELLUCID_SWEEP_METHOD
#undef PELLUCID_SWEEP_FUNCTION
#undef PELLUCID_SWEEP_CALL_OF_METHOD
#undef PELLUCID_SWEEP_CALL_OF_FUNCTION

void sweep_all(Sweep& s) {
#define PELLUCID_SWEEP_METHOD(name)
#define PELLUCID_SWEEP_FUNCTION(name)
#define PELLUCID_SWEEP_CALL_OF_METHOD(name, types, places)                     \
  s.check_call<Method_##name>("Tensor::" #name, PELLUCID_SWEEP_UNWRAP types{}, \
                              std::tuple<PELLUCID_SWEEP_UNWRAP places>{});
#define PELLUCID_SWEEP_CALL_OF_FUNCTION(name, types, places)          \
  s.check_call<Function_##name>(#name, PELLUCID_SWEEP_UNWRAP types{}, \
                                std::tuple<PELLUCID_SWEEP_UNWRAP places>{});
#include "overload_sweep.inc"
#undef PELLUCID_SWEEP_METHOD
#undef PELLUCID_SWEEP_FUNCTION
#undef PELLUCID_SWEEP_CALL_OF_METHOD
#undef PELLUCID_SWEEP_CALL_OF_FUNCTION
#undef PELLUCID_SWEEP_UNWRAP
}

}  // namespace

TEST_CASE("every generated overload takes the numbers that it means and no others") {
  Sweep sweep;
  sweep_all(sweep);
  CHECK(sweep.checked > 10'000);
  for (const Mismatch& m : sweep.mismatches) {
    INFO(m.call, ", argument ", m.place, ": a ", m.given,
         m.compiles ? " compiles, but does not mean the argument"
                    : " does not compile, but means the argument");
    CHECK(false);
  }
}

}  // namespace pellucid::overload_sweep
