// The attributes that compile one kernel template for several x86-64 levels in one ordinary
// translation unit, and IsaLoops, which makes the three entry points of a loop and picks one.
// No -march flag is used anywhere, so that no shared inline function can carry newer code into the
// baseline: `flatten` pulls all that a kernel calls into it, and whatever the compiler refuses to
// inline is itself a template over the level. Loops below an entry point must be always_inline.
#pragma once

#include "base/cpu.h"

#define PELLUCID_TARGET_BASELINE __attribute__((flatten))
#define PELLUCID_TARGET_V3 __attribute__((target("arch=x86-64-v3"), flatten))
#define PELLUCID_TARGET_V4 \
  __attribute__((target("arch=x86-64-v4,prefer-vector-width=512"), flatten))

namespace pellucid::kernels {

/// Whether v3 and v4 are compiled in; sanitizer builds define PELLUCID_ONE_ISA to save time.
#ifdef PELLUCID_ONE_ISA
inline constexpr bool kOneIsa = true;
#else
inline constexpr bool kOneIsa = false;
#endif

/// Entry points of Body::run<level>(args…), a static always_inline template, one per level.
template <class Body, class... Args> struct IsaLoops {
  using Pointer = void (*)(Args...);

  PELLUCID_TARGET_BASELINE static void baseline(Args... args) {
    Body::template run<Isa::Baseline>(args...);
  }
#ifndef PELLUCID_ONE_ISA
  PELLUCID_TARGET_V3 static void v3(Args... args) { Body::template run<Isa::V3>(args...); }
  PELLUCID_TARGET_V4 static void v4(Args... args) { Body::template run<Isa::V4>(args...); }
#endif

  /// The entry point for a level; a constant expression when `level` is.
  static constexpr Pointer at([[maybe_unused]] Isa level) {
#ifndef PELLUCID_ONE_ISA
    if (level == Isa::V4) return v4;
    if (level == Isa::V3) return v3;
#endif
    return baseline;
  }
};

}  // namespace pellucid::kernels
