// Groups, options and the state dict of optimisers; the steps themselves are beside this file.
#include "pellucid/optim/optimizer.h"

#include <bit>
#include <unordered_set>

#include "pellucid/compile.h"
#include "pellucid/ops.h"
#include "tensor/mode.h"

namespace pellucid::optim {

namespace detail {

template <class T> T& TensorNumber<T>::get() const {
  if (tensor_.defined() && tensor_._version() != version_) {
    value_ = known_ = *tensor_.raw<T>();
    version_ = static_cast<uint32_t>(tensor_._version());
  }
  return value_;
}

template <class T> const Tensor& TensorNumber<T>::tensor() const {
  if (!tensor_.defined() || std::bit_cast<uint64_t>(value_) != std::bit_cast<uint64_t>(known_)) {
    const pellucid::detail::ModeScope at_once(pellucid::detail::kCapture, false);
    tensor_ = full({}, value_, dtype_of<T>);
    known_ = value_;
    version_ = static_cast<uint32_t>(tensor_._version());
  }
  if (pellucid::detail::is_sealing()) [[unlikely]] {
    if (!self_) self_ = std::make_shared<const TensorNumber*>(this);
    pellucid::detail::note_live_number(
        tensor_, [self = self_, last = tensor_] { return *self ? (*self)->tensor() : last; });
  }
  return tensor_;
}

template class TensorNumber<double>;
template class TensorNumber<int64_t>;
}  // namespace detail

namespace {

Value saved(const OptionField& field) {
  return std::visit(
      [](auto* v) {
        if constexpr (std::is_same_v<decltype(v), std::tuple<double, double>*>)
          return Value(Values{std::get<0>(*v), std::get<1>(*v)});
        else if constexpr (requires { v->value(); })
          return v->has_value() ? Value(**v) : Value();
        else
          return Value(*v);
      },
      field.value);
}

/// A list of tensors is saved as one tensor; None for what is not there.
Value saved(const StateField& field) {
  return std::visit(
      [](auto* v) {
        if constexpr (std::is_same_v<decltype(v), std::deque<Tensor>*>)
          return v->empty() ? Value() : Value(stack(std::vector<Tensor>(v->begin(), v->end())));
        else if constexpr (std::is_same_v<decltype(v), Tensor*>)
          return v->defined() ? Value(*v) : Value();
        else
          return Value(*v);
      },
      field.value);
}

/// The value, which must be a T.
template <class T> const T& exactly(const Value& v, std::string_view name, std::string_view who) {
  const char* const wanted = std::is_same_v<T, bool>      ? "a bool"
                             : std::is_same_v<T, int64_t> ? "an int"
                                                          : "a string";
  PELLUCID_CHECK(v.as<T>(), TypeError, "{}: '{}' must be {}, found {}.", who, name, wanted,
                 v.type_name());
  return *v.as<T>();
}

void load_option(const OptionField& field, const NamedValues& from, std::string_view who) {
  const Value& v = value_of(from, field.name, who);
  std::visit(
      [&](auto* to) {
        using Type = std::remove_pointer_t<decltype(to)>;
        if constexpr (std::is_same_v<Type, double>) {
          *to = number_of(from, field.name, who);
        } else if constexpr (std::is_same_v<Type, std::tuple<double, double>>) {
          const std::vector<double> pair = numbers_of(from, field.name, who);
          PELLUCID_CHECK(pair.size() == 2, ValueError, "{}: '{}' must have 2 numbers, found {}.",
                         who, field.name, pair.size());
          *to = {pair[0], pair[1]};
        } else if constexpr (requires { typename Type::value_type; }) {
          *to = std::nullopt;
          if (!v.is_none()) *to = exactly<typename Type::value_type>(v, field.name, who);
        } else {
          *to = exactly<Type>(v, field.name, who);
        }
      },
      field.value);
}

constexpr std::string_view kLoad = "Optimizer::load_state_dict";

/// Throws ValueError unless the tensors are leaves that no group has, each once.
void check_new(const std::vector<OptimizerParamGroup>& groups, const std::vector<Tensor>& tensors,
               std::string_view who) {
  std::unordered_set<const void*> known;
  for (const OptimizerParamGroup& g : groups)
    for (const Tensor& t : g.params()) known.insert(&t.impl());
  for (const Tensor& t : tensors) {
    PELLUCID_CHECK(t.defined(), ValueError, "Optimizer::{}: a parameter is undefined.", who);
    PELLUCID_CHECK(t.is_leaf(), ValueError,
                   "Optimizer::{}: a tensor that was computed ({}) cannot be optimised; give the "
                   "leaf it was computed from.",
                   who, describe(t));
    PELLUCID_CHECK(known.insert(&t.impl()).second, ValueError,
                   "Optimizer::{}: the parameter {} is in a group already.", who, describe(t));
  }
}

/// A parameter's saved entries put into `state`, with sizes checked against the parameter.
void load_entries(OptimizerParamState& state, const NamedValues& from, const Tensor& param,
                  size_t index) {
  const std::vector<StateField> fields = state.fields();
  for (const NamedValue& v : from) {
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const StateField& f) { return f.name == v.name; });
    PELLUCID_CHECK(field != fields.end(), ValueError,
                   "{}: parameter {} has the entry '{}', which this optimiser does not know.",
                   kLoad, index, v.name);
    if (auto* const* count = std::get_if<int64_t*>(&field->value)) {
      **count = integer_of(from, v.name, kLoad);
      continue;
    }
    if (auto* const* number = std::get_if<double*>(&field->value)) {
      **number = number_of(from, v.name, kLoad);
      continue;
    }
    const Tensor& t = v.value.tensor();
    if (auto* const* list = std::get_if<std::deque<Tensor>*>(&field->value)) {
      const std::vector<Tensor> rows = t.detach().clone().unbind();
      (*list)->assign(rows.begin(), rows.end());
      continue;
    }
    PELLUCID_CHECK(
        (t.sizes() == param.sizes() || !field->parameter_sized) && t.dtype() == param.dtype(),
        ShapeError, "{}: '{}' of parameter {} is {} but the parameter is {}.", kLoad, v.name, index,
        describe(t), describe(param));
    *std::get<Tensor*>(field->value) = t.detach().clone();
  }
}

}  // namespace

