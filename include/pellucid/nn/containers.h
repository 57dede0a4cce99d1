// ModuleList, ModuleDict, ParameterList, ParameterDict: members that are lists or dictionaries.
// They have no forward of their own.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "pellucid/nn/cloneable.h"
#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

/// Modules by number.
class PELLUCID_API ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;
  ModuleListImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0) explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  /// Runs of equal entries are printed once, as Python does: "(0-11): 12 x Block(…)".
  void pretty_print(std::ostream& stream) const override;

  void push_back(std::shared_ptr<Module> module);
  template <class M>
  requires std::is_base_of_v<Module, std::decay_t<M>>
  void push_back(M&& module) {
    push_back(std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M> void push_back(const ModuleHolder<M>& holder) {
    push_back(std::shared_ptr<Module>(holder.ptr()));
  }
  template <class Container> void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  void insert(size_t index, std::shared_ptr<Module> module);
  Iterator begin() { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator begin() const { return modules_.begin(); }
  ConstIterator end() const { return modules_.end(); }
  template <class T> T& at(size_t index) const {
    T* m = ptr(index)->as<T>();
    PELLUCID_CHECK(m != nullptr, TypeError,
                   "ModuleList: entry {} is a {}, not of the type asked for.", index,
                   ptr(index)->name());
    return *m;
  }
  const std::shared_ptr<Module>& ptr(size_t index) const;
  template <class T> std::shared_ptr<T> ptr(size_t index) const {
    at<T>(index);
    return std::static_pointer_cast<T>(ptr(index));
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
using ModuleList = ModuleHolder<ModuleListImpl>;

/// Modules by key, in the order of insertion.
class PELLUCID_API ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Dict = OrderedDict<std::string, std::shared_ptr<Module>>;
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(
      const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& list) {
    update(list);
  }
  explicit ModuleDictImpl(const Dict& modules) { update(modules.pairs()); }
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const {
    return children_.pairs();
  }
  std::vector<std::string> keys() const { return children_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  Dict::Iterator begin() { return children_.begin(); }
  Dict::Iterator end() { return children_.end(); }
  size_t size() const noexcept { return children_.size(); }
  bool empty() const noexcept { return children_.is_empty(); }
  bool contains(const std::string& key) const noexcept { return children_.contains(key); }
  void clear() { children_.clear(); }
  /// The module of `key`, taken out.
  std::shared_ptr<Module> pop(const std::string& key);
  /// Adds modules; those whose key exists are replaced.
  void update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules);
  std::shared_ptr<Module> operator[](const std::string& key) const { return children_[key]; }
  template <class T> T& at(const std::string& key) const {
    T* m = children_[key]->as<T>();
    PELLUCID_CHECK(m != nullptr, TypeError, "ModuleDict: '{}' is a {}, not of the type asked for.",
                   key, children_[key]->name());
    return *m;
  }
};
using ModuleDict = ModuleHolder<ModuleDictImpl>;

/// Parameters by number.
class PELLUCID_API ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  ParameterListImpl() = default;
  template <class... Tensors>
  requires(sizeof...(Tensors) > 0) explicit ParameterListImpl(Tensors&&... tensors) {
    (append(std::forward<Tensors>(tensors)), ...);
  }
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  std::string extra_repr() const override;
  void append(const Tensor& parameter) {
    register_parameter(std::to_string(size()), parameter, parameter.requires_grad());
  }
  template <class Container> void extend(const Container& container) {
    for (const Tensor& t : container) append(t);
  }
  Tensor& at(size_t index) { return parameters_[index].value(); }
  Tensor& operator[](size_t index) { return at(index); }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
using ParameterList = ModuleHolder<ParameterListImpl>;

/// Parameters by key.
class PELLUCID_API ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) {
    for (const auto& p : parameters) insert(p.key(), p.value());
  }
  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  std::string extra_repr() const override;
  Tensor& insert(const std::string& key, const Tensor& parameter) {
    return register_parameter(key, parameter, parameter.requires_grad());
  }
  Tensor& get(const std::string& key) { return parameters_[key]; }
  Tensor& operator[](const std::string& key) { return parameters_[key]; }
  bool contains(const std::string& key) const noexcept { return parameters_.contains(key); }
  std::vector<std::string> keys() const { return parameters_.keys(); }
  std::vector<Tensor> values() const { return parameters_.values(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
};
using ParameterDict = ModuleHolder<ParameterDictImpl>;

}  // namespace pellucid::nn
