// L-BFGS: Newton's method with a Hessian that is guessed from the last steps. For problems that fit
// into one batch; a step evaluates the loss several times, through its closure.
#pragma once

#include <deque>

#include "pellucid/optim/optimizer.h"

namespace pellucid::optim {

struct PELLUCID_API LBFGSOptions : OptimizerCloneableOptions<LBFGSOptions> {
  template <::pellucid::detail::Mistaken<double> Given> LBFGSOptions(Given) = delete;
  LBFGSOptions(double lr = 1) : OptimizerCloneableOptions(lr) {}
  PELLUCID_ARG(int64_t, max_iter) = 20;
  /// Evaluations of the loss a step; 5/4 of max_iter where not given.
  PELLUCID_ARG(std::optional<int64_t>, max_eval) = std::nullopt;
  PELLUCID_ARG(double, tolerance_grad) = 1e-7;
  PELLUCID_ARG(double, tolerance_change) = 1e-9;
  PELLUCID_ARG(int64_t, history_size) = 100;
  /// "strong_wolfe", or nothing: then every step has the length lr.
  PELLUCID_ARG(std::optional<std::string>, line_search_fn) = std::nullopt;

 public:
  std::vector<OptionField> fields() override;
};

/// Of all parameters together, kept with the first one; vectors are their values one after another.
struct PELLUCID_API LBFGSParamState : OptimizerCloneableParamState<LBFGSParamState> {
  PELLUCID_ARG(int64_t, func_evals) = 0;
  PELLUCID_ARG(int64_t, n_iter) = 0;
  PELLUCID_ARG(double, t) = 0;  ///< the last step's length
  PELLUCID_ARG(double, prev_loss) = 0;
  PELLUCID_ARG(double, H_diag) = 1;  ///< the first guess of the inverse Hessian's diagonal
  PELLUCID_ARG(Tensor, d);           ///< the last direction
  PELLUCID_ARG(Tensor, prev_flat_grad);
  PELLUCID_ARG(std::deque<Tensor>, old_dirs);  ///< changes of the gradient, the oldest first
  PELLUCID_ARG(std::deque<Tensor>, old_stps);  ///< changes of the parameters

 public:
  std::vector<StateField> fields() override;
};

class PELLUCID_API LBFGS : public Optimizer {
 public:
  explicit LBFGS(const std::vector<OptimizerParamGroup>& groups, LBFGSOptions defaults = {});
  explicit LBFGS(std::vector<Tensor> params, LBFGSOptions defaults = {})
      : LBFGS(std::vector{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}
  /// Up to max_iter iterations; the closure, which clears the gradients, computes the loss and
  /// calls backward, is needed. Returns the loss before the step.
  Tensor step(LossClosure closure) override;

 protected:
  std::unique_ptr<OptimizerParamState> new_state() const override;
  void check_options(const OptimizerOptions& options) const override;
};

}  // namespace pellucid::optim
