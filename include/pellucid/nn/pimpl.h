// ModuleHolder: the handle that a program holds (nn::Linear over nn::LinearImpl), and the call that
// runs a module: hooks, the module path and forward.
#pragma once

#include <concepts>
#include <iosfwd>
#include <memory>
#include <tuple>
#include <utility>

#include "pellucid/nn/module.h"

namespace pellucid::nn {

namespace detail {

/// What one call of a module with hooks carries from its inputs to its outputs.
class PELLUCID_API HookedCall {
 public:
  /// Runs the hooks that come before forward; replaces what the pointers lead to.
  HookedCall(Module& module, std::vector<Tensor*> inputs);
  /// Runs the hooks that come after it.
  void finish(const std::vector<Tensor*>& outputs);

 private:
  struct Backward;
  Module& module_;
  Tensors inputs_;
  std::shared_ptr<Backward> backward_;
};

template <class T> void collect(std::vector<Tensor*>&, T&) {}
inline void collect(std::vector<Tensor*>& to, Tensor& t) { to.push_back(&t); }
template <class... T> void collect(std::vector<Tensor*>& to, std::tuple<T...>& values);
inline void collect(std::vector<Tensor*>& to, std::vector<Tensor>& values) {
  for (Tensor& t : values) to.push_back(&t);
}
template <class T> void collect(std::vector<Tensor*>& to, std::optional<T>& value) {
  if (value) collect(to, *value);
}
template <class... T> void collect(std::vector<Tensor*>& to, std::tuple<T...>& values) {
  std::apply([&](auto&... each) { (collect(to, each), ...); }, values);
}

template <class M, class... Args> auto call_with_hooks(M& module, Args&&... args) {
  std::tuple<std::decay_t<Args>...> held(std::forward<Args>(args)...);
  std::vector<Tensor*> inputs, outputs;
  collect(inputs, held);
  HookedCall call(module, std::move(inputs));
  const ModuleScope scope(module);
  const auto run = [&](auto&... each) { return module.forward(each...); };
  if constexpr (std::is_void_v<decltype(std::apply(run, held))>) {
    std::apply(run, held);
    call.finish({});
  } else {
    auto result = std::apply(run, held);
    collect(outputs, result);
    call.finish(outputs);
    return result;
  }
}

/// Runs module.forward(args…) with its hooks and under its path. Always inlined, so that profiles
/// name the caller's line.
template <class M, class... Args>
[[gnu::always_inline]] inline auto call_module(M& module, Args&&... args) {
  if (module.has_hooks()) [[unlikely]]
    return call_with_hooks(module, std::forward<Args>(args)...);
  const ModuleScope scope(module);
  return module.forward(std::forward<Args>(args)...);
}

}  // namespace detail

/// A shared handle to a module; copies refer to the same one. `Linear layer{nullptr}` is empty.
template <class Contained> class ModuleHolder : detail::ModuleHolderIndicator {
 public:
  using ContainedType = Contained;
  using Impl = Contained;

  ModuleHolder() : impl_(std::make_shared<Contained>()) {}
  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}
  template <class Head, class... Tail>
  requires(!(sizeof...(Tail) == 0 && std::derived_from<std::decay_t<Head>, ModuleHolder>)&&!(
      sizeof...(Tail) == 0 &&
      std::convertible_to<Head, std::shared_ptr<Contained>>)) explicit ModuleHolder(Head&& head,
                                                                                    Tail&&... tail)
      : impl_(new Contained(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    check();
    return impl_;
  }
  Contained* get() {
    check();
    return impl_.get();
  }
  const Contained* get() const {
    check();
    return impl_.get();
  }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  /// forward, with the module's hooks.
  template <class... Args> [[gnu::always_inline]] auto operator()(Args&&... args) {
    return detail::call_module(*get(), std::forward<Args>(args)...);
  }
  template <class Arg> decltype(auto) operator[](Arg&& arg) {
    return (*get())[std::forward<Arg>(arg)];
  }

 protected:
  std::shared_ptr<Contained> impl_;

 private:
  void check() const {
    PELLUCID_CHECK(impl_ != nullptr, ValueError,
                   "An empty module handle was used; give it a module first, for example with "
                   "register_module.");
  }
};

template <class M> std::ostream& operator<<(std::ostream& stream, const ModuleHolder<M>& module) {
  return stream << static_cast<const Module&>(*module);
}

}  // namespace pellucid::nn
