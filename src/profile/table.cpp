// See table.h; and the three forms of a table: text, JSON, CSV.
#include "profile/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "base/escape.h"
#include "base/text.h"
#include "pellucid/error.h"

namespace pellucid::profile {

Cell count_cell(int64_t n) { return cell(text::group_digits(n), static_cast<double>(n)); }
Cell time_cell(double nanoseconds) {
  return cell(format_duration(nanoseconds), nanoseconds * 1e-9);
}
Cell memory_cell(int64_t bytes) {
  return cell(text::format_bytes_binary(static_cast<double>(bytes)), static_cast<double>(bytes));
}
Cell share_cell(double part, double whole) {
  if (whole == 0) return no_cell();
  return cell(fmt::format("{:.2f}%", 100 * part / whole), part / whole);
}

std::string format_duration(double nanoseconds) {
  const double size = std::fabs(nanoseconds);
  if (size >= 1e9) return fmt::format("{:.3f}s", nanoseconds * 1e-9);
  if (size >= 1e6) return fmt::format("{:.3f}ms", nanoseconds * 1e-6);
  return fmt::format("{:.3f}us", nanoseconds * 1e-3);
}

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<std::pair<double, std::string_view>, 5> kPrefixes = {
      {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [scale, prefix] : kPrefixes)
    if (std::fabs(value) >= scale) return fmt::format("{:.2f} {}{}", value / scale, prefix, unit);
  return fmt::format("{:.0f} {}", value, unit);
}

std::string percent(double part, double whole) {
  if (whole == 0 || part == 0) return "0 %";
  const double share = 100 * part / whole;
  if (std::fabs(share) < 0.05) return "less than 0.1 %";
  return fmt::format("{:.{}f} %", share, std::fabs(share) < 10 ? 1 : 0);
}

size_t choose(std::string_view word, const std::vector<std::string_view>& list,
              std::string_view what) {
  std::vector<size_t> found;
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == word) return i;
    if (!word.empty() && list[i].starts_with(word)) found.push_back(i);
  }
  PELLUCID_CHECK(found.size() == 1, ValueError, "profile: {} is none of the {}: {}.",
                 text::visible(fmt::format("'{}'", word)), what, fmt::join(list, ", "));
  return found[0];
}

void cut_rows(std::vector<size_t>& order, const ReportOptions& options, int64_t own_limit,
              std::string& note) {
  const int64_t limit = options.limit < 0 ? own_limit : options.limit;
  if (limit <= 0 || static_cast<int64_t>(order.size()) <= limit) return;
  note += fmt::format("{} of {} rows; --limit 0 shows all\n", limit,
                      text::group_digits(static_cast<int64_t>(order.size())));
  order.resize(static_cast<size_t>(limit));
}

