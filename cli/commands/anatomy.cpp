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
  AnatomyPart Anatomy::*value;
};

// Those of an expression on the stack machine, or of one in Python.
std::vector<Part> named_parts(bool python) {
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
      {"rest", "what is left of the whole: the dispatcher's other steps", &Anatomy::rest}};
  parts.insert(parts.end(), std::begin(common), std::end(common));
  return parts;
}

Json to_json(const std::string& expression, const OneOp& op, const std::vector<Part>& parts,
             const std::vector<Anatomy>& rows) {
  Json list = Json::array();
  for (const Anatomy& a : rows) {
    Json row = {{"elements", a.elements}, {"whole_ns", a.whole.ns}};
    for (const Part& p : parts) row[std::string(p.name) + "_ns"] = (a.*p.value).ns;
    Json noise = {{"whole_ns", a.whole.noise}};
    for (const Part& p : parts) noise[std::string(p.name) + "_ns"] = (a.*p.value).noise;
    row["noise"] = noise;
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
    std::vector<std::string> cells = {group_digits(a.elements), fmt::format("{:.0f}", a.whole.ns)};
    for (const Part& p : parts) {
      const AnatomyPart& part = a.*p.value;
      cells.push_back(part.below_noise() ? fmt::format("< {:.0f}", std::max(1.0, part.noise))
                                         : fmt::format("{:.0f}", part.ns));
    }
    cells.push_back(fmt::format("{:.0f}", 100 * a.kernel.ns / a.whole.ns));
    table.add(cells);
  }
  return table.print();
}

std::string conclusion(const std::vector<Anatomy>& rows) {
  const Anatomy& first = rows.front();
  const std::string overhead = fmt::format(
      "With {} element{} {:.0f} of {:.0f} ns are overhead", group_digits(first.elements),
      first.elements == 1 ? "" : "s", first.whole.ns - first.kernel.ns, first.whole.ns);
  for (const Anatomy& a : rows)
    if (a.kernel.ns > a.whole.ns / 2)
      return fmt::format("{}; the kernel takes more than half from {} elements on.", overhead,
                         group_digits(a.elements));
  return overhead + "; the kernel never takes more than half.";
}

// Timings that scatter, or parts that come to more than the call that contains them, tell of other
// programs on the cores.
std::string noise_of(const std::vector<Anatomy>& rows) {
  constexpr double kMost = 0.15;
  for (const Anatomy& a : rows) {
    if (a.excess > kMost)
      return fmt::format(
          "the machine is too noisy: with {} elements the parts come to {:.2f} times the call "
          "that contains them, and were made to fit; close other programs and measure again",
          group_digits(a.elements), 1 + a.excess);
    if (a.whole.noise > kMost * a.whole.ns)
      return fmt::format(
          "the machine is too noisy: with {} elements the blocks of one loop differ by {:.0f} %; "
          "close other programs and measure again",
          group_digits(a.elements), 100 * a.whole.noise / a.whole.ns);
  }
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
  line.add_flag("--python", python, "Run the expression in Python, to time it and its binding");
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
  const std::vector<Part> parts = named_parts(python);
  const std::string noise = noise_of(rows);
  if (!noise.empty()) fmt::print(args.err, "warning: {}\n", noise);
  if (json) {
    fmt::print(args.out, "{}", json_text(to_json(expression, op, parts, rows)));
    return 0;
  }
  fmt::print(args.out, "{}: one call of '{}'; one input requires a gradient\n\n{}\n", expression,
             op.op().info->name, to_text(parts, rows));
  Table how({{""}, {""}});
  for (const Part& p : parts) how.add({std::string(p.name), std::string(p.how)});
  fmt::print(args.out,
             "{}Nanoseconds of the fastest of nine blocks; the parts sum to the whole. < N: below "
             "the noise of N ns.\n",
             how.print());
  fmt::print(args.out, "\n{}{}\n", conclusion(rows),
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
        "they leave of the whole is shown as the rest. A part that is smaller than the scatter of "
        "its timings is shown as that limit.",
    .examples =
        "pellucid anatomy 'x + y'\n"
        "pellucid anatomy 'x + y' --python\n"
        "pellucid anatomy 'exp(x)' --sizes 1,1000,1000000\n"
        "pellucid anatomy 'x * 2' --quick --json",
    .run = run_anatomy};

}  // namespace pellucid::cli
