// The choice of the ISA level, and facts about the machine.
#include "base/cpu.h"

#include <doctest/doctest.h>

#include "pellucid/error.h"
#include "subprocess.h"

using namespace pellucid;

TEST_CASE("cpu: every available level has a name that leads back to it") {
  const auto levels = available_isas();
  REQUIRE(!levels.empty());
  CHECK(levels.front() == Isa::Baseline);
  for (const Isa level : levels) CHECK(isa_from_name(isa_name(level)) == level);
#ifdef PELLUCID_ONE_ISA
  CHECK(levels.size() == 1);
  CHECK(isa() == Isa::Baseline);
#endif
}

TEST_CASE("cpu: an unknown level is refused, with the list") {
  for (const char* bad : {"", "avx2", "V3", "v5"}) CHECK_THROWS_AS(isa_from_name(bad), ValueError);
  std::string message;
  try {
    isa_from_name("avx2");
  } catch (const ValueError& error) { message = error.what(); }
  CHECK(message.find("'avx2' is not a level. Available here: baseline") != std::string::npos);
}

TEST_CASE("cpu: a guard sets the level and puts it back") {
  const Isa before = isa();
  for (const Isa level : available_isas()) {
    const IsaGuard guard(level);
    CHECK(isa() == level);
    {
      const IsaGuard inner(Isa::Baseline);
      CHECK(isa() == Isa::Baseline);
    }
    CHECK(isa() == level);
  }
  CHECK(isa() == before);
}

TEST_CASE("child: cpu level is the forced one" * doctest::skip()) {
  CHECK(isa_name(isa()) == std::string(std::getenv("PELLUCID_ISA")));
}

TEST_CASE("cpu: PELLUCID_ISA forces a level") {
  for (const Isa level : available_isas()) {
    CHECK(test::run_test_case("child: cpu level is the forced one",
                              {{"PELLUCID_ISA", std::string(isa_name(level))}}) == 0);
  }
  CHECK(test::run_test_case("child: cpu level is the forced one", {{"PELLUCID_ISA", "sse9"}}) != 0);
}

TEST_CASE("cpu: the machine's facts are plausible") {
  const CpuInfo& info = cpu_info();
  CHECK(!info.model.empty());
  CHECK(info.cores >= 1);
  CHECK(info.l1d >= 8 << 10);
  CHECK(info.l2 >= info.l1d);
  CHECK(info.total_memory > 64 << 20);
}
