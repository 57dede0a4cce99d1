// pellucid anatomy: where one op's nanoseconds go, by size.
#include "cli/analyze/anatomy.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/analyze/spec.h"
#include "cli/commands/commands.h"
#include "cli/text.h"
#include "cli/values.h"

namespace pellucid::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Part {
  std::string_view name, how;
  double Anatomy::*value;
};

// Those of an expression on the stack machine, or of one in Python.
std::vector<Part> parts_of(bool python) {
  std::vector<Part> parts;
  if (python) {
    parts.push_back({"python", "the expression in Python - the same call by Python's C interface",
                     &Anatomy::expression});
    parts.push_back({"binding", "that call - the same call from C++, arguments bound already",
                     &Anatomy::binding});
  } else {
    parts.push_back({"expression", "the expression on the stack machine - the same call from C++",
                     &Anatomy::expression});
  }
  const Part common[] = {
      {"infer", "timed alone: sizes, dtypes, checks, the result's handle", &Anatomy::infer},
      {"allocation", "timed alone: the result's memory, taken and given back",
       &Anatomy::allocation},
      {"tape", "a call with gradients - one without", &Anatomy::tape},
      {"kernel", "timed alone, on memory that is there", &Anatomy::kernel},
      {"rest", "what is left of the whole: the door's other steps, and noise", &Anatomy::rest}};
  parts.insert(parts.end(), std::begin(common), std::end(common));
  return parts;
}

Json to_json(const std::string& expression, const OneOp& op, const std::vector<Part>& parts,
             const std::vector<Anatomy>& rows) {
  Json list = Json::array();
  for (const Anatomy& a : rows) {
    Json row = {{"elements", a.elements}, {"whole_ns", a.whole}};
    for (const Part& p : parts) row[std::string(p.name) + "_ns"] = a.*p.value;
    list.push_back(row);
  }
  return {{"expression", expression}, {"op", op.op().info->name}, {"sizes", list}};
}

std::string to_text(const std::vector<Part>& parts, const std::vector<Anatomy>& rows) {
  std::vector<Table::Column> columns = {{"elements", Align::Right}, {"whole ns", Align::Right}};
  for (const Part& p : parts) columns.push_back({std::string(p.name), Align::Right});
  columns.push_back({"kernel %", Align::Right});
  Table table(columns);
  for (const Anatomy& a : rows) {
    std::vector<std::string> cells = {group_digits(a.elements), fmt::format("{:.0f}", a.whole)};
    for (const Part& p : parts) cells.push_back(fmt::format("{:.0f}", a.*p.value));
    cells.push_back(fmt::format("{:.0f}", 100 * a.kernel / a.whole));
    table.add(cells);
  }
  return table.print();
}

std::string conclusion(const std::vector<Anatomy>& rows) {
  const Anatomy& first = rows.front();
  const std::string overhead = fmt::format(
      "With {} element{} {:.0f} of {:.0f} ns are overhead", group_digits(first.elements),
      first.elements == 1 ? "" : "s", first.whole - first.kernel, first.whole);
  for (const Anatomy& a : rows)
    if (a.kernel > a.whole / 2)
      return fmt::format("{}; the kernel takes more than half from {} elements on.", overhead,
                         group_digits(a.elements));
  return overhead + "; the kernel never takes more than half.";
}

// Parts that come to far more than the whole were timed while other programs held the cores.
std::string noise_of(const std::vector<Anatomy>& rows) {
  for (const Anatomy& a : rows)
    if (a.rest < -0.3 * a.whole)
      return fmt::format(
          "the machine is too noisy: with {} elements the parts come to {:.1f} times the whole; "
          "close other programs and measure again",
          group_digits(a.elements), (a.whole - a.rest) / a.whole);
  return {};
}

int run_anatomy(const Args& args) {
  std::string expression, sizes = "1,10,100,1000,10000,100000,1000000", interpreter = "python3";
  bool quick = false, python = false, json = false;
  CommandLine line(args);
  line.add_option("EXPR", expression,
                  "One op on variables and numbers; variables are float32 vectors")
      ->required();
  line.add_option("--sizes", sizes, "Elements of the variables")
      ->type_name("SIZES")
      ->capture_default_str();
  line.add_flag("--quick", quick, "Shorter runs");
  line.add_flag("--python", python, "Run the expression in Python: what it and its binding take");
  line.add_option("--interpreter", interpreter, "The Python that has the package pellucid")
      ->type_name("PROGRAM")
      ->capture_default_str();
  line.add_json(json);
  line.read();
  const OneOp op(expression);
  const double seconds = quick ? 0.005 : 0.05;
  const std::vector<int64_t> elements = read_sizes(sizes, "--sizes");
  std::vector<Anatomy> rows;
  if (python)
    rows = op.measure_in_python(interpreter, elements, seconds);
  else
    for (const int64_t n : elements) rows.push_back(op.measure(n, seconds));
  const std::vector<Part> parts = parts_of(python);
  const std::string noise = noise_of(rows);
  if (!noise.empty()) fmt::print(args.err, "warning: {}\n", noise);
  if (json) {
    fmt::print(args.out, "{}", json_text(to_json(expression, op, parts, rows)));
    return 0;
  }
  fmt::print(args.out, "{}: one call of '{}', an input wants a gradient\n\n{}\n", expression,
             op.op().info->name, to_text(parts, rows));
  Table how({{""}, {""}});
  for (const Part& p : parts) how.add({std::string(p.name), std::string(p.how)});
  fmt::print(args.out, "{}\n{}{}\n", how.print(), conclusion(rows),
             noise.empty() ? "" : " (Measured on a busy machine: do not rely on it.)");
  return 0;
}

}  // namespace

const Command kAnatomy{
    .name = "anatomy",
    .summary = "Show where one op's nanoseconds go, by size",
    .description =
        "Measures one op in parts: the expression (or Python and its binding), infer, allocation, "
        "the tape, the kernel. Each is timed on its own or as the difference of two timings; what "
        "they leave of the whole is shown as the rest.",
    .examples =
        "pellucid anatomy 'x + y'\n"
        "pellucid anatomy 'x + y' --python\n"
        "pellucid anatomy 'exp(x)' --sizes 1,1000,1000000\n"
        "pellucid anatomy 'x * 2' --quick --json",
    .run = run_anatomy};

}  // namespace pellucid::cli
