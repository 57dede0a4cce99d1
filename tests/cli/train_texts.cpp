// Cutting texts into spoken and narrated passages.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "cli/train/texts.h"
#include "temporary.h"

using namespace pellucid;
using namespace pellucid::cli::train;

namespace {

std::string joined(const Passage& p) { return fmt::format("{}", fmt::join(p.words, " ")); }

}  // namespace

TEST_CASE("passages: quotation marks part speech from narration") {
  const auto all = passages("“Avast!” roared Ahab’s mate—\nand then, “Down—with them.”", 1, 24);
  REQUIRE(all.size() == 3);
  CHECK(joined(all[0]) == "avast !");
  CHECK(all[0].spoken);
  CHECK(joined(all[1]) == "roared ahab's mate and then ,");
  CHECK_FALSE(all[1].spoken);
  CHECK(joined(all[2]) == "down with them .");
  CHECK(all[2].spoken);
}

TEST_CASE("passages: straight marks, paragraphs, and lengths") {
  const auto all =
      passages("He said \"it's so\".\n\n“An open mark\n\nends with its paragraph.", 2, 24);
  REQUIRE(all.size() == 4);
  CHECK(joined(all[0]) == "he said");
  CHECK(joined(all[1]) == "it's so");
  CHECK(all[1].spoken);
  CHECK(all[2].spoken);
  CHECK(all[2].paragraph == 1);
  CHECK_FALSE(all[3].spoken);
  CHECK(all[3].paragraph == 2);
  const auto cut = passages("one two three four five", 2, 2);  // the fifth word is too few
  REQUIRE(cut.size() == 2);
  CHECK(joined(cut[1]) == "three four");
  CHECK(passages("", 1, 4).empty());
  CHECK(passages("\n\n\n\n  ", 1, 4).empty());
  CHECK(passages("123 456 (…)", 2, 4).empty());
}

TEST_CASE("texts: files that are absent or empty") {
  const test::TemporaryFolder folder;
  const auto silent = [](const std::string&) {};
  CHECK_THROWS_AS(read_training_text(folder / "absent", {}, silent), IoError);
  CHECK_THROWS_AS(read_training_text(folder.path(), {}, silent), IoError);
  test::write_bytes(folder / "empty", "");
  CHECK_THROWS_AS(read_training_text(folder / "empty", {}, silent), ValueError);
  test::write_bytes(folder / "text", "some words");
  CHECK(read_training_text(folder / "text", {}, silent) == "some words");
  const TextName name{folder / "text"};
  const std::string before = name.setting();
  test::write_bytes(folder / "text", "other words");
  CHECK(name.setting() == before);  // read once
  CHECK(TextName{folder / "text"}.setting() != before);
  CHECK(TextName{}.setting() == "default");
}
