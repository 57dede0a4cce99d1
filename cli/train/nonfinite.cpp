// Where infinities and NaN come from.
#include "cli/train/nonfinite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/call_text.h"
#include "core/observe.h"
#include "pellucid/autograd.h"
#include "pellucid/ops.h"

namespace pellucid::cli::train {
namespace {

bool is_number_tensor(const Tensor& t) { return t.defined() && t.is_floating_point(); }

bool finite(const Tensor& t) {
  const NoGradGuard off;
  return !is_number_tensor(t) || t.isfinite().all().item<bool>();
}

bool has_nan(const Tensor& t) {
  const NoGradGuard off;
  return is_number_tensor(t) && t.isnan().any().item<bool>();
}

// In the in-place form input 0 has the result's values; what it was before was looked at when it
// was made.
template <class Test> bool any_input(const Call& c, const Test& test) {
  for (size_t i = c.in_place() ? 1 : 0; i < c.input_count(); ++i)
    if (test(c.in(i))) return true;
  return false;
}

template <class Test> const Tensor* find_result(const Call& c, const Test& test) {
  for (size_t k = 0; k < std::min<size_t>(c.output_count(), c.op().info->visible_outputs); ++k)
    if (test(c.out(k))) return &c.out(k);
  return nullptr;
}

// An infinity that the program wrote into a mask or gave as an argument is meant.
bool has_infinite_argument(const Call& c) {
  return std::any_of(c.attrs().begin(), c.attrs().end(), [](const Attr& a) {
    const bool number = a.kind() == Attr::Kind::Float || a.kind() == Attr::Kind::Scalar;
    return number && !std::isfinite(a.number());
  });
}

std::string place() {
  const nn::Module* module = nn::current_module();
  if (!module) return "outside the model";
  const std::string path = nn::current_module_path();
  return path.empty() ? fmt::format("in {} itself", module->name())
                      : fmt::format("in {} ({})", path, module->name());
}

// "inf at index [3, 1]"
std::string first_bad_value(const Tensor& t) {
  const Tensor where = t.isfinite().logical_not().nonzero().select(0, 0);
  Tensor value = t;
  std::vector<int64_t> index;
  for (int64_t d = 0; d < t.dim(); ++d) {
    index.push_back(where[d].item<int64_t>());
    value = value.select(0, index.back());
  }
  return fmt::format("{} at index {}", number_text(value.item<double>()), IntArrayRef(index));
}

double largest_input(const Call& c) {
  double largest = 0;
  any_input(c, [&](const Tensor& t) {
    if (is_number_tensor(t) && t.numel() > 0)
      largest = std::max(largest, t.abs().max().item<double>());
    return false;
  });
  return largest;
}

// Looks for the op that made the first infinity or NaN out of finite numbers, and, should there be
// none, for the one that made the first NaN.
class Search {
 public:
  void look(const Call& c) {
    if (!overflow_.empty()) return;
    const NoGradGuard off;
    const Tensor* bad = find_result(c, [](const Tensor& t) { return !finite(t); });
    if (!bad || c.input_count() == 0 || has_infinite_argument(c)) return;
    if (!any_input(c, [](const Tensor& t) { return !finite(t); }))
      overflow_ = fmt::format(
          "The first op whose result is not finite is {}, {}: {}; its inputs are at most {:.3g} in "
          "magnitude.",
          call_text(c), place(), first_bad_value(*bad), largest_input(c));
    else if (nan_.empty() && find_result(c, has_nan) && !any_input(c, has_nan))
      nan_ = fmt::format("The first op whose result is NaN is {}, {}; infinities went into it.",
                         call_text(c), place());
  }
  std::string sentence() const {
    if (!overflow_.empty()) return overflow_;
    return nan_.empty() ? "The same batch gives no such value when it is computed again." : nan_;
  }

 private:
  std::string overflow_, nan_;
};

std::string blame_state(Task& task, const data::Example<>& batch) {
  if (!finite(batch.data) || !finite(batch.target)) return "The batch itself is not finite.";
  const std::string name = first_not_finite(task.model());
  return name.empty() ? "" : fmt::format("{} is not finite since an earlier step.", name);
}

}  // namespace

std::string number_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string first_not_finite(const nn::Module& model) {
  for (const auto& item : model.state_dict())
    if (!finite(item.value())) return item.key();
  return "";
}

std::string blame(Task& task, const data::Example<>& batch, const io::RandomState& random) {
  if (std::string known = blame_state(task, batch); !known.empty()) return known;
  io::set_random_state(random);
  Search search;
  const OpObserver observer([&](const Call& c) { search.look(c); });
  task.loss(batch);
  return search.sentence();
}

std::string blame_gradient(Task& task, const data::Example<>& batch,
                           const io::RandomState& random) {
  if (std::string known = blame_state(task, batch); !known.empty()) return known;
  task.model().zero_grad();
  io::set_random_state(random);
  try {
    const autograd::DetectAnomalyGuard anomaly;
    task.loss(batch).backward();
  } catch (const AutogradError& e) { return e.what(); }
  for (const auto& item : task.model().named_parameters())
    if (!finite(item.value().grad()))
      return fmt::format("The gradient of {} ({}) is the first that is not finite: {}.", item.key(),
                         describe(item.value()), first_bad_value(item.value().grad()));
  return "Every gradient is finite: the sum of their squares overflows.";
}

}  // namespace pellucid::cli::train
