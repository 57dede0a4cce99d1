#include "core/capture_check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "base/caller.h"
#include "base/text.h"
#include "core/call_text.h"
#include "kernels/copy.h"
#include "recorder/python_place.h"

namespace pellucid::detail {

constinit std::atomic<bool> checks_captures{false};

namespace {

/// What a call writes: an output, or an input that the schema marks as changed.
struct Written {
  bool is_output;
  size_t number;
};

/// What a call gave when it ran at once, row-major, and where it was made.
struct Expected {
  std::vector<std::pair<Written, std::vector<char>>> results;
  std::string python_line;
  const void* caller = nullptr;
};

struct Checks {
  std::mutex mutex;
  std::unordered_map<const CapturedCall*, Expected> expected;
  std::unordered_map<const Storage*, Ref<Storage>> copies;  // of what captured calls write
  static Checks& get() {
    static auto* const checks = new Checks;  // tensors may outlive static objects
    return *checks;
  }
};

void stop(const std::string& message) {
  std::fflush(nullptr);
  std::fprintf(stderr, "pellucid: %s\n", message.c_str());
  std::_Exit(1);
}

constinit std::atomic<DifferenceHandler> difference_handler{stop};

const TensorImpl& tensor_of(const CapturedCall& call, const Written& w) {
  return (w.is_output ? call.outputs[w.number] : call.inputs[w.number]).impl();
}

std::vector<Written> written_by(const CapturedCall& call) {
  std::vector<Written> out;
  for (size_t k = 0; k < call.output_count; ++k)
    if (call.outputs[k].defined()) out.push_back({true, k});
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined()) continue;
    const Storage* s = call.inputs[i].impl().storage.get();
    bool is_output = false, is_written = false;
    for (const Storage* w : call.writes) is_written = is_written || w == s;
    for (const Written& w : out) is_output = is_output || tensor_of(call, w).storage.get() == s;
    if (is_written && !is_output) out.push_back({false, i});
  }
  return out;
}

// The elements in row-major order. The memory is read as it is: nothing is forced.
std::vector<char> elements(const TensorImpl& t) {
  std::vector<char> out(static_cast<size_t>(t.numel * element_size(t.dtype)));
  if (t.numel > 0)
    kernels::copy_strided(
        t.sizes, out.data(), t.dtype, contiguous_strides(t.sizes).data(),
        static_cast<const char*>(t.storage->data) + t.offset * element_size(t.dtype), t.dtype,
        t.strides.data());
  return out;
}

// The tensor as the eager run sees it: in the copy, where captured calls will write it.
Tensor as_copied(const Tensor& t, const Checks& checks) {
  if (!t.defined()) return t;
  Tensor out(alias_impl(t.impl()));
  out.impl().wrapped_number = t.impl().wrapped_number;
  const auto found = checks.copies.find(t.impl().storage.get());
  if (found != checks.copies.end()) out.impl().storage = found->second;
  return out;
}

Ref<Storage> copy_of(const Storage& s) {
  if (!s.data) return pending_storage(s.bytes);
  Ref<Storage> copy = new_storage(s.bytes);
  std::memcpy(copy->data, s.data, s.bytes);
  return copy;
}

bool is_nan(const char* element, DType dtype) {
  return visit(dtype, [&](auto v) {
    using T = decltype(v);
    if constexpr (is_floating(dtype_of<T>)) {
      T x;
      std::memcpy(&x, element, sizeof(T));
      return std::isnan(static_cast<double>(x));
    } else {
      return false;
    }
  });
}

std::string value_text(const char* element, DType dtype) {
  return visit(dtype, [&](auto v) {
    using T = decltype(v);
    T x;
    std::memcpy(&x, element, sizeof(T));
    if constexpr (is_floating(dtype_of<T>))
      return fmt::format("{:.17g}", static_cast<double>(x));
    else
      return fmt::format("{}", x);
  });
}

std::string position_text(int64_t at, IntArrayRef sizes) {
  std::vector<int64_t> position(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    position[d] = at % sizes[d];
    at /= sizes[d];
  }
  return fmt::format("{}", IntArrayRef(position));
}

