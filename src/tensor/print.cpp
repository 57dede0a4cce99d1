// Tensors as text, character for character as PyTorch's repr under the same PrintOptions. It reads
// the values where they are; no op runs.
#include <cmath>
#include <iostream>
#include <limits>
#include <mutex>
#include <sstream>

#include "pellucid/print_options.h"
#include "pellucid/tensor.h"
#include "tensor/history.h"
#include "tensor/phantom.h"

namespace pellucid {

namespace {

std::mutex options_lock;
PrintOptions current_options;

/// How one number is written, chosen from all numbers that will be.
class Formatter {
 public:
  Formatter(DType dtype, const PrintOptions& options)
      : floating_(is_floating(dtype)),
        boolean_(dtype == kBool),
        precision_(options.precision),
        asked_(options.sci_mode) {}

  /// Looks at a number that will be written.
  void see(const Scalar& value) {
    if (!floating_) {
      width_ = std::max(width_, plain(value).size());
      return;
    }
    const double v = value.toDouble();
    if (!std::isfinite(v) || v == 0) return;
    any_ = true;
    whole_ = whole_ && v == std::ceil(v);
    least_ = std::min(least_, std::abs(v));
    greatest_ = std::max(greatest_, std::abs(v));
    widths_[0] = std::max(widths_[0], fmt::formatted_size("{:.{}e}", v, precision_));
    widths_[1] = std::max(widths_[1], fmt::formatted_size("{:.0f}", v) + 1);  // and a point
    widths_[2] = std::max(widths_[2], fmt::formatted_size("{:.{}f}", v, precision_));
  }

  /// Decides between 1., 1.0000 and 1.0000e+00.
  void choose() {
    if (!any_) return;
    scientific_ =
        asked_.value_or(greatest_ / least_ > 1000.0 || greatest_ > 1.0e8 || least_ < 1.0e-4);
    width_ = std::max(width_, widths_[scientific_ ? 0 : whole_ ? 1 : 2]);
  }

  size_t width() const { return width_; }
  std::string format(const Scalar& value) const {
    return fmt::format("{:>{}}", floating_ ? number(value.toDouble()) : plain(value), width_);
  }

 private:
  std::string plain(const Scalar& value) const {
    if (boolean_) return value.toBool() ? "True" : "False";
    return std::to_string(value.toLong());
  }
  std::string number(double v) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.{}e}", v, precision_);
    return whole_ ? fmt::format("{:.0f}.", v) : fmt::format("{:.{}f}", v, precision_);
  }

  bool floating_, boolean_;
  int precision_;
  std::optional<bool> asked_;  // scientific or not, whatever the numbers
  bool any_ = false, whole_ = true, scientific_ = false;
  double least_ = std::numeric_limits<double>::infinity(), greatest_ = 0;
  size_t width_ = 1;
  size_t widths_[3] = {0, 0, 0};  // scientific, whole, fixed
};

class Printer {
 public:
  Printer(const Tensor& t, const PrintOptions& options)
      : impl_(t.impl()),
        options_(options),
        summarize_(impl_.numel > options.threshold),
        formatter_(impl_.dtype, options) {}

  std::string contents(int64_t indent) {
    if (impl_.numel == 0) return "[]";
    look(0, 0);
    formatter_.choose();
    return block(0, 0, indent);
  }

 private:
  Scalar at(int64_t offset) const {
    return visit(impl_.dtype, [&](auto v) {
      return Scalar(static_cast<const decltype(v)*>(impl_.data())[offset]);
    });
  }

  // Calls f(i) for the indices of dim d that are written, and gap() where some are left out.
  template <class F, class Gap> void each(size_t d, F f, Gap gap) const {
    const int64_t n = impl_.sizes[d];
    const bool short_form = summarize_ && n > 2 * options_.edgeitems;
    for (int64_t i = 0; i < n; ++i) {
      if (short_form && i == options_.edgeitems) {
        gap();
        i = n - options_.edgeitems;
        if (i == n) break;  // edges of nothing
      }
      f(i);
    }
  }

  void look(size_t d, int64_t offset) {
    if (d == impl_.sizes.size()) return formatter_.see(at(offset));
    each(
        d, [&](int64_t i) { look(d + 1, offset + i * impl_.strides[d]); }, [] {});
  }

