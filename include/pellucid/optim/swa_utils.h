// Averages of a model's parameters over training, with the names of torch.optim.swa_utils.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/nn/norm.h"
#include "pellucid/optim/schedulers.h"

namespace pellucid::optim {

/// The next average from the last one, the present values and how many the last one averages.
using AverageFunction =
    std::function<Tensor(const Tensor& averaged, const Tensor& current, int64_t num_averaged)>;

/// The plain mean of all.
PELLUCID_API AverageFunction get_swa_avg_fn();
/// An average that forgets: decay * averaged + (1 - decay) * current.
PELLUCID_API AverageFunction get_ema_avg_fn(double decay = 0.999);

/// A copy of a model whose parameters are averages of those it had.
class PELLUCID_API AveragedModel {
 public:
  explicit AveragedModel(const nn::Module& model, AverageFunction average = get_swa_avg_fn(),
                         bool use_buffers = false);
  template <class M>
  explicit AveragedModel(const nn::ModuleHolder<M>& model,
                         AverageFunction average = get_swa_avg_fn(), bool use_buffers = false)
      : AveragedModel(static_cast<const nn::Module&>(*model), std::move(average), use_buffers) {}

  /// Takes the present values of `model` into the average; the first ones become it.
  void update_parameters(const nn::Module& model);
  template <class M> void update_parameters(const nn::ModuleHolder<M>& model) {
    update_parameters(static_cast<const nn::Module&>(*model));
  }
  /// The averaged model: `averaged.module<NetImpl>().forward(x)`.
  template <class M> M& module() const { return dynamic_cast<M&>(*module_); }
  const std::shared_ptr<nn::Module>& ptr() const { return module_; }
  int64_t n_averaged() const { return n_averaged_; }

 private:
  std::shared_ptr<nn::Module> module_;
  AverageFunction average_;
  bool use_buffers_;
  int64_t n_averaged_ = 0;
};

namespace detail {
/// While it lives, the batch norms of a model compute plain means of all batches, from nothing on.
class PELLUCID_API NewStatistics {
 public:
  explicit NewStatistics(nn::Module& model);
  NewStatistics(const NewStatistics&) = delete;
  ~NewStatistics();
  bool any() const { return !momenta_.empty(); }

 private:
  nn::Module& model_;
  bool training_;
  std::vector<std::pair<nn::BatchNormOptions*, std::optional<double>>> momenta_;
};
}  // namespace detail

/// Computes the running statistics of batch norms anew, over the batches of a loader: tensors, or
/// examples whose `data` is one.
template <class Loader, class M> void update_bn(Loader& loader, nn::ModuleHolder<M> model) {
  const detail::NewStatistics during(*model);
  if (!during.any()) return;
  const NoGradGuard off;
  for (auto&& batch : loader) {
    if constexpr (requires { batch.data; })
      model->forward(batch.data);
    else
      model->forward(batch);
  }
}

/// Blends whatever rate the groups have into swa_lr, within anneal_epochs steps.
class PELLUCID_API SWALR : public LRScheduler {
 public:
  SWALR(Optimizer& optimizer, double swa_lr, int64_t anneal_epochs = 10,
        std::string anneal_strategy = "cos");
  double lr_at(int64_t epoch, size_t group) const override;

 protected:
  void before_step() override;

 private:
  /// The part of swa_lr in the rate at `epoch`.
  double share(int64_t epoch) const;
  double swa_lr_;
  int64_t anneal_epochs_;
  bool cosine_;
};

}  // namespace pellucid::optim
