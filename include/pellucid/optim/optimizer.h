// What optimisers share: options, the state of a parameter, parameter groups, and Optimizer itself.
// Names are libtorch's. The step's ops read the learning rate and the count of steps from 0-dim
// tensors, so that a captured step can be run again with others. `lr()` and `step()` are references
// to numbers beside those tensors: a captured step keeps what they were when it was captured.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include "pellucid/arg.h"
#include "pellucid/autograd.h"
#include "pellucid/detail/alive.h"
#include "pellucid/named_values.h"

namespace pellucid::serialize {
class OutputArchive;
class InputArchive;
}  // namespace pellucid::serialize

namespace pellucid::optim {

namespace detail {
/// A number that the program sets and a 0-dim tensor that ops read and change. A copy has a tensor
/// of its own.
template <class T> class PELLUCID_API TensorNumber {
 public:
  explicit TensorNumber(T value) : value_(value), known_(value) {}
  TensorNumber(const TensorNumber& o) : TensorNumber(o.get()) {}
  ~TensorNumber() {
    if (self_) *self_ = nullptr;
  }
  TensorNumber& operator=(const TensorNumber& o) {
    if (this != &o) get() = o.get();
    return *this;
  }
  /// The number, with what ops made of it. Valid as a reference until an op changes the tensor.
  T& get() const;
  /// The tensor, with what the program made of it: another one if that is something else.
  const Tensor& tensor() const;

 private:
  mutable Tensor tensor_;  // undefined until an op asks for it
  mutable T value_;        // what the program sees and may set
  mutable T known_;        // what the tensor held when the two were last equal
  mutable uint32_t version_ = 0;
  mutable std::shared_ptr<const TensorNumber*> self_;  // for programs that read it anew
};
extern template class TensorNumber<double>;
extern template class TensorNumber<int64_t>;
}  // namespace detail

/// One option by its name, for state_dict and for groups that inherit from the defaults.
struct OptionField {
  std::string_view name;
  std::variant<double*, bool*, int64_t*, std::tuple<double, double>*, std::optional<int64_t>*,
               std::optional<std::string>*>
      value;
};

/// The options of an optimiser or of one of its groups.
class PELLUCID_API OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const;
  virtual double get_lr() const;
  virtual void set_lr(double lr);
  /// Every option but the learning rate's tensor; empty for a class that has none to save.
  virtual std::vector<OptionField> fields() { return {}; }
  /// Takes from `defaults` each option that still has the value its class gives it.
  virtual void inherit(const OptimizerOptions& defaults);
  /// To be called by a step: a program that is sealed with it does not outlive other options. The
  /// learning rate is read anew and may change.
  void note_use();

 private:
  pellucid::detail::Alive alive_;
};

/// Options of a class Derived, which is default-constructible; holds the learning rate.
template <class Derived> class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  explicit OptimizerCloneableOptions(double lr) : lr_(lr) {}
  Derived& lr(double value) {
    lr_.get() = value;
    return static_cast<Derived&>(*this);
  }
  double& lr() { return lr_.get(); }
  double lr() const { return lr_.get(); }
  /// The 0-dim tensor in which the learning rate lives.
  const Tensor& lr_tensor() const { return lr_.tensor(); }

  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
  void inherit(const OptimizerOptions& defaults) override {
    Derived fresh, given(dynamic_cast<const Derived&>(defaults));
    inherit_fields(fields(), fresh.fields(), given.fields());
  }
  friend bool operator==(const Derived& a, const Derived& b) {
    return equal_fields(Derived(a).fields(), Derived(b).fields());
  }

 private:
  detail::TensorNumber<double> lr_;
};
PELLUCID_API void inherit_fields(const std::vector<OptionField>& own,
                                 const std::vector<OptionField>& fresh,
                                 const std::vector<OptionField>& given);
PELLUCID_API bool equal_fields(const std::vector<OptionField>& a,
                               const std::vector<OptionField>& b);

/// One entry of a parameter's state by its name.
struct StateField {
  std::string_view name;
  std::variant<Tensor*, int64_t*, double*, std::deque<Tensor>*> value;
  bool parameter_sized = true;  ///< whether a tensor must have the parameter's sizes
};

