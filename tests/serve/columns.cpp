// The container of view data: every encoding holds every number, and damage is seen.
#include "serve/columns.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <climits>
#include <random>

#include "serve/decode.h"

using namespace pellucid;
using serve::Columns;
using serve::Encoding;

TEST_CASE("view data: columns hold every number") {
  const std::vector<int64_t> edges = {0,   1,   -1,   63,        64,        -64,       -65,
                                      127, 128, 8191, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  std::vector<int64_t> random;
  random.reserve(1000);
  std::mt19937_64 numbers(7);
  for (int i = 0; i < 1000; ++i)
    random.push_back(static_cast<int64_t>(numbers()) >> (numbers() % 64));
  const auto same = [](int64_t value, size_t) { return value; };
  Columns columns;
  for (const Encoding e : {Encoding::Varint, Encoding::Zigzag, Encoding::Delta}) {
    columns.add(fmt::format("edges.{}", name_of(e)), e, edges, same);
    columns.add(fmt::format("random.{}", name_of(e)), e, random, same);
  }
  columns.add("bytes", Encoding::U8, std::vector<int64_t>{0, 1, 255}, same);
  columns.add("empty", Encoding::Delta, std::vector<int64_t>{}, same);
  const std::string container = serve::container("{\"kind\": \"test\"}", columns);
  const test::ViewData data(container);
  CHECK(data.header.at("kind") == "test");
  for (const char* encoding : {"varint", "zigzag", "delta"}) {
    CHECK(data.column(fmt::format("edges.{}", encoding)) == edges);
    CHECK(data.column(fmt::format("random.{}", encoding)) == random);
  }
  CHECK(data.column("bytes") == std::vector<int64_t>{0, 1, 255});
  CHECK(data.column("empty").empty());

  std::string damaged = container;
  damaged.back() ^= 1;  // in the last column with rows
  CHECK_THROWS_WITH(test::ViewData(damaged).column("bytes"), "checksum of bytes");
}

TEST_CASE("view data: doubles and an empty header") {
  Columns columns;
  const std::vector<double> values = {0, -1.5, 1e300};
  columns.add("d", values);
  const test::ViewData data(serve::container("{}", columns));
  const auto& c = data.header.at("columns").at("d");
  CHECK(c.at("encoding") == "f64");
  CHECK(c.at("rows") == 3);
  REQUIRE(columns.bytes().size() == 24);
  double second = 0;
  std::memcpy(&second, columns.bytes().data() + 8, 8);
  CHECK(second == -1.5);
}
