// Text from outside in terminals, pages, spreadsheets and JSON.
#include "base/escape.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

using namespace pellucid;

TEST_CASE("escape: terminal controls and reordering marks become visible") {
  CHECK(text::visible("plain café 日本") == "plain café 日本");
  CHECK(text::visible("\x1b[2Jboo\a\n\t\x7f") == "\\x1b[2Jboo\\x07\\x0a\\x09\\u007f");
  CHECK(text::visible("a\u202eb\u2066c\u009b") == "a\\u202eb\\u2066c\\u009b");
  CHECK(text::visible(std::string_view("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("escape: bytes that are no UTF-8 become U+FFFD") {
  for (const char* bad :
       {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    const std::string out = text::utf8(bad);
    CHECK(out.starts_with("\ufffd"));
    CHECK(nlohmann::json(out).dump().find("\ufffd") !=
          std::string::npos);  // dump() throws for bad UTF-8
  }
  CHECK(text::utf8("\xf0\x9f\x98\x80") == "\xf0\x9f\x98\x80");
}

TEST_CASE("escape: HTML and SVG") {
  CHECK(text::xml("<script>alert('x' & \"y\")</script>") ==
        "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;");
  CHECK(text::xml("\x1b\x01") == "\ufffd\ufffd");
}

TEST_CASE("escape: CSV quotes, and formulas are disarmed") {
  CHECK(text::csv_cell("plain") == "plain");
  CHECK(text::csv_cell("a,b") == "\"a,b\"");
  CHECK(text::csv_cell("say \"hi\"\n") == "\"say \"\"hi\"\"\n\"");
  for (const char* formula : {"=1+1", "+1", "-1", "@SUM(A1)", "\t=1"})
    CHECK(text::csv_cell(formula)[0] == '\'');
  CHECK(text::csv_cell("=cmd|' /C calc'!A0,1") == "\"'=cmd|' /C calc'!A0,1\"");
}

TEST_CASE("escape: JSON strings parse back, whatever the bytes, and hold no '<'") {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    std::string bytes;
    for (int n = 0; n < 12; ++n) bytes += static_cast<char>(random() % 256);
    const std::string written = text::json_string(bytes);
    CHECK(nlohmann::json::parse(written).get<std::string>() == text::utf8(bytes));
    CHECK(written.find('<') == std::string::npos);
  }
  CHECK(text::json_string("a\"\\\n</script>\u2028") ==
        "\"a\\\"\\\\\\u000a\\u003c/script>\\u2028\"");
}