namespace {

std::string plain_text(const ReportTable& t) {
  std::vector<text::Table::Column> columns;
  for (const ReportTable::Column& c : t.columns)
    columns.push_back({c.title, c.right ? text::Align::Right : text::Align::Left});
  text::Table table(std::move(columns));
  for (const auto& row : t.rows) {
    std::vector<std::string> cells;
    for (const Cell& c : row) cells.push_back(text::visible(c.text));
    table.add(std::move(cells));
  }
  return table.print();
}

// Cells padded to the widths; the columns are `gap` blanks apart.
std::string padded_line(const std::vector<std::string>& cells, const std::vector<int>& widths,
                        const std::vector<ReportTable::Column>& columns, int gap) {
  std::string line;
  for (size_t c = 0; c < cells.size(); ++c) {
    const int missing = std::max(0, widths[c] - text::display_width(cells[c]));
    const std::string padding(static_cast<size_t>(missing), ' ');
    if (c > 0) line.append(static_cast<size_t>(gap), ' ');
    line += columns[c].right ? padding + cells[c] : cells[c] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

// As pstats prints: the calls in nine columns, times in eight, then the name.
std::string cprofile_text(const ReportTable& t) {
  std::vector<int> widths(t.columns.size(), 8);
  widths[0] = 9;
  widths.back() = 0;
  std::vector<std::string> cells;
  for (const ReportTable::Column& c : t.columns) cells.push_back(c.title);
  std::string out = padded_line(cells, widths, t.columns, 1);
  for (const auto& row : t.rows) {
    cells.clear();
    for (const Cell& c : row) cells.push_back(text::visible(c.text));
    out += padded_line(cells, widths, t.columns, 1);
  }
  return out + '\n';
}

// As torch.profiler prints: columns of at least twelve characters between lines of dashes; a long
// name is cut.
std::string torch_text(const ReportTable& t) {
  constexpr int kColumn = 12, kLongest = 80;
  constexpr size_t kName = 55;
  std::vector<std::vector<std::string>> rows(1);
  for (const ReportTable::Column& c : t.columns) rows[0].push_back(c.title);
  for (const auto& row : t.rows) {
    rows.emplace_back();
    for (size_t c = 0; c < row.size(); ++c) {
      std::string shown = text::visible(row[c].text);
      const size_t most = c == 0 ? kName : kLongest;
      if (shown.size() > most - 3) shown = text::visible(shown.substr(0, most - 3)) + "...";
      rows.back().push_back(std::move(shown));
    }
  }
  std::vector<int> widths(t.columns.size(), kColumn);
  for (size_t c = 0; c < t.columns.size(); ++c)
    for (const auto& row : rows) widths[c] = std::max(widths[c], text::display_width(row[c]));
  std::string dashes;
  for (size_t c = 0; c < widths.size(); ++c)
    dashes += (c > 0 ? "  " : "") + std::string(static_cast<size_t>(widths[c]), '-');
  std::string out = dashes + '\n';
  for (size_t r = 0; r < rows.size(); ++r) {
    out += padded_line(rows[r], widths, t.columns, 2);
    if (r == 0) out += dashes + '\n';
  }
  return out + dashes + '\n';
}

std::string visible_lines(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    out += text::visible(lines.substr(0, end));
    if (end == std::string_view::npos) break;
    out += '\n';
    lines.remove_prefix(end + 1);
  }
  return out;
}

std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";
  if (number == std::floor(number) && std::fabs(number) < 0x1p53)
    return fmt::format("{:.0f}", number);
  return fmt::format("{}", number);
}

}  // namespace

std::string to_text(const std::vector<ReportTable>& tables) {
  std::string out;
  for (const ReportTable& t : tables) {
    if (!out.empty()) out += '\n';
    out += visible_lines(t.heading);
    if (!t.columns.empty())
      out += t.style == TableStyle::CProfile ? cprofile_text(t)
             : t.style == TableStyle::Torch  ? torch_text(t)
                                             : plain_text(t);
    out += visible_lines(t.footing);
  }
  return out;
}

std::string to_json(const std::vector<ReportTable>& tables) {
  std::string out = "{\"tables\": [";
  for (const ReportTable& t : tables) {
    out += fmt::format("{}\n  {{\"name\": {}, \"heading\": {}, \"footing\": {}, \"columns\": [",
                       &t == tables.data() ? "" : ",", text::json_string(t.name),
                       text::json_string(t.heading), text::json_string(t.footing));
    for (size_t c = 0; c < t.columns.size(); ++c)
      out +=
          fmt::format("{}{{\"key\": {}, \"title\": {}}}", c > 0 ? ", " : "",
                      text::json_string(t.columns[c].key), text::json_string(t.columns[c].title));
    out += "],\n   \"rows\": [";
    for (size_t r = 0; r < t.rows.size(); ++r) {
      out += r > 0 ? ",\n    {" : "\n    {";
      for (size_t c = 0; c < t.rows[r].size(); ++c) {
        const Cell& x = t.rows[r][c];
        out += fmt::format("{}{}: {}", c > 0 ? ", " : "", text::json_string(t.columns[c].key),
                           x.is_number      ? number_text(x.number)
                           : x.text == "--" ? "null"
                                            : text::json_string(x.text));
      }
      out += '}';
    }
    out += "]}";
  }
  return out + "\n]}\n";
}

std::string to_csv(const std::vector<ReportTable>& tables) {
  std::string out;
  for (const ReportTable& t : tables) {
    if (t.columns.empty()) continue;
    if (!out.empty()) out += '\n';
    for (size_t c = 0; c < t.columns.size(); ++c)
      out += (c > 0 ? "," : "") + text::csv_cell(t.columns[c].key);
    out += '\n';
    for (const auto& row : t.rows) {
      for (size_t c = 0; c < row.size(); ++c) {
        if (c > 0) out += ',';
        if (row[c].is_number)
          out += number_text(row[c].number);
        else if (row[c].text != "--")
          out += text::csv_cell(row[c].text);
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace pellucid::profile