// What is wrong with one result, "" if nothing. Any NaN is as good as another.
std::string difference(const TensorImpl& t, const std::vector<char>& wanted) {
  const std::vector<char> found = elements(t);
  const auto bytes = static_cast<size_t>(element_size(t.dtype));
  int64_t first = -1, count = 0;
  for (int64_t i = 0; i < t.numel; ++i) {
    const char *a = found.data() + static_cast<size_t>(i) * bytes,
               *b = wanted.data() + static_cast<size_t>(i) * bytes;
    if (std::memcmp(a, b, bytes) == 0 || (is_nan(a, t.dtype) && is_nan(b, t.dtype))) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return {};
  const size_t at = static_cast<size_t>(first) * bytes;
  return fmt::format("element {} of {}{} is {}, run eagerly it is {}; {} of {} elements differ",
                     position_text(first, t.sizes), t.dtype, IntArrayRef(t.sizes),
                     value_text(found.data() + at, t.dtype),
                     value_text(wanted.data() + at, t.dtype), count, t.numel);
}

std::string text_of(const CapturedCall& call, const Expected& e) {
  std::string out = call.op.info->name + (call.in_place ? "_(" : "(");
  for (size_t i = 0; i < call.inputs.size(); ++i)
    out += fmt::format("{}{}", i ? ", " : "",
                       call.inputs[i].defined() ? describe(call.inputs[i]) : "None");
  out += ")";
  const std::string line = e.python_line.empty() ? source_line(e.caller) : e.python_line;
  return line.empty() ? out : out + " at " + line;
}

}  // namespace

DifferenceHandler set_difference_handler(DifferenceHandler handler) {
  return difference_handler.exchange(handler ? handler : stop);
}

void check_later(const CapturedCall& call) {
  Checks& checks = Checks::get();
  const std::vector<Written> writes = written_by(call);
  CapturedCall now(call.op);
  now.in_place = call.in_place;
  now.tracked = call.tracked;
  now.output_count = call.output_count;
  now.category = call.category;
  now.seed = call.seed;
  now.random_offset = call.random_offset;
  now.attrs.assign(call.attrs.view());
  {
    const std::lock_guard lock(checks.mutex);
    for (const Storage* s : call.writes)
      if (!checks.copies.contains(s)) checks.copies.emplace(s, copy_of(*s));
    for (const Tensor& t : call.inputs) now.inputs.emplace_back(as_copied(t, checks));
    for (size_t k = 0; k < call.output_count; ++k)
      now.outputs[k] = as_copied(call.outputs[k], checks);
    for (const Storage* s : call.writes) now.writes.emplace_back(checks.copies.at(s).get());
  }
  const ModeScope no_capture(kCapture, false);
  run_captured(now);
  if (call.op.info->name.starts_with("empty")) return;  // its memory holds anything
  Expected e;
  for (const Written& w : writes) e.results.emplace_back(w, elements(tensor_of(now, w)));
  e.python_line = profile::python_line_now();
  e.caller = caller_outside_library();
  const std::lock_guard lock(checks.mutex);
  checks.expected.insert_or_assign(&call, std::move(e));
}

void check_now(std::span<const std::unique_ptr<CapturedCall>> calls) {
  Checks& checks = Checks::get();
  for (size_t i = 0; i < calls.size(); ++i) {
    const CapturedCall& call = *calls[i];
    Expected e;
    {
      const std::lock_guard lock(checks.mutex);
      const auto found = checks.expected.find(&call);
      if (found == checks.expected.end()) continue;
      e = std::move(found->second);
      checks.expected.erase(found);
    }
    for (const auto& [w, wanted] : e.results) {
      const TensorImpl& t = tensor_of(call, w);
      // A result that only its group reads has no memory, and one that the group changed again has
      // another value by now.
      bool changed = false;
      for (size_t later = i + 1; later < calls.size(); ++later)
        for (const Storage* s : calls[later]->writes) changed = changed || s == t.storage.get();
      if (changed || (!t.storage->data && t.storage->bytes > 0)) continue;
      std::string what = difference(t, wanted);
      if (what.empty()) continue;
      what = fmt::format("PELLUCID_LAZY=check: {}: {} {}: {}{}", text_of(call, e),
                         w.is_output ? "output" : "changed input", w.number, what,
                         calls.size() > 1
                             ? fmt::format("; it ran in a group of {} calls", calls.size())
                             : std::string());
      difference_handler.load()(what);
      return;
    }
  }
}

void forget_check(const CapturedCall& call) noexcept {
  Checks& checks = Checks::get();
  const std::lock_guard lock(checks.mutex);
  checks.expected.erase(&call);
}

void forget_copy(const Storage& s) noexcept {
  Checks& checks = Checks::get();
  const std::lock_guard lock(checks.mutex);
  checks.copies.erase(&s);
}

}  // namespace pellucid::detail
