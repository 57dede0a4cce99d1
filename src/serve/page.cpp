// See page.h.
#include "serve/page.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "base/env.h"
#include "base/escape.h"
#include "base/files.h"
#include "pellucid/error.h"
#include "serve/encode.h"

namespace pellucid::serve {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The folder of the library, or of the program that it is linked into.
std::string own_folder() {
  static const char here = 0;
  Dl_info facts{};
  if (dladdr(&here, &facts) == 0 || facts.dli_fname == nullptr) return ".";
  return io::folder_of(facts.dli_fname);
}

std::vector<std::string> asset_folders() {
  if (const auto named = env_string("PELLUCID_VIEWER")) return {*named};
  const std::string own = own_folder();
  return {own + "/../../viewer",                 // build/release/lib, build/release/bin
          own + "/../share/pellucid/viewer",     // lib
          own + "/../../share/pellucid/viewer",  // lib/x86_64-linux-gnu
          own + "/viewer"};                      // the Python package
}

// A script's text ends at the first "</script", whatever stands around it; so does a style's.
void check_asset(std::string_view text, std::string_view end, const char* name) {
  PELLUCID_CHECK(text.find(end) == std::string_view::npos, IoError,
                 "view: {} contains \"{}\" and cannot stand in a page.", name, end);
}

std::string policy_of(const Assets& assets, PageMode mode) {
  return fmt::format(
      "default-src 'none'; script-src {}; style-src {}; worker-src blob:; img-src blob: data:; "
      "{}base-uri 'none'; form-action 'none'",
      policy_hash(assets.script), policy_hash(assets.style),
      mode == PageMode::Server ? "connect-src 'self'; " : "");
}

std::string boot_text(PageMode mode, const std::vector<PageItem>& items) {
  std::string out = fmt::format("{{\"mode\": \"{}\", \"version\": {}, \"items\": [",
                                mode == PageMode::Server ? "server" : "file",
                                text::json_string(PELLUCID_VERSION));
  for (size_t i = 0; i < items.size(); ++i)
    out += fmt::format("{}{{\"id\": {}, \"name\": {}, \"kind\": {}, \"side\": {}}}",
                       i > 0 ? ", " : "", i, text::json_string(items[i].name),
                       text::json_string(items[i].kind), text::json_string(items[i].side));
  return out + "]}";
}

// Whoever passes the file on should know what is inside.
constexpr const char* kNotice =
    "<!-- This file holds a recording of a program: its command line, the names of its files and "
    "functions, and the text of its source files where the recording has them. -->";

struct Place {
  std::string name, text;
};

// The template with each place "<!--pellucid:NAME-->" replaced, in the order in which they stand in
// it: what is put in is not looked at again.
std::string filled(const std::string& page, std::span<const Place> places) {
  constexpr std::string_view kBegin = "<!--pellucid:", kEnd = "-->";
  std::string out;
  size_t at = 0, used = 0;
  for (size_t next; (next = page.find(kBegin, at)) != std::string::npos;) {
    const size_t name = next + kBegin.size(), end = page.find(kEnd, name);
    const auto place = std::find_if(places.begin(), places.end(), [&](const Place& p) {
      return end != std::string::npos && p.name == page.substr(name, end - name);
    });
    PELLUCID_CHECK(place != places.end(), IoError,
                   "view: page.html has an unknown place at byte {}; build the viewer again.",
                   next);
    out.append(page, at, next - at);
    out += place->text;
    ++used;
    at = end + kEnd.size();
  }
  PELLUCID_CHECK(used == places.size(), IoError,
                 "view: page.html has {} of the {} places that are filled; build the viewer again.",
                 used, places.size());
  return out.append(page, at);
}

}  // namespace

Assets load_assets() {
  for (const std::string& folder : asset_folders()) {
    const std::string page = folder + "/page.html", script = folder + "/app.js",
                      style = folder + "/app.css";
    std::error_code unknown;
    const auto there = [&](const std::string& file) {
      return std::filesystem::is_regular_file(file, unknown);
    };
    if (there(page) && there(script) && there(style))
      return {text_of(page), text_of(script), text_of(style)};
  }
  pellucid::detail::raise<IoError>(
      "view: the page of the viewer (page.html, app.js and app.css) was not built. In a source "
      "tree, run `tools/viewer`, which needs Node 18 and npm; looked in {}.",
      fmt::join(asset_folders(), ", "));
}

Page make_page(const Assets& assets, PageMode mode, const std::vector<PageItem>& items,
               const std::vector<std::string>& data) {
  PELLUCID_ASSERT(data.size() == (mode == PageMode::File ? items.size() : 0));
  check_asset(assets.script, "</script", "app.js");
  check_asset(assets.script, "<!--", "app.js");
  check_asset(assets.style, "</style", "app.css");
  Page page{.policy = policy_of(assets, mode)};
  std::string containers;
  for (size_t i = 0; i < data.size(); ++i)
    containers +=
        fmt::format("<script type=\"application/octet-stream\" id=\"pellucid-data-{}\">", i) +
        base64(deflate_raw(data[i])) + "</script>\n";
  const bool file = mode == PageMode::File;
  const Place places[] = {
      {"policy", file ? fmt::format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">",
                                    page.policy)
                      : ""},
      {"title", text::xml(items.empty() ? "pellucid" : items[0].name + " - pellucid")},
      {"style", "<style>" + assets.style + "</style>"},
      {"notice", file ? kNotice : ""},
      {"boot", fmt::format("<script type=\"application/json\" id=\"pellucid-boot\">{}</script>",
                           boot_text(mode, items))},
      {"data", std::move(containers)},
      {"script", "<script>" + assets.script + "</script>"}};
  page.html = filled(assets.page, places);
  return page;
}

}  // namespace pellucid::serve
