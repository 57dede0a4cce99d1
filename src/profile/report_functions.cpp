// cProfile's table: functions with their calls and times, its sort keys, and callers and callees.
#include <fmt/format.h>

#include <array>
#include <tuple>

#include "base/escape.h"
#include "base/text.h"
#include "pellucid/error.h"
#include "profile/functions.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {

FunctionStats::FunctionStats(const Profile& p) : names(p), functions(p, names) {
  figures.resize(static_cast<size_t>(functions.number.size()));
  Numbering edge_number;
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    const bool primitive = functions.group.outermost[i] != 0;
    const int32_t function = functions.group.key[i];
    figures[static_cast<size_t>(function)].add(e, primitive);
    if (e.parent < 0) continue;
    const int32_t caller = functions.group.key[static_cast<size_t>(e.parent)];
    const auto edge = static_cast<size_t>(edge_number(function, caller));
    if (edge == edges.size()) edges.push_back({caller, function, {}});
    edges[edge].figures.add(e, primitive);
  }
  for (const CallFigures& f : figures) {
    total.calls += f.calls;
    total.primitive_calls += f.primitive_calls;
    total.own += f.own;
  }
  std::sort(edges.begin(), edges.end(), [](const CallEdge& a, const CallEdge& b) {
    return std::tie(a.callee, a.caller) < std::tie(b.callee, b.caller);
  });
}

namespace {

enum class Order { Calls, Primitive, Own, Cumulative, File, Line, Name, NameFileLine, Standard };

struct SortKey {
  std::string_view word, sentence;
  Order order;
};

// pstats' keys and what it writes after "Ordered by:".
constexpr auto kSortKeys =
    std::to_array<SortKey>({{"calls", "call count", Order::Calls},
                            {"ncalls", "call count", Order::Calls},
                            {"cumtime", "cumulative time", Order::Cumulative},
                            {"cumulative", "cumulative time", Order::Cumulative},
                            {"filename", "file name", Order::File},
                            {"line", "line number", Order::Line},
                            {"module", "file name", Order::File},
                            {"name", "function name", Order::Name},
                            {"nfl", "name/file/line", Order::NameFileLine},
                            {"pcalls", "primitive call count", Order::Primitive},
                            {"stdname", "standard name", Order::Standard},
                            {"time", "internal time", Order::Own},
                            {"tottime", "internal time", Order::Own}});

const SortKey& sort_key(std::string_view word) {
  std::vector<std::string_view> words;
  for (const SortKey& k : kSortKeys) words.push_back(k.word);
  return kSortKeys[choose(word.empty() ? "time" : word, words, "sort keys")];
}

// One profile's functions in the order that was asked for.
class FunctionReport {
 public:
  FunctionReport(const Profile& p, const ReportOptions& o)
      : p_(p), o_(o), stats_(p), key_(sort_key(o.sort)) {
    for (int32_t f = 0; f < stats_.functions.number.size(); ++f)
      names_.push_back(function_name(p_, stats_.site(f), stats_.name(f), o_.full_paths));
    sort();
    const std::vector<std::string_view> units = {"sec", "msec", "usec"};
    constexpr double kScale[] = {1e-9, 1e-6, 1e-3};
    scale_ = kScale[o.unit.empty() ? 0 : choose(o.unit, units, "units")];
  }

  ReportTable table() const {
    ReportTable t = start("cprofile");
    t.columns = {{"ncalls", "ncalls"},
                 {"tottime", "tottime_seconds"},
                 {"percall", "tottime_percall_seconds"},
                 {"cumtime", "cumtime_seconds"},
                 {"percall", "cumtime_percall_seconds"},
                 {"filename:lineno(function)", "function", false}};
    std::vector<size_t> order = order_;
    std::string note;
    cut_rows(order, o_, 0, note);
    if (order.size() < order_.size())
      t.heading += fmt::format("   List reduced from {} to {} due to restriction <{}>\n\n",
                               order_.size(), order.size(), order.size());
    for (const size_t f : order) {
      const CallFigures& c = stats_.figures[f];
      t.rows.push_back({calls(c), time(c.own, 1), time(c.own, c.calls), time(c.cumulative, 1),
                        time(c.cumulative, c.primitive_calls), cell(names_[f])});
    }
    return t;
  }

