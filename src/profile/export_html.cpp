// One page that needs nothing else: the overview, an icicle of the calls, and the tables.
// Everything from the profile is escaped, and the page's policy allows no resource but its own
// style and script.
#include <functional>

#include "base/escape.h"
#include "pellucid/profile_report.h"
#include "profile/exports.h"
#include "profile/functions.h"
#include "profile/html_page.h"

namespace pellucid::profile {
namespace {

void put_table(const ReportTable& t, Output& out) {
  if (!t.heading.empty()) out.print("<pre>{}</pre>\n", text::xml(t.heading));
  if (!t.columns.empty()) {
    out.put("<table><thead><tr>");
    for (const ReportTable::Column& c : t.columns)
      out.print("<th{}>{}</th>", c.right ? " class=\"n\"" : "", text::xml(c.title));
    out.put("</tr></thead><tbody>\n");
    for (const auto& row : t.rows) {
      out.put("<tr>");
      for (size_t c = 0; c < row.size(); ++c)
        out.print("<td{}>{}</td>", t.columns[c].right ? " class=\"n\"" : "",
                  text::xml(row[c].text));
      out.put("</tr>\n");
    }
    out.put("</tbody></table>\n");
  }
  if (!t.footing.empty()) out.print("<pre>{}</pre>\n", text::xml(t.footing));
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

}  // namespace

void export_html(const Profile& p, Output& out) {
  // The page names its own script by a number that follows from its content.
  const std::string nonce = fmt::format(
      "{:016x}", std::hash<std::string>()(p.run.program + p.run.started) * 0x9e3779b97f4a7c15u);
  out.print(kPageHead, fmt::arg("nonce", nonce), fmt::arg("title", text::xml(p.run.program)),
            fmt::arg("style", kPageStyle));
  const bool traced = !p.events.empty();
  for (const ReportTable& t : report(p, "overview")) put_table(t, out);
  if (traced) {
    out.put("<h2>Calls</h2>\n<div id=\"icicle\"></div><p id=\"what\"></p>\n");
    for (const char* name : {"torch", "modules", "roofline", "peak", "timeline", "steps"}) {
      out.print("<details><summary>{}</summary>\n", name);
      for (const ReportTable& t : report(p, name)) put_table(t, out);
      out.put("</details>\n");
    }
    out.print("<script type=\"application/json\" id=\"calls\" nonce=\"{}\">[", nonce);
    put_calls(p, out);
    out.print("]</script>\n<script nonce=\"{}\">{}</script>\n", nonce, kPageScript);
  }
  out.put("</body></html>\n");
}

}  // namespace pellucid::profile