std::unique_ptr<OptimizerOptions> OptimizerOptions::clone() const {
  pellucid::detail::raise<NotImplementedError>(
      "OptimizerOptions::clone: the options' class must override it; derive it from "
      "OptimizerCloneableOptions.");
}
double OptimizerOptions::get_lr() const {
  pellucid::detail::raise<NotImplementedError>(
      "OptimizerOptions::get_lr: the options' class has no learning rate.");
}
void OptimizerOptions::set_lr(double) { get_lr(); }
void OptimizerOptions::inherit(const OptimizerOptions&) {}

std::unique_ptr<OptimizerParamState> OptimizerParamState::clone() const {
  pellucid::detail::raise<NotImplementedError>(
      "OptimizerParamState::clone: the state's class must override it; derive it from "
      "OptimizerCloneableParamState.");
}

void inherit_fields(const std::vector<OptionField>& own, const std::vector<OptionField>& fresh,
                    const std::vector<OptionField>& given) {
  for (size_t i = 0; i < own.size(); ++i)
    std::visit(
        [&](auto* value) {
          using Pointer = decltype(value);
          if (*value == *std::get<Pointer>(fresh[i].value))
            *value = *std::get<Pointer>(given[i].value);
        },
        own[i].value);
}

// FNV-1a over the values.
static uint64_t fingerprint(const std::vector<OptionField>& fields) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t bits) { hash = (hash ^ bits) * 0x100000001b3; };
  for (const OptionField& field : fields) {
    if (field.name == "lr") continue;
    std::visit(
        [&](auto* v) {
          using T = std::decay_t<decltype(*v)>;
          if constexpr (std::is_same_v<T, double>)
            add(std::bit_cast<uint64_t>(*v));
          else if constexpr (std::is_integral_v<T>)
            add(static_cast<uint64_t>(*v));
          else if constexpr (std::is_same_v<T, std::tuple<double, double>>) {
            add(std::bit_cast<uint64_t>(std::get<0>(*v)));
            add(std::bit_cast<uint64_t>(std::get<1>(*v)));
          } else
            add(std::hash<T>()(*v));
        },
        field.value);
  }
  return hash;
}

void OptimizerOptions::note_use() {
  if (!pellucid::detail::is_sealing()) [[likely]]
    return;
  pellucid::detail::note_assumption([this, alive = alive_.watch()] {
    return alive.expired() ? uint64_t{0} : fingerprint(fields());
  });
}

