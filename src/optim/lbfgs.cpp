// L-BFGS: the two-loop recursion for the direction, and the loop of a step.
#include "pellucid/optim/lbfgs.h"

#include <cmath>

#include "optim/common.h"
#include "optim/line_search.h"
#include "pellucid/nn/utils.h"
#include "pellucid/operators.h"

namespace pellucid::optim {
namespace {

double product(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }
double greatest(const Tensor& a) { return a.abs().max().item<double>(); }

/// All gradients one after another; zeros where there is none.
Tensor flat_gradient(const std::vector<Tensor>& params) {
  std::vector<Tensor> parts;
  parts.reserve(params.size());
  for (const Tensor& p : params)
    parts.push_back((p.grad().defined() ? p.grad().detach() : zeros_for(p)).reshape(-1));
  return cat(parts);
}

/// params = start + t * direction, with both as vectors.
void move(const std::vector<Tensor>& params, const Tensor& start, const Tensor& direction,
          double t) {
  const Tensor to = start + direction * t;
  int64_t at = 0;
  for (const Tensor& p : params) {
    p.copy_(to.narrow(0, at, p.numel()).view_as(p));
    at += p.numel();
  }
}

/// Remembers the change from the last gradient to this one.
void remember(LBFGSParamState& s, const Tensor& gradient, int64_t history_size) {
  const Tensor change = gradient - s.prev_flat_grad(), moved = s.d() * s.t();
  const double curvature = product(change, moved);
  if (curvature <= 1e-10) return;  // the guess must stay positive
  if (static_cast<int64_t>(s.old_dirs().size()) == history_size) {
    s.old_dirs().pop_front();
    s.old_stps().pop_front();
  }
  s.old_dirs().push_back(change);
  s.old_stps().push_back(moved);
  s.H_diag(curvature / product(change, change));
}

/// Minus the guessed inverse Hessian times the gradient, by the two-loop recursion.
Tensor newton_direction(const LBFGSParamState& s, const Tensor& gradient) {
  const size_t n = s.old_dirs().size();
  std::vector<double> share(n), inverse(n);
  Tensor q = gradient.neg();
  for (size_t i = n; i-- > 0;) {
    inverse[i] = 1 / product(s.old_dirs()[i], s.old_stps()[i]);
    share[i] = product(s.old_stps()[i], q) * inverse[i];
    q = q - s.old_dirs()[i] * share[i];
  }
  q = q * s.H_diag();
  for (size_t i = 0; i < n; ++i)
    q = q + s.old_stps()[i] * (share[i] - product(s.old_dirs()[i], q) * inverse[i]);
  return q;
}

}  // namespace

std::vector<OptionField> LBFGSOptions::fields() {
  return {{"lr", &lr()},
          {"max_iter", &max_iter_},
          {"max_eval", &max_eval_},
          {"tolerance_grad", &tolerance_grad_},
          {"tolerance_change", &tolerance_change_},
          {"history_size", &history_size_},
          {"line_search_fn", &line_search_fn_}};
}

std::vector<StateField> LBFGSParamState::fields() {
  return {{"func_evals", &func_evals_},
          {"n_iter", &n_iter_},
          {"t", &t_},
          {"prev_loss", &prev_loss_},
          {"H_diag", &H_diag_},
          {"d", &d_, false},
          {"old_dirs", &old_dirs_},
          {"prev_flat_grad", &prev_flat_grad_, false},
          {"old_stps", &old_stps_}};
}

LBFGS::LBFGS(const std::vector<OptimizerParamGroup>& groups, LBFGSOptions defaults)
    : Optimizer(groups, std::make_unique<LBFGSOptions>(std::move(defaults))) {
  PELLUCID_CHECK(groups_.size() == 1 && !groups_[0].params().empty(), ValueError,
                 "LBFGS: all parameters must be in one group, but there are {} groups.",
                 groups_.size());
  LBFGS::check_options(groups_[0].options());
}

void LBFGS::check_options(const OptimizerOptions& options) const {
  const auto& o = static_cast<const LBFGSOptions&>(options);
  check_option("LBFGS", "lr", o.lr());
  check_option("LBFGS", "max_iter", static_cast<double>(o.max_iter()), 1);
  check_option("LBFGS", "history_size", static_cast<double>(o.history_size()), 1);
  PELLUCID_CHECK(!o.line_search_fn() || *o.line_search_fn() == "strong_wolfe", ValueError,
                 "LBFGS: line_search_fn must be \"strong_wolfe\" or left out, but is \"{}\".",
                 *o.line_search_fn());
}

std::unique_ptr<OptimizerParamState> LBFGS::new_state() const {
  return std::make_unique<LBFGSParamState>();
}

Tensor LBFGS::step(LossClosure closure) {
  PELLUCID_CHECK(closure, ValueError,
                 "LBFGS::step: a closure is needed, since a step evaluates the loss several times: "
                 "step([&] {{ optimizer.zero_grad(); …; loss.backward(); return loss; }}).");
  const RecordFunction scope("Optimizer.step#LBFGS.step", profile::EventKind::Optimizer);
  const NoGradGuard off;
  const MemoryCategoryGuard category(MemoryCategory::Optimizer);
  const auto& o = static_cast<const LBFGSOptions&>(groups_[0].options());
  const std::vector<Tensor>& params = groups_[0].params();
  auto& s = state_of<LBFGSParamState>(params[0], [&] { return new_state(); });
  const int64_t most_evaluations = o.max_eval().value_or(o.max_iter() * 5 / 4);

  Tensor first = loss_of(closure);
  double loss = first.item<double>();
  Tensor gradient = flat_gradient(params);
  int64_t evaluations = 1;
  ++s.func_evals();
  if (greatest(gradient) <= o.tolerance_grad()) return first;
  for (int64_t i = 1; i <= o.max_iter(); ++i) {
    if (s.n_iter()++ > 0) remember(s, gradient, o.history_size());
    s.d(newton_direction(s, gradient));
    s.prev_flat_grad(gradient);
    s.prev_loss(loss);
    const double slope = product(gradient, s.d());
    s.t(s.n_iter() == 1 ? std::min(1.0, 1 / gradient.abs().sum().item<double>()) * o.lr() : o.lr());
    if (slope > -o.tolerance_change()) break;

    const Tensor start = nn::utils::parameters_to_vector(params);
    const auto evaluate = [&](double t) {
      move(params, start, s.d(), t);
      const double value = loss_of(closure).item<double>();
      ++evaluations;
      ++s.func_evals();
      const Tensor found = flat_gradient(params);
      return LinePoint{t, value, product(found, s.d()), found};
    };
    if (o.line_search_fn() || i < o.max_iter()) {
      const LinePoint p = o.line_search_fn()
                              ? strong_wolfe(evaluate, {0, loss, slope, gradient}, s.t(),
                                             most_evaluations - evaluations, greatest(s.d()))
                              : evaluate(s.t());
      s.t(p.t);
      loss = p.value;
      gradient = p.gradient;
    }
    move(params, start, s.d(), s.t());  // a search may have ended elsewhere
    if (evaluations >= most_evaluations || greatest(gradient) <= o.tolerance_grad() ||
        greatest(s.d()) * std::abs(s.t()) <= o.tolerance_change() ||
        std::abs(loss - s.prev_loss()) < o.tolerance_change())
      break;
  }
  return first;
}

}  // namespace pellucid::optim
