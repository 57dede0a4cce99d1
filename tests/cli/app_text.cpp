// Text for terminals: tables, suggestions, units.
#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "cli/terminal.h"
#include "cli/text.h"
#include "pellucid/error.h"

using namespace pellucid::cli;

TEST_CASE("text: tables align their columns") {
  Table table({{"name", Align::Left}, {"bytes", Align::Right}, {"note", Align::Left}});
  table.add({"x", "12", "first"});
  table.add({"\u03b1\u03b2\u03b3\u03b4\u03b5", "1,000,000"});
  table.add({paint("red", Color::Red, true), "3", ""});  // its codes take no room
  CHECK(SafeStream(stderr).filter(table.print()) ==
        "name       bytes  note\n"
        "x             12  first\n"
        "\u03b1\u03b2\u03b3\u03b4\u03b5  1,000,000\n"
        "\x1b[31mred\x1b[0m            3\n");
  Table untitled({{"", Align::Left}, {"", Align::Left}});
  untitled.add({"a", "b"});
  CHECK(untitled.print(2) == "  a  b\n");
}

TEST_CASE("text: wrapping") {
  CHECK(wrap("one two three four", 9, 0) == "one two\nthree\nfour");
  CHECK(wrap("one two three", 10, 2) == "one two\n  three");
  CHECK(wrap("a\n\nb", 20, 0) == "a\n\nb");
  CHECK(wrap("incomprehensibilities", 5, 0) == "incomprehensibilities");
}

TEST_CASE("text: colour follows --color before all else") {
  set_color_mode(ColorMode::Always);
  CHECK(use_color(stdout));
  set_color_mode(ColorMode::Never);
  CHECK_FALSE(use_color(stdout));
  set_color_mode(ColorMode::Auto);
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(use_color(stdout));
  unsetenv("NO_COLOR");
  CHECK(paint("x", Color::Bold, false) == "x");
  CHECK(color_mode_from_name("always") == ColorMode::Always);
  CHECK_FALSE(color_mode_from_name("sometimes").has_value());
}

TEST_CASE("text: the terminal's width") {
  setenv("COLUMNS", "123", 1);
  CHECK(terminal_width() == 123);
  setenv("COLUMNS", "wide", 1);
  CHECK(terminal_width() > 0);
  unsetenv("COLUMNS");
}

TEST_CASE("text: suggestions") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("grpah", "graph") == 1);
  CHECK(edit_distance("sin", "sin") == 0);
  const std::vector<std::string> ops = {"sin",         "sinh",    "asin", "cos", "softmax",
                                        "log_softmax", "sigmoid", "silu", "sum"};
  CHECK(closest("sofmax", ops) == std::vector<std::string>{"softmax"});
  CHECK(closest("sig", ops).front() == "sin");
  CHECK(closest("soft", ops) == std::vector<std::string>{"softmax"});
  CHECK(closest("SIN", ops).front() == "sin");
  CHECK(closest("zzz", ops).empty());
  CHECK(closest("x", ops).empty());
  CHECK(closest("", ops).empty());
  CHECK(did_you_mean("sofmax", ops) == "; did you mean 'softmax'?");
  CHECK(did_you_mean("qqqq", ops) == "");
}

TEST_CASE("text: numbers") {
  CHECK(format_timeit(0.00638) == "6.38 msec");
  CHECK(format_timeit(1.5e-8) == "15 nsec");
  CHECK(format_timeit(2.0) == "2 sec");
  CHECK(format_timeit(0.5e-9) == "0.5 nsec");
  CHECK(format_timeit(0.00638, "usec") == "6.38e+03 usec");
  CHECK(format_timeit(0.00638123, "msec", 5) == "6.3812 msec");
  CHECK_THROWS_AS(format_timeit(1, "hours"), pellucid::ValueError);
  CHECK(format_seconds(0.00638) == "6.38 ms");
  CHECK(format_seconds(1.5e-8) == "15 ns");
  CHECK(format_seconds(2.0, 4) == "2 s");
  CHECK(is_time_unit("usec"));
  CHECK_FALSE(is_time_unit("us"));

  CHECK(format_bytes(9'449'472) == "9.45 MB");
  CHECK(format_bytes(500e6) == "500.00 MB");
  CHECK(format_bytes(12) == "12 B");
  CHECK(format_bytes_binary(4'000'000) == "3.81 MiB");
  CHECK(format_bytes_binary(1000.0 * 4096) == "3.91 MiB");
  CHECK(format_bytes_binary(1024) == "1.00 KiB");

  CHECK(group_digits(0) == "0");
  CHECK(group_digits(999) == "999");
  CHECK(group_digits(-1000) == "-1,000");
  CHECK(group_digits(-100) == "-100");
  CHECK(group_digits(236'027'904) == "236,027,904");
  CHECK(group_digits(std::numeric_limits<int64_t>::min()) == "-9,223,372,036,854,775,808");

  CHECK(format_value4(4) == "4.0000");
  CHECK(format_value4(-0.756802495) == "-0.7568");
  CHECK(format_value4(0) == "0.0000");
  CHECK(format_value4(1.25e-7) == "1.2500e-07");
  CHECK(format_value4(1e12) == "1.0000e+12");
  CHECK(format_value4(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(format_value4(std::numeric_limits<double>::quiet_NaN()) == "nan");
}