bool equal_fields(const std::vector<OptionField>& a, const std::vector<OptionField>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!std::visit([&](auto* value) { return *value == *std::get<decltype(value)>(b[i].value); },
                    a[i].value))
      return false;
  return true;
}

OptimizerOptions& OptimizerParamGroup::options() {
  PELLUCID_CHECK(options_, ValueError,
                 "OptimizerParamGroup::options: the group has none until it is given to an "
                 "optimiser or gets some with set_options.");
  return *options_;
}
const OptimizerOptions& OptimizerParamGroup::options() const {
  return const_cast<OptimizerParamGroup*>(this)->options();
}

Optimizer::Optimizer(const std::vector<OptimizerParamGroup>& groups,
                     std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& g : groups) add_param_group(g);
}

Optimizer::Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(std::vector{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  check_new(groups_, group.params(), "add_param_group");
  OptimizerParamGroup added(group);
  if (added.has_options())
    added.options().inherit(*defaults_);
  else
    added.set_options(defaults_->clone());
  check_options(added.options());
  groups_.push_back(std::move(added));
}

void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  PELLUCID_CHECK(!groups_.empty(), ValueError, "Optimizer::add_parameters: there is no group.");
  check_new(groups_, parameters, "add_parameters");
  std::vector<Tensor>& params = groups_[0].params();
  params.insert(params.end(), parameters.begin(), parameters.end());
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const OptimizerParamGroup& g : groups_)
    for (const Tensor& t : g.params()) t.zero_grad(set_to_none);
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const OptimizerParamGroup& g : groups_)
    all.insert(all.end(), g.params().begin(), g.params().end());
  return all;
}

size_t Optimizer::size() const {
  size_t n = 0;
  for (const OptimizerParamGroup& g : groups_) n += g.params().size();
  return n;
}

Tensor Optimizer::loss_of(const LossClosure& closure) {
  if (!closure) return {};
  const AutoGradMode on(true);
  const MemoryCategoryGuard category(MemoryCategory::Other);  // a forward pass like any other
  return closure();
}

NamedValues Optimizer::state_dict() const {
  NamedValues values;
  size_t index = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::string name = fmt::format("param_groups.{}", g);
    const std::unique_ptr<OptimizerOptions> options = groups_[g].options().clone();
    for (const OptionField& f : options->fields())
      values.push_back({fmt::format("{}.{}", name, f.name), saved(f)});
    Values params;
    for (size_t i = 0; i < groups_[g].params().size(); ++i)
      params.push_back(static_cast<int64_t>(index++));
    values.push_back({name + ".params", std::move(params)});
  }
  index = 0;
  for (const Tensor& param : parameters()) {
    const auto found = state_.find(&param.impl());
    if (found != state_.end())
      for (const StateField& f : found->second->fields())
        if (Value v = saved(f); !v.is_none())
          values.push_back({fmt::format("state.{}.{}", index, f.name), std::move(v)});
    ++index;
  }
  return values;
}

void Optimizer::load_state_dict(const NamedValues& values) {
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const NamedValues part = part_of(values, fmt::format("param_groups.{}", g));
    options.push_back(groups_[g].options().clone());
    const size_t count = numbers_of(part, "params", kLoad).size();
    PELLUCID_CHECK(count == groups_[g].params().size(), ValueError,
                   "{}: group {} has {} parameters but the saved one has {}.", kLoad, g,
                   groups_[g].params().size(), count);
    for (const OptionField& f : options[g]->fields()) load_option(f, part, kLoad);
    check_options(*options[g]);
  }
  PELLUCID_CHECK(part_of(values, fmt::format("param_groups.{}", groups_.size())).empty(),
                 ValueError, "{}: the saved optimiser has more than {} parameter groups.", kLoad,
                 groups_.size());
  StateMap state;
  size_t index = 0;
  for (const Tensor& param : parameters()) {
    const NamedValues part = part_of(values, fmt::format("state.{}", index));
    if (!part.empty()) {
      std::unique_ptr<OptimizerParamState> made = new_state();
      PELLUCID_CHECK(made, ValueError, "{}: this optimiser keeps no state but some was saved.",
                     kLoad);
      load_entries(*made, part, param, index);
      state[&param.impl()] = std::move(made);
    }
    ++index;
  }
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].set_options(std::move(options[g]));
  state_ = std::move(state);
}

}  // namespace pellucid::optim