  // pstats' print_callers and print_callees: for each function that matches, the other ends of its
  // edges.
  ReportTable edges(const std::string& pattern, bool callers) const {
    ReportTable t = start(callers ? "callers" : "callees");
    t.style = TableStyle::Plain;
    t.columns = {{"Function", "function", false},
                 {callers ? "was called by..." : "called...", "direction", false},
                 {"ncalls", "ncalls"},
                 {"tottime", "tottime_seconds"},
                 {"cumtime", "cumtime_seconds"},
                 {"", "other", false}};
    std::vector<std::vector<const CallEdge*>> of(names_.size());
    for (const CallEdge& e : stats_.edges)
      of[static_cast<size_t>(callers ? e.callee : e.caller)].push_back(&e);
    bool matched = false;
    for (const size_t f : order_) {
      if (names_[f].find(pattern) == std::string::npos) continue;
      matched = true;
      const auto rank =
          ranked(of[f].size(), [&](size_t i) { return of[f][i]->figures.cumulative; });
      for (const size_t i : rank) {
        const CallEdge& e = *of[f][i];
        t.rows.push_back({cell(names_[f]), cell(callers ? "<-" : "->"), calls(e.figures),
                          time(e.figures.own, 1), time(e.figures.cumulative, 1),
                          cell(names_[static_cast<size_t>(callers ? e.caller : e.callee)])});
      }
      if (of[f].empty())
        t.rows.push_back({cell(names_[f]), cell(callers ? "<-" : "->"), no_cell(), no_cell(),
                          no_cell(), cell(callers ? "nothing: it is at the top" : "nothing")});
    }
    PELLUCID_CHECK(matched, ValueError, "report: no function's name contains '{}'.",
                   text::visible(pattern));
    return t;
  }

 private:
  void sort() {
    const auto& f = stats_.figures;
    const auto by = [&](auto value) { order_ = ranked(f.size(), value); };
    const auto rising = [&](auto key) {
      order_ = ranked(f.size(), [](size_t) { return 0; });
      std::stable_sort(order_.begin(), order_.end(),
                       [&](size_t a, size_t b) { return key(a) < key(b); });
    };
    const auto file = [&](size_t i) {
      const int32_t site = stats_.site(static_cast<int32_t>(i));
      return site < 0 ? std::string("~") : p_.sites[static_cast<size_t>(site)].file;
    };
    const auto line = [&](size_t i) {
      const int32_t site = stats_.site(static_cast<int32_t>(i));
      return site < 0 ? 0 : p_.sites[static_cast<size_t>(site)].line;
    };
    const auto name = [&](size_t i) { return std::string(stats_.name(static_cast<int32_t>(i))); };
    switch (key_.order) {
      case Order::Calls:
        return by([&](size_t i) { return f[i].calls; });
      case Order::Primitive:
        return by([&](size_t i) { return f[i].primitive_calls; });
      case Order::Own:
        return by([&](size_t i) { return f[i].own; });
      case Order::Cumulative:
        return by([&](size_t i) { return f[i].cumulative; });
      case Order::File:
        return rising(file);
      case Order::Line:
        return rising(line);
      case Order::Name:
        return rising(name);
      case Order::NameFileLine:
        return rising([&](size_t i) { return std::tuple(name(i), file(i), line(i)); });
      case Order::Standard:
        return rising([&](size_t i) { return names_[i]; });
    }
  }

  ReportTable start(const char* name) const {
    ReportTable t{.name = name, .style = TableStyle::CProfile};
    const CallFigures& all = stats_.total;
    t.heading = fmt::format("         {} function calls", all.calls);
    if (all.calls != all.primitive_calls)
      t.heading += fmt::format(" ({} primitive calls)", all.primitive_calls);
    t.heading += fmt::format(" in {:.3f} seconds\n\n   Ordered by: {}\n",
                             static_cast<double>(all.own) * 1e-9, key_.sentence);
    if (!o_.unit.empty() && scale_ != 1e-9) t.heading += fmt::format("   Times in {}\n", o_.unit);
    t.heading += '\n';
    return t;
  }

  // pstats' "3/1" for a function that called itself.
  static Cell calls(const CallFigures& c) {
    std::string shown = fmt::format("{}", c.calls);
    if (c.calls != c.primitive_calls) shown += fmt::format("/{}", c.primitive_calls);
    return cell(shown, static_cast<double>(c.calls));
  }

  Cell time(int64_t nanoseconds, int64_t calls) const {
    if (calls == 0) return cell("", 0);
    const double each = static_cast<double>(nanoseconds) / static_cast<double>(calls);
    return cell(fmt::format("{:.3f}", each * scale_), each * 1e-9);
  }

  const Profile& p_;
  const ReportOptions& o_;
  FunctionStats stats_;
  SortKey key_;
  double scale_ = 1e-9;
  std::vector<std::string> names_;  // by function
  std::vector<size_t> order_;
};

}  // namespace

std::vector<ReportTable> function_report(const Profile& p, const ReportOptions& o) {
  const FunctionReport report(p, o);
  std::vector<ReportTable> tables;
  if (!o.callers.empty()) tables.push_back(report.edges(o.callers, true));
  if (!o.callees.empty()) tables.push_back(report.edges(o.callees, false));
  if (tables.empty()) tables.push_back(report.table());
  return tables;
}

}  // namespace pellucid::profile
