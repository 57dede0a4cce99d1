// Sequential: modules run one after another, each taking what the last returned.
#pragma once

#include <initializer_list>
#include <vector>

#include "pellucid/nn/any.h"
#include "pellucid/nn/cloneable.h"

namespace pellucid::nn {

class PELLUCID_API SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 && ((detail::IsHolder<Modules> || detail::IsModule<Modules> ||
                                       std::is_same_v<std::decay_t<Modules>, AnyModule> ||
                                       requires(Modules m) { *m.get(); }) &&
                                      ...)) explicit SequentialImpl(Modules&&... modules) {
    modules_.reserve(sizeof...(Modules));
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& modules);
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules);

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  /// Does nothing: the modules are given, not built.
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { Module::pretty_print(stream); }

  /// Runs the modules in order; the last must return a Result. Always inlined, so that profiles
  /// name the caller's line.
  template <class Result = Tensor, class... Args>
  [[gnu::always_inline]] Result forward(Args&&... args) {
    if constexpr (std::is_same_v<Result, Tensor> && sizeof...(Args) == 1 &&
                  (std::is_same_v<std::decay_t<Args>, Tensor> && ...))
      return forward_tensor(args...);
    else
      return forward_any({AnyValue(std::forward<Args>(args))...}).template get<Result>();
  }

  template <class M> void push_back(std::shared_ptr<M> module) {
    push_back(std::to_string(size()), std::move(module));
  }
  template <class M> void push_back(std::string name, std::shared_ptr<M> module) {
    push_back(std::move(name), AnyModule(std::move(module)));
  }
  template <detail::IsModule M> void push_back(M&& module) {
    push_back(std::to_string(size()), std::forward<M>(module));
  }
  template <detail::IsModule M> void push_back(std::string name, M&& module) {
    push_back(std::move(name), std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M> void push_back(const ModuleHolder<M>& holder) {
    push_back(std::to_string(size()), holder);
  }
  template <class M> void push_back(std::string name, const ModuleHolder<M>& holder) {
    push_back(std::move(name), AnyModule(holder));
  }
  void push_back(AnyModule module) { push_back(std::to_string(size()), std::move(module)); }
  void push_back(std::string name, AnyModule module);
  template <class Container> void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  Iterator begin() { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator begin() const { return modules_.begin(); }
  ConstIterator end() const { return modules_.end(); }
  template <class T> T& at(size_t index) const { return checked(index).get<T>(); }
  std::shared_ptr<Module> ptr(size_t index) const { return checked(index).ptr(); }
  template <class T> std::shared_ptr<T> ptr(size_t index) const { return checked(index).ptr<T>(); }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  Tensor forward_tensor(const Tensor& input);
  AnyValue forward_any(std::vector<AnyValue> arguments);
  const AnyModule& checked(size_t index) const;
  std::vector<AnyModule> modules_;
};

/// Sequential(Linear(4, 8), ReLU(), …) or Sequential({{"fc", Linear(4, 8)}, …}).
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> modules)
      : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
};

}  // namespace pellucid::nn
