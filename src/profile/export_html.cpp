// One page that needs nothing else: what the run was and where its time went, advice, ops and
// lines, an icicle of the calls, memory over time, and the other tables folded away. Everything
// from the profile is escaped, and the page's policy allows no resource but its own style and
// script.
#include <functional>
#include <map>

#include "base/escape.h"
#include "base/text.h"
#include "pellucid/profile_report.h"
#include "profile/exports.h"
#include "profile/functions.h"
#include "profile/html_page.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

// What the script sorts by, and the shares that it draws as bars.
std::string attributes_of(const ReportTable::Column& column, const Cell& c) {
  std::string out = column.right ? " class=\"n\"" : "";
  if (!c.is_number) return out;
  out += fmt::format(" data-v=\"{:.9g}\"", c.number);
  if (column.key.ends_with("share")) out += " data-bar";
  return out;
}

void put_rows(const ReportTable& t, Output& out) {
  if (t.columns.empty()) return;
  out.put("<div class=\"scroll\"><table><thead><tr>");
  for (const ReportTable::Column& c : t.columns)
    out.print("<th{}>{}</th>", c.right ? " class=\"n\"" : "", text::xml(c.title));
  out.put("</tr></thead><tbody>\n");
  for (const auto& row : t.rows) {
    // The sum of a table, not an op of that name: where names are ops', only the peak's tables have
    // one.
    const bool sum = &row == &t.rows.back() && row[0].text == "sum" &&
                     (t.columns[0].key != "name" || t.name.starts_with("peak"));
    out.put(sum ? "<tr class=\"sum\">" : "<tr>");
    for (size_t c = 0; c < row.size(); ++c)
      out.print("<td{}>{}</td>", attributes_of(t.columns[c], row[c]), text::xml(row[c].text));
    out.put("</tr>\n");
  }
  out.put("</tbody></table></div>\n");
}

void put_text(std::string_view text, Output& out) {
  if (!text.empty()) out.print("<pre>{}</pre>\n", text::xml(text));
}

void put_table(const ReportTable& t, Output& out) {
  put_text(t.heading, out);
  put_rows(t, out);
  put_text(t.footing, out);
}

// The first line of the heading is the page's title, the last a sentence; the rest stands between.
void put_head(const ReportTable& t, Output& out) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < t.heading.size();) {
    const size_t end = std::min(t.heading.find('\n', at), t.heading.size());
    if (end > at) lines.push_back(t.heading.substr(at, end - at));
    at = end + 1;
  }
  for (size_t i = 1; i < lines.size(); ++i)
    out.print("<p{}>{}</p>\n", i > 1 && i + 1 == lines.size() ? " class=\"lead\"" : "",
              text::xml(lines[i]));
}

// Shares of a whole as one bar, the parts in the colours of their rows.
void put_shares(const ReportTable& t, Output& out) {
  out.put(
      "<svg class=\"shares\" viewBox=\"0 0 1000 24\" preserveAspectRatio=\"none\" "
      "role=\"img\" aria-label=\"where the time goes\">");
  double x = 0;
  for (size_t i = 0; i + 1 < t.rows.size(); ++i) {  // the last is the sum
    const double width = 1000 * t.rows[i][2].number;
    out.print(
        "<rect class=\"c{}\" x=\"{:.2f}\" y=\"0\" width=\"{:.2f}\" height=\"24\">"
        "<title>{} {}</title></rect>",
        i % kColors, x, width, text::xml(t.rows[i][0].text), text::xml(t.rows[i][2].text));
    x += width;
  }
  out.put("</svg>\n<p class=\"legend\">");
  for (size_t i = 0; i + 1 < t.rows.size(); ++i)
    out.print(
        "<span><svg viewBox=\"0 0 10 10\"><rect class=\"c{}\" width=\"10\" height=\"10\"/>"
        "</svg> {}</span> ",
        i % kColors, text::xml(t.rows[i][0].text));
  out.put("</p>\n");
}

