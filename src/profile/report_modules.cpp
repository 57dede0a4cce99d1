// The model as print(model) shows it, with what each module took; and torchinfo's summary.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/text.h"
#include "profile/index.h"
#include "profile/memory_use.h"
#include "profile/module_use.h"
#include "profile/overhead.h"
#include "profile/reports.h"
#include "profile/table.h"

namespace pellucid::profile {
namespace {

void add_to(ModuleUse& to, const ModuleUse& from) {
  to.parameters += from.parameters;
  to.parameter_bytes += from.parameter_bytes;
  for (size_t phase = 0; phase < to.time.size(); ++phase) to.time[phase] += from.time[phase];
  to.flops += from.flops;
  to.contraction_flops += from.contraction_flops;
  to.at_peak += from.at_peak;
}

}  // namespace

ModuleUses::ModuleUses(const Profile& p) : own(p.modules.size() + 1), children(p.modules.size()) {
  for (size_t m = 0; m < p.modules.size(); ++m) {
    own[m].parameters = p.modules[m].parameters;
    own[m].parameter_bytes = p.modules[m].parameter_bytes;
    const int32_t parent = p.modules[m].parent;
    (parent < 0 ? roots : children[at(parent)]).push_back(static_cast<int32_t>(m));
  }
  for (size_t i = 0; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    ModuleUse& use = e.module < 0 ? own.back() : own[at(e.module)];
    const Signature& s = p.signatures[at(e.signature)];
    use.time[static_cast<size_t>(e.phase)] += e.self;
    if (s.kind == EventKind::Module) {
      ++use.calls;
      if (use.first_call < 0) use.first_call = static_cast<int32_t>(i);
    }
    if (s.kind != EventKind::Op) continue;
    use.flops += s.flops;
    use.contraction_flops += s.contraction_flops;
  }
  const MemoryPeak peak(p);
  own.back().at_peak = peak.unknown + peak.unrecorded;
  for (const size_t i : peak.alive) {
    const Allocation& a = p.allocations[i];
    const int32_t module = a.event < 0 ? -1 : p.events[at(a.event)].module;
    (module < 0 ? own.back() : own[at(module)]).at_peak += a.bytes;
  }
  whole = own;
  for (size_t m = p.modules.size(); m-- > 0;)  // parents come before their children
    if (p.modules[m].parent >= 0) add_to(whole[at(p.modules[m].parent)], whole[m]);
}

ModuleShapes module_shapes(const Profile& p, int32_t call) {
  ModuleShapes shapes;
  if (call < 0) return shapes;
  const Event& module = p.events[at(call)];
  for (size_t i = at(call) + 1; i < p.events.size(); ++i) {
    const Event& e = p.events[i];
    if (e.thread != module.thread) continue;
    if (e.begin >= module.end) break;
    const Signature& s = p.signatures[at(e.signature)];
    if (s.kind != EventKind::Op || e.phase != Phase::Forward) continue;
    if (shapes.input == nullptr && !s.inputs.empty()) shapes.input = &s.inputs[0];
    if (!s.outputs.empty()) shapes.output = &s.outputs[0];
    shapes.contraction_flops += s.contraction_flops;
  }
  return shapes;
}

namespace {

// Visits the modules in the order in which print(model) shows them.
template <class Visit> void walk(const ModuleUses& uses, Visit visit) {
  std::vector<std::pair<int32_t, int>> pending;  // module, depth
  for (size_t i = uses.roots.size(); i-- > 0;) pending.emplace_back(uses.roots[i], 0);
  while (!pending.empty()) {
    const auto [m, depth] = pending.back();
    pending.pop_back();
    visit(m, depth);
    const auto& below = uses.children[at(m)];
    for (size_t i = below.size(); i-- > 0;) pending.emplace_back(below[i], depth + 1);
  }
}

std::string module_label(const ModuleInfo& m, int depth) {
  if (m.parent < 0) return m.type;
  return fmt::format("{:{}}({}): {}", "", 2 * depth, m.name, m.type);
}

}  // namespace

std::vector<ReportTable> module_report(const Profile& p, const ReportOptions&) {
  const ModuleUses uses(p);
  const MemoryPeak peak(p);
  const Overhead overhead(p);
  ReportTable t{.name = "modules"};
  t.heading =
      "Each module includes the modules below it; backward work counts for the module that caused "
      "it. (own ops): what a module runs itself, outside the modules below it.\n";
  t.columns = {{"Module", "module", false},
               {"Parameters", "parameters"},
               {"Calls", "calls"},
               {"FLOPs", "flops"},
               {"Forward", "forward_seconds"},
               {"Backward", "backward_seconds"},
               {"Optimizer", "optimizer_seconds"},
               {"Time", "seconds"},
               {"% of time", "time_share"},
               {"Memory at peak", "peak_bytes"},
               {"% of peak", "peak_share"}};
  auto all = static_cast<double>(overhead.outside);
  for (const Event& e : p.events) all += static_cast<double>(e.self);
  // `more` is time that no phase has.
  const auto add = [&](std::string label, const ModuleUse& use, int64_t calls, double more = 0) {
    const auto time = [&](Phase phase) {
      return static_cast<double>(use.time[static_cast<size_t>(phase)]);
    };
    const double whole =
        time(Phase::Forward) + time(Phase::Backward) + time(Phase::Optimizer) + more;
    t.rows.push_back(
        {cell(std::move(label)), count_cell(use.parameters),
         calls > 0 ? count_cell(calls) : no_cell(), cell(with_prefix(use.flops, ""), use.flops),
         time_cell(time(Phase::Forward)), time_cell(time(Phase::Backward)),
         time_cell(time(Phase::Optimizer)), time_cell(whole), share_cell(whole, all),
         memory_cell(use.at_peak),
         share_cell(static_cast<double>(use.at_peak), static_cast<double>(peak.total))});
  };
  ModuleUse sum;
  walk(uses, [&](int32_t m, int depth) {
    add(module_label(p.modules[at(m)], depth), uses.whole[at(m)], uses.own[at(m)].calls);
    if (depth == 0) add_to(sum, uses.whole[at(m)]);
    if (uses.children[at(m)].empty()) return;
    add(fmt::format("{:{}}(own ops)", "", 2 * depth + 2), uses.own[at(m)], 0);
  });
  add("(outside modules)", uses.own.back(), 0);
  add_to(sum, uses.own.back());
  add("(outside every op and scope)", {}, 0, static_cast<double>(overhead.outside));
  // What was there before the recording, and what no event allocated, is of no module.
  ModuleUse unknown;
  unknown.at_peak = peak.total - sum.at_peak;
  if (unknown.at_peak != 0) add("(memory from before the recording)", unknown, 0);
  add_to(sum, unknown);
  add("sum", sum, 0, static_cast<double>(overhead.outside));
  return {std::move(t)};
}

namespace {

std::string sizes_text(const TensorInfo* t) {
  return t == nullptr ? "--" : fmt::format("[{}]", fmt::join(t->sizes, ", "));
}

double bytes_of(const TensorInfo* t) {
  if (t == nullptr) return 0;
  double bytes = static_cast<double>(element_size(t->dtype));
  for (const int64_t n : t->sizes) bytes *= static_cast<double>(n);
  return bytes;
}

std::string megabytes(double bytes) { return fmt::format("{:.2f}", bytes * 1e-6); }

// "├─Linear: 1-1", as torchinfo numbers layers: the depth, and the how-manieth of that depth.
std::string summary_label(const ModuleInfo& m, int depth, std::map<int, int>& numbers) {
  if (depth == 0) return m.type;
  std::string out;
  for (int i = 1; i < depth; ++i) out += "│    ";
  return out + fmt::format("├─{}: {}-{}", m.type, depth, ++numbers[depth]);
}

}  // namespace

std::vector<ReportTable> summary_report(const Profile& p, const ReportOptions&) {
  const ModuleUses uses(p);
  const MemoryPeak peak(p);
  ReportTable t{.name = "summary"};
  t.columns = {{"Layer (type:depth-idx)", "layer", false},
               {"Input Shape", "input_shape", false},
               {"Output Shape", "output_shape", false},
               {"Param #", "parameters"},
               {"Mult-Adds", "mult_adds"},
               {"Time", "time_seconds"}};
  std::map<int, int> numbers;
  double input = 0, outputs = 0, mult_adds = 0, parameter_bytes = 0;
  int64_t parameters = 0;
  walk(uses, [&](int32_t m, int depth) {
    const ModuleUse& use = uses.own[at(m)];
    const ModuleShapes shapes = module_shapes(p, use.first_call);
    const double time = use.first_call < 0
                            ? 0
                            : static_cast<double>(p.events[at(use.first_call)].end -
                                                  p.events[at(use.first_call)].begin);
    t.rows.push_back({cell(summary_label(p.modules[at(m)], depth, numbers)),
                      cell(sizes_text(shapes.input)), cell(sizes_text(shapes.output)),
                      use.parameters > 0 ? count_cell(use.parameters) : no_cell(),
                      shapes.contraction_flops > 0
                          ? count_cell(static_cast<int64_t>(shapes.contraction_flops / 2))
                          : no_cell(),
                      time_cell(time)});
    if (depth == 0) {
      input += bytes_of(shapes.input);
      mult_adds += shapes.contraction_flops / 2;
      parameters += uses.whole[at(m)].parameters;
      parameter_bytes += static_cast<double>(uses.whole[at(m)].parameter_bytes);
    }
    if (uses.children[at(m)].empty()) outputs += bytes_of(shapes.output);
  });
  // torchinfo counts what a pass keeps as all outputs twice: values and their gradients.
  t.footing = fmt::format(
      "Total params: {}\nTotal mult-adds (M): {}\nInput size (MB): {}\n"
      "Forward/backward pass size (MB): {}\nParams size (MB): {}\nEstimated Total Size (MB): {}\n"
      "Measured peak (MB): {}\nTimes and sizes are those of the first call.\n",
      text::group_digits(parameters), megabytes(mult_adds), megabytes(input),
      megabytes(2 * outputs), megabytes(parameter_bytes),
      megabytes(input + 2 * outputs + parameter_bytes), megabytes(static_cast<double>(peak.total)));
  return {std::move(t)};
}

}  // namespace pellucid::profile
