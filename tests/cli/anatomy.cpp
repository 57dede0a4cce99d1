// An op's parts, from timings that noise has moved: none is negative, and they sum to the whole.
#include "cli/analyze/anatomy.h"

#include <doctest/doctest.h>

using namespace pellucid::cli;

namespace {

double sum_of_parts(const Anatomy& a) {
  double sum = 0;
  for (const AnatomyPart* p :
       {&a.expression, &a.binding, &a.infer, &a.allocation, &a.tape, &a.kernel, &a.rest}) {
    CHECK(p->ns >= 0);
    CHECK(p->noise >= 0);
    sum += p->ns;
  }
  return sum;
}

}  // namespace

TEST_CASE("anatomy: timings that contain each other become their differences") {
  const AnatomyTimings t{.whole = {500, 1},
                         .call = {},
                         .tracked = {400, 1},
                         .plain = {300, 1},
                         .infer = {100, 1},
                         .allocation = {20, 1},
                         .kernel = {150, 1}};
  const Anatomy a = parts_of(1, t, false);
  CHECK(a.expression.ns == 100);
  CHECK(a.tape.ns == 100);
  CHECK(a.infer.ns == 100);
  CHECK(a.kernel.ns == 150);
  CHECK(a.rest.ns == 30);
  CHECK(a.excess == 0);
  CHECK(sum_of_parts(a) == doctest::Approx(500));
}

TEST_CASE("anatomy: no noise makes a part negative or the sum another than the whole") {
  uint64_t state = 1;
  const auto any = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) / 1e4;
  };
  for (int i = 0; i < 2000; ++i) {
    AnatomyTimings t;
    for (Timing* each :
         {&t.whole, &t.call, &t.tracked, &t.plain, &t.infer, &t.allocation, &t.kernel})
      *each = {any(), any() / 10};
    for (const bool python : {false, true}) {
      const Anatomy a = parts_of(1, t, python);
      CHECK(sum_of_parts(a) == doctest::Approx(t.whole.ns));
    }
  }
}

TEST_CASE("anatomy: a part that its timings cannot tell from nothing says so") {
  AnatomyTimings t{.whole = {401, 10},
                   .call = {},
                   .tracked = {400, 5},
                   .plain = {100, 5},
                   .infer = {40, 0},
                   .allocation = {10, 0},
                   .kernel = {40, 0}};
  Anatomy a = parts_of(1, t, false);
  CHECK(a.expression.below_noise());
  CHECK_FALSE(a.tape.below_noise());
  CHECK_FALSE(a.kernel.below_noise());
  t.kernel = {200, 0};  // more than the call that contains it
  a = parts_of(1, t, false);
  CHECK(a.excess > 1);
  CHECK(sum_of_parts(a) == doctest::Approx(401));
}
