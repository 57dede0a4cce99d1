// Runs the lines of twins.txt in C++ and compares with PyTorch's numbers there. Where
// PELLUCID_PARITY_DIR names a folder (tests/parity/run sets it), it also writes every output and
// gradient into twins.tensors, which twins.py compares with Python's and with PyTorch's.
#include "parity/twins.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "paths.h"
#include "pellucid/io/safetensors.h"

using namespace pellucid;
using namespace pellucid::twins;

namespace {

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' '), last = text.find_last_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// Parts between `separator` outside of brackets.
std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : text) {
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    if (c == separator && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (std::string& p : parts) p = trimmed(p);
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

std::vector<int64_t> numbers_between(const std::string& text, char open, char close) {
  std::vector<int64_t> out;
  const size_t begin = text.find(open);
  if (begin == std::string::npos) return out;
  for (const std::string& n :
       parts_of(text.substr(begin + 1, text.find(close, begin) - begin - 1), ','))
    out.push_back(std::stoll(n));
  return out;
}

/// A line of the table.
struct Line {
  std::string text;  ///< the constructor, after the words before it
  bool eval = false, optimizer = false;
  double tolerance = 1e-9;
  std::vector<std::string> inputs;
  std::vector<double> numbers;
};

std::vector<Line> read_table() {
  std::ifstream file(test::source_folder() + "/tests/parity/twins.txt");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    const std::vector<std::string> columns = parts_of(text + "|", '|');
    Line line{.text = columns.at(0)};
    const auto starts = [&](const std::string& word) {
      const bool found = line.text.rfind(word, 0) == 0;
      if (found) line.text = line.text.substr(word.size());
      return found;
    };
    starts("model ");  // C++ has them beside the other modules
    line.eval = starts("eval ");
    line.optimizer = starts("optim ");
    if (starts("1e-7 ")) line.tolerance = 1e-6;
    line.inputs = parts_of(columns.at(1), ',');
    std::istringstream numbers(columns.at(2));
    for (double n = 0; numbers >> n;) line.numbers.push_back(n);
    lines.push_back(std::move(line));
  }
  return lines;
}

/// The tensors of a line's inputs, and those of them (or what they are made of) that get gradients.
struct Given {
  Tensors inputs, leaves;
};

void add_input(Given& given, const std::string& text) {
  const double phase = 10 + static_cast<double>(given.inputs.size());
  const std::string kind = text.substr(0, text.find_first_of("(["));
  const std::vector<int64_t> values = numbers_between(text, '(', ')');
  const auto leaf = [&] {
    given.leaves.push_back(wave(values, phase).requires_grad_());
    return given.leaves.back();
  };
  Tensor made;
  if (kind == "wave")
    made = leaf();
  else if (kind == "logsoft")
    made = leaf().log_softmax(-1);
  else if (kind == "pos")
    made = pos(values, phase);
  else if (kind == "prob")
    made = (wave(values, phase) + 1.2) / 2.5;
  else if (kind == "sign")
    made = where(wave(values, phase) > 0, ones(values, kFloat64), -ones(values, kFloat64));
  else if (kind == "true" || kind == "false")
    made = tensor(kind == "true");
  else if (kind == "ints" || kind == "mask") {
    made = tensor(values);
    if (text[4] == '[') made = made.view(numbers_between(text, '[', ']'));
    if (kind == "mask") made = made.to(kBool);
  } else
    FAIL("twins.txt: unknown input ", text);
  given.inputs.push_back(made);
}

double weighted(const Tensor& t, double phase) {
  return (t.detach() * wave(t.sizes(), phase)).sum().item<double>();
}

void check_number(double found, double expected, double tolerance) {
  CHECK(std::abs(found - expected) <= tolerance * (1 + std::abs(expected)));
}

void run_module(const Line& line, const Made& made, const std::string& key,
                io::NamedTensors& written) {
  made.module->to(kFloat64);
  made.module->train(!line.eval);
  {
    const NoGradGuard off;
    double phase = 0;
    for (const Tensor& p : made.module->parameters()) p.copy_(wave(p.sizes(), phase++) * 0.5);
  }
  Given given;
  for (const std::string& text : line.inputs) add_input(given, text);
  const Tensors outputs = made.forward(given.inputs);
  Tensor total = zeros({}, kFloat64);
  double value = 0, phase = 1;
  for (const Tensor& t : outputs) {
    written.push_back({fmt::format("{}.output.{}", key, phase - 1), t.detach().contiguous()});
    total = total + (t * wave(t.sizes(), phase)).sum();
    value += weighted(t, phase++);
  }
  if (total.requires_grad()) total.backward();
  double gradient = 0;
  phase = 2;
  const auto add = [&](const std::string& name, const Tensor& t) {
    if (t.grad().defined()) {
      written.push_back({fmt::format("{}.gradient.{}", key, name), t.grad().contiguous()});
      gradient += weighted(t.grad(), phase);
    }
    ++phase;
  };
  for (size_t i = 0; i < given.leaves.size(); ++i) add(std::to_string(i), given.leaves[i]);
  for (const auto& p : made.module->named_parameters()) add(p.key(), p.value());
  REQUIRE(line.numbers.size() == 2);
  check_number(value, line.numbers[0], line.tolerance);
  check_number(gradient, line.numbers[1], line.tolerance);
}

/// 50 steps on two parameters, whose gradients follow them and a wave.
void run_optimizer(const Line& line, const std::string& key, io::NamedTensors& written) {
  const std::vector<Tensor> params = {wave({3, 4}, 0).requires_grad_(),
                                      wave({5}, 1).requires_grad_()};
  const std::unique_ptr<optim::Optimizer> optimizer = optimizers().at(line.text)(params);
  for (int step = 1; step <= 50; ++step) {
    for (const Tensor& p : params)
      p.mutable_grad() = (p.detach() - 0.3) * 0.5 + wave(p.sizes(), step) * 0.1;
    optimizer->step();
  }
  double value = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    written.push_back({fmt::format("{}.output.{}", key, i), params[i].detach()});
    value += weighted(params[i], static_cast<double>(i) + 1);
  }
  REQUIRE(line.numbers.size() == 1);
  check_number(value, line.numbers[0], 1e-12);
}

}  // namespace

TEST_CASE("parity: twins give PyTorch's numbers in C++") {
  Modules modules = activations_and_losses();
  modules.merge(layers());
  modules.merge(sequence_layers());
  modules.merge(built_in_models());
  const Optimizers known = optimizers();
  std::set<std::string> used;
  io::NamedTensors written;
  size_t number = 0;
  for (const Line& line : read_table()) {
    CAPTURE(line.text);
    const std::string key = std::to_string(number++);
    used.insert(line.text);
    if (line.optimizer) {
      REQUIRE(known.count(line.text) == 1);
      run_optimizer(line, key, written);
    } else {
      REQUIRE(modules.count(line.text) == 1);
      run_module(line, modules.at(line.text)(), key, written);
    }
  }
  CHECK(used.size() == modules.size() + known.size());  // each constructor has a line
  if (const char* folder = std::getenv("PELLUCID_PARITY_DIR"))
    io::save_safetensors(std::string(folder) + "/twins.tensors", written);
}
