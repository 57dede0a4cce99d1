// The page: what its policy allows, that names cannot leave their place, that the data comes back.
#include "serve/page.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "pellucid/error.h"
#include "serve/decode.h"
#include "serve/encode.h"
#include "temporary.h"

using namespace pellucid;
using serve::Assets;
using serve::PageMode;

namespace {

const std::string kPage =
    "<!doctype html><html><head><!--pellucid:policy--><title><!--pellucid:title--></title>"
    "<!--pellucid:style--><!--pellucid:notice--></head><body><div id=\"app\"></div>"
    "<!--pellucid:boot--><!--pellucid:data--><!--pellucid:script--></body></html>";
const Assets kAssets{
    .page = kPage, .script = "console.log('script')", .style = "body { color: red }"};

std::string between(const std::string& text, const std::string& first, const std::string& last) {
  const size_t begin = text.find(first);
  REQUIRE(begin != std::string::npos);
  const size_t end = text.find(last, begin + first.size());
  REQUIRE(end != std::string::npos);
  return text.substr(begin + first.size(), end - begin - first.size());
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("view page: encodings") {
  CHECK(serve::base64("") == "");
  CHECK(serve::base64("f") == "Zg==");
  CHECK(serve::base64("fo") == "Zm8=");
  CHECK(serve::base64("foo") == "Zm9v");
  CHECK(serve::base64("\xff\xfe") == "//4=");
  // The hash of the empty string as Content-Security-Policy writes it.
  CHECK(serve::policy_hash("") == "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
  std::string text;
  for (int64_t i = 0; i < 100'000; ++i) text += static_cast<char>(i * i >> 7);
  for (const std::string& bytes : {std::string(), std::string("a"), text}) {
    CHECK(test::inflated(serve::deflate_raw(bytes)) == bytes);
    CHECK(test::inflated(serve::gzip(bytes), 31) == bytes);
    CHECK(test::from_base64(serve::base64(bytes)) == bytes);
  }
}

TEST_CASE("view page: the policy allows its own script and style alone") {
  const serve::Page page = make_page(kAssets, PageMode::File, {}, {});
  CHECK(page.policy ==
        "default-src 'none'; script-src " + serve::policy_hash(kAssets.script) + "; style-src " +
            serve::policy_hash(kAssets.style) +
            "; worker-src blob:; img-src blob: data:; base-uri 'none'; form-action 'none'");
  CHECK(page.html.find("content=\"" + page.policy + "\"") < page.html.find("<style>"));
  CHECK(between(page.html, "<style>", "</style>") == kAssets.style);
  CHECK(between(page.html, "<script>", "</script>") == kAssets.script);
  for (const char* refused : {"unsafe", "http:", "https:", "*"})
    CHECK(page.policy.find(refused) == std::string::npos);
  const serve::Page served = make_page(kAssets, PageMode::Server, {}, {});
  CHECK(served.policy.find("connect-src 'self'") != std::string::npos);
  CHECK(served.html.find("Content-Security-Policy") == std::string::npos);  // it is a header there
  for (const char* outside : {" style=", " onload=", " onerror=", "src=", "href="})
    CHECK(page.html.find(outside) == std::string::npos);
}

TEST_CASE("view page: names of files stay text") {
  const std::string name = "</script><script>alert(1)</script><!--\"'&\n\x01\xff";
  const serve::Page page =
      make_page(kAssets, PageMode::File, {{name, "profile", "A"}}, {"some data"});
  CHECK(count(page.html, "<script") == 3);
  CHECK(count(page.html, "</script>") == 3);
  CHECK(count(page.html, "<!--") == 1);  // the notice
  const auto boot = nlohmann::json::parse(
      between(page.html, "<script type=\"application/json\" id=\"pellucid-boot\">", "</script>"));
  CHECK(boot.at("mode") == "file");
  CHECK(boot.at("items").at(0).at("name") ==
        "</script><script>alert(1)</script><!--\"'&\n\x01\ufffd");
  CHECK(boot.at("items").at(0).at("side") == "A");
}

TEST_CASE("view page: the data comes back") {
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i >> 3);
  const serve::Page page = make_page(kAssets, PageMode::File,
                                     {{"a", "profile", "A"}, {"b", "profile", "B"}}, {bytes, "b"});
  const auto data = [&](int i) {
    return test::inflated(test::from_base64(between(
        page.html,
        fmt::format("<script type=\"application/octet-stream\" id=\"pellucid-data-{}\">", i),
        "</script>")));
  };
  CHECK(data(0) == bytes);
  CHECK(data(1) == "b");
}

TEST_CASE("view page: assets that are missing or cannot stand in a page") {
  const test::TemporaryFolder folder;
  setenv("PELLUCID_VIEWER", folder.path().c_str(), 1);
  CHECK_THROWS_WITH_AS(serve::load_assets(), doctest::Contains("was not built"), IoError);
  test::write_bytes(folder / "app.css", "a");
  test::write_bytes(folder / "page.html", kPage);
  CHECK_THROWS_WITH_AS(serve::load_assets(), doctest::Contains("was not built"), IoError);
  test::write_bytes(folder / "app.js", "b");
  CHECK(serve::load_assets().script == "b");
  unsetenv("PELLUCID_VIEWER");
  const auto refused = [](const Assets& assets, const char* why) {
    CHECK_THROWS_WITH_AS(make_page(assets, PageMode::File, {}, {}), doctest::Contains(why),
                         IoError);
  };
  refused({kPage, "x = '</script>'", ""}, "cannot stand in a page");
  refused({kPage, "x = '<!--'", ""}, "cannot stand in a page");
  refused({kPage, "", "a{}</style>"}, "cannot stand in a page");
  refused({"", "", ""}, "has 0 of the 7 places");
  refused({kPage + "<!--pellucid:more-->", "", ""}, "unknown place");
  refused({kPage + "<!--pellucid:boot", "", ""}, "unknown place");
}