/// What an optimiser keeps for one parameter.
class PELLUCID_API OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState&) = default;
  OptimizerParamState& operator=(const OptimizerParamState&) = default;
  virtual ~OptimizerParamState() = default;
  virtual std::unique_ptr<OptimizerParamState> clone() const;
  virtual std::vector<StateField> fields() { return {}; }
};

template <class Derived> class OptimizerCloneableParamState : public OptimizerParamState {
 public:
  std::unique_ptr<OptimizerParamState> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// State with a count of steps that lives in a 0-dim tensor.
template <class Derived> class CountingParamState : public OptimizerCloneableParamState<Derived> {
 public:
  Derived& step(int64_t value) {
    step_.get() = value;
    return static_cast<Derived&>(*this);
  }
  int64_t& step() { return step_.get(); }
  int64_t step() const { return step_.get(); }
  const Tensor& step_tensor() const { return step_.tensor(); }

 private:
  detail::TensorNumber<int64_t> step_{0};
};

/// Parameters that share options.
class PELLUCID_API OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& o)
      : params_(o.params_),
        options_(o.options_ ? o.options_->clone() : nullptr),
        initial_lr_(o.initial_lr_) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup& operator=(OptimizerParamGroup o) noexcept {
    params_ = std::move(o.params_);
    options_ = std::move(o.options_);
    initial_lr_ = o.initial_lr_;
    return *this;
  }
  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options();
  const OptimizerOptions& options() const;
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }
  /// The learning rate when the first schedule was made: what all schedules of the group start
  /// from.
  double initial_lr() {
    if (!initial_lr_) initial_lr_ = options().get_lr();
    return *initial_lr_;
  }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
  std::optional<double> initial_lr_;
};

/// Moves parameters along their gradients.
class PELLUCID_API Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  using StateMap = std::unordered_map<void*, std::unique_ptr<OptimizerParamState>>;
  Optimizer(const std::vector<OptimizerParamGroup>& groups,
            std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  virtual ~Optimizer() = default;

  /// Adds a group; options that it leaves at their class's values come from the defaults.
  void add_param_group(const OptimizerParamGroup& group);
  void add_parameters(const std::vector<Tensor>& parameters);
  /// One step over all parameters that have a gradient; with a closure, calls it first and returns
  /// its loss.
  virtual Tensor step(LossClosure closure = nullptr) = 0;
  void zero_grad(bool set_to_none = true);

  std::vector<Tensor> parameters() const;
  size_t size() const;
  OptimizerOptions& defaults() { return *defaults_; }
  const OptimizerOptions& defaults() const { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() { return groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return groups_; }
  /// By the address of the parameter's impl, as in libtorch.
  StateMap& state() { return state_; }
  const StateMap& state() const { return state_; }

  /// "param_groups.0.lr", "state.3.exp_avg"…; parameters are numbered through the groups. Tensors
  /// are those of the optimiser, not copies.
  NamedValues state_dict() const;
  /// Takes over options and state; throws ValueError or ShapeError, before anything is changed,
  /// where groups, names or sizes differ.
  void load_state_dict(const NamedValues& values);
  /// The state dict into an archive and out of it (defined with the archives, in src/io).
  void save(serialize::OutputArchive& archive) const;
  void load(serialize::InputArchive& archive);

 protected:
  /// An empty state of the optimiser's kind; null for one without state.
  virtual std::unique_ptr<OptimizerParamState> new_state() const { return nullptr; }
  /// Throws ValueError where an option's value is not allowed.
  virtual void check_options(const OptimizerOptions&) const {}
  /// Calls the closure, if any, with gradients on.
  static Tensor loss_of(const LossClosure& closure);
  /// The state of a parameter as an S, made by `make` when the parameter has none.
  template <class S, class Make> S& state_of(const Tensor& param, const Make& make) {
    std::unique_ptr<OptimizerParamState>& slot = state_[&param.impl()];
    if (!slot) slot = make();
    return static_cast<S&>(*slot);
  }
  std::vector<OptimizerParamGroup> groups_;
  StateMap state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

}  // namespace pellucid::optim