  std::string block(size_t d, int64_t offset, int64_t indent) const {
    const size_t left = impl_.sizes.size() - d;
    if (left == 0) return formatter_.format(at(offset));
    if (left == 1) return line(d, offset, indent);
    const std::string separator =
        "," + std::string(left - 1, '\n') + std::string(static_cast<size_t>(indent) + 1, ' ');
    std::string text = "[";
    const auto add = [&](const std::string& part) {
      text += (text.size() > 1 ? separator : "") + part;
    };
    each(
        d, [&](int64_t i) { add(block(d + 1, offset + i * impl_.strides[d], indent + 1)); },
        [&] { add("..."); });
    return text + "]";
  }

  // The last dim, broken into lines of equal numbers of items.
  std::string line(size_t d, int64_t offset, int64_t indent) const {
    const int64_t per_line = std::max<int64_t>(
        1, (options_.linewidth - indent) / (static_cast<int64_t>(formatter_.width()) + 2));
    std::string text = "[";
    int64_t count = 0;
    const auto add = [&](const std::string& item) {
      if (count > 0)
        text += count % per_line == 0 ? ",\n" + std::string(static_cast<size_t>(indent) + 1, ' ')
                                      : ", ";
      text += item;
      ++count;
    };
    each(
        d, [&](int64_t i) { add(formatter_.format(at(offset + i * impl_.strides[d]))); },
        [&] { add(" ..."); });
    return text + "]";
  }

  const detail::TensorImpl& impl_;
  const PrintOptions& options_;
  bool summarize_;
  Formatter formatter_;
};

// "(2, 3)", "(3,)", "()", as Python writes a tuple.
std::string tuple_of(IntArrayRef sizes) {
  return sizes.size() == 1 ? fmt::format("({},)", sizes[0])
                           : fmt::format("({})", fmt::join(sizes.begin(), sizes.end(), ", "));
}

std::vector<std::string> suffixes_of(const Tensor& t) {
  std::vector<std::string> out;
  const DType dtype = t.dtype();
  const bool no_values = t.numel() == 0 || !detail::has_values(t.impl());
  if (no_values && (t.dim() != 1 || !detail::has_values(t.impl())))
    out.push_back("size=" + tuple_of(t.sizes()));
  const bool shown_by_values = !no_values && (dtype == kInt64 || dtype == kBool);
  if (dtype != get_default_dtype() && !shown_by_values)
    out.push_back(fmt::format("dtype=torch.{}", dtype));
  if (const std::string node = detail::grad_fn_name(t); !node.empty()) {
    out.push_back(fmt::format("grad_fn=<{}>", node));
  } else if (t.requires_grad()) {
    out.push_back("requires_grad=True");
  }
  return out;
}

}  // namespace

std::string Tensor::toString() const {
  if (!defined()) return "[ Tensor (undefined) ]";
  constexpr int64_t indent = 7;  // of "tensor("
  const PrintOptions options = get_print_options();
  std::string text =
      "tensor(" + (detail::has_values(impl()) ? Printer(*this, options).contents(indent) : "...");
  // PyTorch counts two characters too many for the last line; so do we, or lines would break
  // elsewhere.
  const size_t newline = text.rfind('\n');
  size_t last_line = newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1;
  for (const std::string& suffix : suffixes_of(*this)) {
    if (static_cast<int64_t>(last_line + suffix.size() + 2) > options.linewidth) {
      text += ",\n" + std::string(indent, ' ') + suffix;
      last_line = indent + suffix.size();
    } else {
      text += ", " + suffix;
      last_line += suffix.size() + 2;
    }
  }
  return text + ")";
}

PrintOptions get_print_options() {
  const std::lock_guard guard(options_lock);
  return current_options;
}

void set_print_options(const PrintOptions& options) {
  PELLUCID_CHECK(options.precision >= 0 && options.precision <= 64, ValueError,
                 "set_print_options: the precision must be 0 to 64 digits, found {}.",
                 options.precision);
  PELLUCID_CHECK(
      options.threshold >= 0 && options.edgeitems >= 0 && options.linewidth >= 0, ValueError,
      "set_print_options: threshold, edgeitems and linewidth must not be negative, found "
      "{}, {} and {}.",
      options.threshold, options.edgeitems, options.linewidth);
  const std::lock_guard guard(options_lock);
  current_options = options;
}

void Tensor::print() const { std::cout << toString() << std::endl; }

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.toString(); }

}  // namespace pellucid
