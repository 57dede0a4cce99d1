// What a user says about lazy evaluation: where it is on, what is computed now, what ran how.
#include "pellucid/lazy.h"

#include <algorithm>
#include <utility>

#include "base/env.h"
#include "base/text.h"
#include "core/capture.h"
#include "core/capture_check.h"

namespace pellucid {
namespace detail {

void choose_modes() {
  static const bool lazy = [] {
    const bool check = env_string("PELLUCID_LAZY") == "check";
    if (check) checks_captures.store(true);
    return check || env_bool("PELLUCID_LAZY", false);
  }();
  set_mode(kUnknown, false);
  if (lazy) set_mode(kCapture, true);
}

}  // namespace detail

LazyGuard::LazyGuard(bool enabled) {
  if (detail::modes & detail::kUnknown) detail::choose_modes();
  before_ = is_enabled();
  if (before_ && !enabled) eval();
  detail::set_mode(detail::kCapture, enabled);
}

LazyGuard::~LazyGuard() {
  const bool on = is_enabled();
  detail::set_mode(detail::kCapture, before_);
  if (!on || before_) return;
  try {
    eval();
  } catch (const std::exception&) {
    // The calls that failed are kept: whoever reads their results gets the error.
  }
}

bool LazyGuard::is_enabled() { return (detail::modes & detail::kCapture) != 0; }

void eval(TensorList tensors) {
  for (const Tensor& t : tensors)
    if (t.defined() && t.has_storage()) detail::run_writers(*t.impl().storage);
}

void eval() { detail::Capture::own().flush(); }

int64_t Explanation::fused() const {
  int64_t n = 0;
  for (const Part& p : parts) n += p.ops.size() > 1 ? static_cast<int64_t>(p.ops.size()) : 0;
  return n;
}

namespace {

// "mul, add, 150 x sgd_step".
std::string names(const std::vector<std::string>& ops) {
  std::string out;
  for (size_t i = 0, next = 0; i < ops.size(); i = next) {
    while (next < ops.size() && ops[next] == ops[i]) ++next;
    const size_t count = next - i;
    if (count > 2)
      out += fmt::format("{}{} x {}", out.empty() ? "" : ", ", count, ops[i]);
    else
      for (size_t k = 0; k < count; ++k) out += (out.empty() ? "" : ", ") + ops[i];
  }
  return out;
}

}  // namespace

std::string Explanation::text() const {
  std::string out;
  int64_t groups = 0, bytes = 0;
  for (const Part& p : parts) {
    if (p.ops.size() == 1) {
      out += fmt::format("alone    {}  {}{}\n", p.ops[0], p.dtype, IntArrayRef(p.sizes));
      continue;
    }
    bytes += p.unmade_bytes;
    out += fmt::format("group {}  {}", ++groups, names(p.ops));
    if (!p.sizes.empty() || p.unmade > 0)  // updates have no result
      out += fmt::format("  {}{}", p.dtype, IntArrayRef(p.sizes));
    out += '\n';
    if (p.unmade > 0)
      out += fmt::format(
          "         {} of {} results need no memory: {} are neither written nor read\n", p.unmade,
          p.ops.size(), text::format_bytes(static_cast<double>(p.unmade_bytes)));
    std::vector<std::string> lines;  // each once
    for (const std::string& line : p.lines)
      if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(line);
    if (!lines.empty()) out += fmt::format("         from {}\n", fmt::join(lines, ", "));
    out += fmt::format("         it ends there: {}\n", p.end);
  }
  out +=
      fmt::format("{} call{} ran, {} of them in {} group{}; {} forgotten; {} of results not made\n",
                  calls, calls == 1 ? "" : "s", fused(), groups, groups == 1 ? "" : "s", forgotten,
                  text::format_bytes(static_cast<double>(bytes)));
  if (!passes.empty()) {
    double seconds = 0;
    std::string changed;
    for (const Pass& p : passes) {
      seconds += p.seconds;
      changed += fmt::format("{}{} {}", changed.empty() ? "" : ", ", p.name, p.changed);
    }
    out += fmt::format("passes, with the calls that they changed: {}; {}\n", changed,
                       text::format_seconds(seconds));
    out += fmt::format("plan: at most {} at one time",
                       text::format_bytes(static_cast<double>(peak_bytes)));
    if (arena_bytes > 0)
      out += fmt::format("; small results share {}",
                         text::format_bytes(static_cast<double>(arena_bytes)));
    if (reused > 0)
      out += fmt::format("; {} result{} over an input that nobody reads any more", reused,
                         reused == 1 ? " is written" : "s are written");
    out += '\n';
    out += fmt::format("the program was made in {}\n", text::format_seconds(made_seconds));
  }
  const auto listed = [](const std::vector<std::string>& ops) {
    constexpr size_t kMost = 8;
    const std::span<const std::string> first(ops.data(), std::min(ops.size(), kMost));
    return ops.size() <= kMost
               ? fmt::format("{}", fmt::join(first, ", "))
               : fmt::format("{} and {} more", fmt::join(first, ", "), ops.size() - kMost);
  };
  for (const Beside& b : beside) {
    out += b.refused.empty()
               ? fmt::format("side by side on {} threads: {}; foreseen {} in place of {}",
                             b.threads, listed(b.ops), text::format_seconds(b.beside_seconds),
                             text::format_seconds(b.serial_seconds))
               : fmt::format("not side by side: {}; {}", listed(b.ops), b.refused);
    if (b.measured_serial > 0 && b.measured_beside > 0)
      out += fmt::format(", measured {} in place of {}", text::format_seconds(b.measured_beside),
                         text::format_seconds(b.measured_serial));
    out += '\n';
  }
  if (!way.empty()) out += way;
  if (gradient_bytes_left > 0)
    out += fmt::format(
        "gradients of {} outlive the step that used them: zero_grad() at its end frees them\n",
        text::format_bytes(static_cast<double>(gradient_bytes_left)));
  return out;
}

Explanation explain(const std::function<void()>& f) {
  Explanation e;
  struct Explaining {
    explicit Explaining(Explanation* e)
        : outer(std::exchange(detail::explaining, e)),
          noted(std::exchange(detail::notes_callers, true)) {}
    ~Explaining() {
      detail::explaining = outer;
      detail::notes_callers = noted;
    }
    Explanation* const outer;
    const bool noted;
  };
  eval();
  const Explaining scope(&e);
  const LazyGuard lazy;
  f();
  eval();
  return e;
}

bool is_pending(const Tensor& t) {
  return t.has_storage() && detail::is_pending(*t.impl().storage);
}

}  // namespace pellucid