// Memory over time as stacked areas, one for each category and one for what was there before.
void put_memory_chart(const Profile& p, Output& out) {
  const ReportTable t = report(p, "timeline", {.limit = 240})[0];
  double most = 1;
  for (const auto& row : t.rows) most = std::max(most, row[1].number);
  constexpr double kWidth = 960, kHeight = 220;
  const double step = kWidth / static_cast<double>(t.rows.size());
  out.print(
      "<svg class=\"memory\" viewBox=\"-90 -12 1060 262\" role=\"img\" aria-label=\"memory "
      "over time\">");
  std::vector<double> base(t.rows.size());
  for (size_t c = 2; c < t.columns.size(); ++c) {
    std::string up, down;
    for (size_t i = 0; i < t.rows.size(); ++i) {
      const double low = kHeight * (1 - base[i] / most);
      base[i] += t.rows[i][c].number;
      const double high = kHeight * (1 - base[i] / most);
      const double x = step * static_cast<double>(i);
      up += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x, high, x + step, high);
      down = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x + step, low, x, low) + down;
    }
    out.print("<polygon class=\"c{}\" points=\"{}{}\"><title>{}</title></polygon>\n",
              (c - 2) % kColors, up, down, text::xml(t.columns[c].title));
  }
  out.print(
      "<line x1=\"0\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/><line x1=\"0\" y1=\"0\" x2=\"0\" "
      "y2=\"{0}\"/><line class=\"light\" x1=\"0\" y1=\"0\" x2=\"{1}\" y2=\"0\"/>"
      "<text x=\"-6\" y=\"4\" class=\"end\">{2}</text><text x=\"-6\" y=\"{0}\" "
      "class=\"end\">0</text><text x=\"0\" y=\"238\">0</text><text x=\"{1}\" y=\"238\" "
      "class=\"end\">{3}</text></svg>\n<p class=\"legend\">",
      kHeight, kWidth, text::format_bytes(most),
      format_duration(static_cast<double>(p.run.duration)));
  for (size_t c = 2; c < t.columns.size(); ++c)
    out.print(
        "<span><svg viewBox=\"0 0 10 10\"><rect class=\"c{}\" width=\"10\" height=\"10\"/>"
        "</svg> {}</span> ",
        (c - 2) % kColors, text::xml(t.columns[c].title));
  out.put("</p>\n");
}

// The merged calls as [parent, name, calls, total, self]; what takes less than a thousandth of the
// whole is left out, so that the page stays small whatever the run.
void put_calls(const Profile& p, Output& out) {
  const FunctionStats stats(p);
  const CallTree tree(p, stats.functions);
  int64_t all = 0;
  for (const CallNode& n : tree.nodes)
    if (n.parent < 0) all += n.total;
  std::vector<std::string> names;
  for (int32_t f = 0; f < stats.functions.number.size(); ++f)
    names.push_back(text::json_string(function_name(p, stats.site(f), stats.name(f))));
  std::vector<int32_t> place(tree.nodes.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < tree.nodes.size(); ++i) {
    const CallNode& n = tree.nodes[i];
    if (n.total * 1000 < all || (n.parent >= 0 && place[at(n.parent)] < 0)) continue;
    place[i] = count++;
    out.print("{}[{},{},{},{},{}]", count > 1 ? ",\n" : "", n.parent < 0 ? -1 : place[at(n.parent)],
              names[at(n.function)], n.calls, n.total, n.self);
  }
}

void put_overview(const Profile& p, Output& out) {
  std::map<std::string, ReportTable> tables;
  for (ReportTable& t : report(p, "overview")) tables.emplace(t.name, std::move(t));
  const ReportTable& head = tables["overview"];
  put_head(head, out);
  if (!head.rows.empty()) put_shares(head, out);
  out.put("<div class=\"side\"><div>");
  put_rows(head, out);
  out.put("</div><div>");
  put_text(head.footing, out);
  out.put("</div></div>\n");
  constexpr std::pair<const char*, const char*> kSections[] = {{"advice", "Advice"},
                                                               {"top-ops", "Ops"},
                                                               {"top-lines", "Lines"},
                                                               {"counts", "Calls"},
                                                               {"samples", "Samples"}};
  for (const auto& [name, title] : kSections)
    if (tables.contains(name)) {
      out.print("<h2>{}</h2>\n", title);
      put_table(tables[name], out);
    }
}

}  // namespace

void export_html(const Profile& p, Output& out) {
  // The page names its own script by a number that follows from its content.
  const std::string nonce = fmt::format(
      "{:016x}", std::hash<std::string>()(p.run.program + p.run.started) * 0x9e3779b97f4a7c15u);
  out.print(kPageHead, fmt::arg("nonce", nonce), fmt::arg("title", text::xml(p.run.program)),
            fmt::arg("style", kPageStyle));
  put_overview(p, out);
  if (!p.events.empty()) {
    out.put(
        "<h2>Calls</h2>\n<p class=\"hint\">Each row is one level of the call stack; each rectangle "
        "is one call path, as wide as its time. Click a rectangle to zoom in; click the top one to "
        "zoom out.</p>\n"
        "<div id=\"icicle\"></div><p id=\"what\"></p>\n<h2>Memory</h2>\n");
    put_memory_chart(p, out);
    out.put("<h2>Tables</h2>\n");
    for (const char* name : {"torch", "modules", "roofline", "peak", "timeline", "steps"}) {
      out.print("<details><summary>{}</summary>\n", name);
      for (const ReportTable& t : report(p, name)) put_table(t, out);
      out.put("</details>\n");
    }
    out.print("<script type=\"application/json\" id=\"calls\" nonce=\"{}\">[", nonce);
    put_calls(p, out);
    out.put("]</script>\n");
  }
  out.print("<script nonce=\"{}\">{}</script>\n</body></html>\n", nonce, kPageScript);
}

}  // namespace pellucid::profile
