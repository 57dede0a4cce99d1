// Event files and JSON lines, read back byte by byte.
#include "pellucid/io/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "io/crc32c.h"
#include "pellucid/error.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::io;
using pellucid::test::read_bytes;
using pellucid::test::TemporaryFolder;
using pellucid::test::write_bytes;

namespace {

uint32_t unmasked(uint32_t m) {
  const uint32_t r = m - 0xa282ead8u;
  return r >> 17 | r << 15;
}

/// The messages of a TFRecord file, with checksums checked.
std::vector<std::string> records(const std::string& bytes) {
  std::vector<std::string> messages;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&crc, bytes.data() + at + 8, 4);
    CHECK(unmasked(crc) == crc32c(bytes.data() + at, 8));
    REQUIRE(at + 16 + length <= bytes.size());
    messages.push_back(bytes.substr(at + 12, length));
    std::memcpy(&crc, bytes.data() + at + 12 + length, 4);
    CHECK(unmasked(crc) == crc32c(messages.back().data(), length));
    at += 16 + length;
  }
  return messages;
}

}  // namespace

TEST_CASE("TensorBoard: scalars in records with masked checksums") {
  const TemporaryFolder folder;
  std::string path;
  {
    SummaryWriter writer(folder / "runs/a");
    writer.add_scalar("loss", 0.5, 300, 2.0);
    path = writer.path();
  }
  CHECK(path.find("events.out.tfevents.") != std::string::npos);
  const std::vector<std::string> messages = records(read_bytes(path));
  REQUIRE(messages.size() == 2);
  CHECK(
      messages[0].ends_with("\x1a\x0d"
                            "brain.Event:2"));
  // wall_time 2.0, step 300, summary { value { tag "loss", simple_value 0.5 } }
  const std::string expected(
      "\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\0\x3f", 27);
  CHECK(messages[1] == expected);
  SummaryWriter second(folder / "runs/a");  // another file, not the same
  CHECK(second.path() != path);
  write_bytes(folder / "file", "");
  CHECK_THROWS_AS(SummaryWriter(folder / "file/x"), IoError);
}

TEST_CASE("JSON lines: one object a line, in order; an unfinished line is cut") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  {
    JsonLinesWriter writer(path);
    writer.write({{"step", 1}, {"loss", 0.1}, {"ok", true}, {"name", "ä\"\n"}});
    writer.write({{"step", 2}, {"loss", NAN}, {"list", Value::ints({1, 2})}});
    CHECK_THROWS_AS(writer.write({{"x", kFloat32}}), TypeError);
  }
  CHECK(read_bytes(path) ==
        "{\"step\":1,\"loss\":0.1,\"ok\":true,\"name\":\"ä\\\"\\n\"}\n"
        "{\"step\":2,\"loss\":null,\"list\":[1,2]}\n");
  write_bytes(path, "{\"step\":1}\n{\"st");
  JsonLinesWriter(path).write({{"step", 2}});
  CHECK(read_bytes(path) == "{\"step\":1}\n{\"step\":2}\n");
  CHECK_THROWS_WITH_AS(JsonLinesWriter(folder / "no/m"), doctest::Contains("errno 2"), IoError);
}

TEST_CASE("json_line: numbers keep their kind and every digit") {
  CHECK(json_line({}) == "{}");
  CHECK(json_line({{"a", 1}, {"b", 1.0}, {"c", -2.5e-9}, {"d", 1e20}, {"e", INFINITY}}) ==
        "{\"a\":1,\"b\":1.0,\"c\":-2.5e-09,\"d\":1e+20,\"e\":null}");
  CHECK(json_line({{"x", 0.1 + 0.2}, {"\xff", Values{true, "y"}}, {"n", Value()}}) ==
        "{\"x\":0.30000000000000004,\"\xef\xbf\xbd\":[true,\"y\"],\"n\":null}");
}

TEST_CASE("AppendFile: collects, cuts, and knows its size") {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  {
    AppendFile file(path);
    file.append("one ");
    file.set_buffered(true);
    file.append("two ");
    CHECK(file.size() == 8);
    CHECK(read_bytes(path) == "one ");
    file.flush();
    CHECK(read_bytes(path) == "one two ");
    file.append("three");
  }
  CHECK(read_bytes(path) == "one two three");
  {
    AppendFile file(path, 4);
    CHECK(file.size() == 4);
    file.append("more");
    file.sync();
  }
  CHECK(read_bytes(path) == "one more");
  CHECK_THROWS_WITH_AS(AppendFile(path, 9), doctest::Contains("has 8 bytes but should have 9"),
                       IoError);
  CHECK(read_bytes(path) == "one more");
}

TEST_CASE("TensorBoard: a file goes on after the bytes that a checkpoint knows") {
  const TemporaryFolder folder;
  std::string path;
  uint64_t known = 0;
  {
    SummaryWriter writer(folder / "a");
    writer.add_scalar("loss", 0.5, 1, 2.0);
    path = writer.path();
    known = writer.file().size();
    writer.add_scalar("loss", 0.25, 2, 2.0);
  }
  const std::string both = read_bytes(path);
  SummaryWriter(path, known).add_scalar("loss", 0.25, 2, 2.0);
  CHECK(read_bytes(path) == both);
}
