// libtorch's well-known programs compile with pellucid/torch.h and train: losses fall, and what
// they reach is what they should. tests/libtorch/run builds the same files with libtorch.
#include <doctest/doctest.h>

#include <cmath>

#include "libtorch/cases.h"
#include "temporary.h"

TEST_CASE("libtorch programs compile with pellucid/torch.h and train") {
  for (const libtorch_test::Case& c : libtorch_test::cases(640, 200)) {
    INFO(c.name);
    const pellucid::test::TemporaryFolder folder;
    const programs::Run run = c.run(folder.path());
    CHECK(libtorch_test::fall(run) <= c.most_fall);
    CHECK(run.result >= c.least_result);
    CHECK(run.result <= c.most_result);
    for (const double loss : run.losses) REQUIRE(std::isfinite(loss));
  }
}
