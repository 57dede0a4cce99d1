// AnyValue and AnyModule: a value and a module of any type, so that a Sequential can hold modules
// whose forward takes and returns anything. A module that maps one tensor to one tensor is called
// directly, without boxing.
#pragma once

#include <any>
#include <initializer_list>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "pellucid/nn/pimpl.h"

namespace pellucid::nn {

namespace detail {
/// The name of a type as C++ writes it.
PELLUCID_API std::string type_name(const std::type_info& type);
[[noreturn]] PELLUCID_API void wrong_any_type(const std::type_info& asked,
                                              const std::type_info& held);
template <class M>
concept IsModule = std::is_base_of_v<Module, std::decay_t<M>>;
template <class M>
concept TensorToTensor = requires(M& m, const Tensor& t) {
  { m.forward(t) } -> std::same_as<Tensor>;
};
/// Whether forward is one function, so that its parameters can be known.
template <class M>
concept PlainForward = requires {
  &M::forward;
};
}  // namespace detail

/// A value of any copyable type.
class AnyValue {
 public:
  template <class T>
  requires(!std::is_same_v<std::decay_t<T>, AnyValue>) explicit AnyValue(T&& value)
      : value_(std::forward<T>(value)) {}
  /// The value, or null if it is of another type.
  template <class T> T* try_get() { return std::any_cast<T>(&value_); }
  template <class T> T get() {
    if (T* p = try_get<T>()) return *p;
    detail::wrong_any_type(typeid(T), value_.type());
  }
  const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  std::any value_;
};

namespace detail {

struct AnyModulePlaceholder {
  explicit AnyModulePlaceholder(const std::type_info& t) : type(t) {}
  virtual ~AnyModulePlaceholder() = default;
  virtual AnyValue forward(std::vector<AnyValue>&& arguments) = 0;
  virtual Tensor forward_tensor(const Tensor& input) = 0;
  virtual const std::shared_ptr<Module>& ptr() const = 0;
  virtual std::unique_ptr<AnyModulePlaceholder> copy() const = 0;
  virtual std::unique_ptr<AnyModulePlaceholder> clone_module(
      const std::optional<Device>& device) const = 0;
  const std::type_info& type;
  bool tensor_to_tensor = false;
};

[[noreturn]] PELLUCID_API void wrong_argument_count(const Module& module, size_t got, size_t least,
                                                    size_t most);

template <class M> struct AnyModuleHolder final : AnyModulePlaceholder {
  explicit AnyModuleHolder(std::shared_ptr<M> m)
      : AnyModulePlaceholder(typeid(M)), module(std::move(m)), base(module) {
    tensor_to_tensor = TensorToTensor<M>;
  }
  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    if constexpr (PlainForward<M>) {
      return unpack(arguments, &M::forward);
    } else {
      if (arguments.size() != 1) wrong_argument_count(*module, arguments.size(), 1, 1);
      return AnyValue(forward_tensor(arguments[0].get<Tensor>()));
    }
  }
  Tensor forward_tensor(const Tensor& input) override {
    if constexpr (TensorToTensor<M>)
      return call_module(*module, input);
    else
      return forward({AnyValue(input)}).template get<Tensor>();
  }
  const std::shared_ptr<Module>& ptr() const override { return base; }
  std::unique_ptr<AnyModulePlaceholder> copy() const override {
    return std::make_unique<AnyModuleHolder>(module);
  }
  std::unique_ptr<AnyModulePlaceholder> clone_module(
      const std::optional<Device>& device) const override {
    return std::make_unique<AnyModuleHolder>(std::dynamic_pointer_cast<M>(module->clone(device)));
  }

  std::shared_ptr<M> module;
  std::shared_ptr<Module> base;

 private:
  template <class C, class R, class... A>
  AnyValue unpack(std::vector<AnyValue>& arguments, R (C::*)(A...)) {
    constexpr size_t count = sizeof...(A);
    size_t required = count;
    if constexpr (requires { module->_forward_num_required_args(); })
      required = module->_forward_num_required_args();
    if (arguments.size() < required || arguments.size() > count) {
      if constexpr (TensorToTensor<M>)  // further parameters have default values
        if (arguments.size() == 1) return AnyValue(forward_tensor(arguments[0].get<Tensor>()));
      wrong_argument_count(*module, arguments.size(), required, count);
    }
    if constexpr (requires { module->_forward_populate_default_args(std::move(arguments)); })
      arguments = module->_forward_populate_default_args(std::move(arguments));
    return call<std::decay_t<A>...>(arguments, std::index_sequence_for<A...>());
  }
  template <class... A, size_t... I>
  AnyValue call(std::vector<AnyValue>& arguments, std::index_sequence<I...>) {
    return AnyValue(call_module(*module, arguments[I].template get<A>()...));
  }
};

}  // namespace detail

/// A module of any type with a forward. Empty until one is assigned.
class AnyModule {
 public:
  AnyModule() = default;
  template <detail::IsModule M>
  explicit AnyModule(std::shared_ptr<M> module)
      : content_(std::make_unique<detail::AnyModuleHolder<M>>(std::move(module))) {}
  template <detail::IsModule M>
  explicit AnyModule(M&& module)
      : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M> explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  AnyModule(AnyModule&&) = default;
  AnyModule& operator=(AnyModule&&) = default;
  AnyModule(const AnyModule& o) : content_(o.content_ ? o.content_->copy() : nullptr) {}
  AnyModule& operator=(const AnyModule& o) {
    content_ = o.content_ ? o.content_->copy() : nullptr;
    return *this;
  }
  template <detail::IsModule M> AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }
  AnyModule clone(std::optional<Device> device = std::nullopt) const {
    AnyModule out;
    if (content_) out.content_ = content_->clone_module(device);
    return out;
  }

  template <class... Args> AnyValue any_forward(Args&&... args) {
    std::vector<AnyValue> values;
    values.reserve(sizeof...(Args));
    (values.push_back(box(std::forward<Args>(args))), ...);
    return content().forward(std::move(values));
  }
  template <class Result = Tensor, class... Args> Result forward(Args&&... args) {
    if constexpr (std::is_same_v<Result, Tensor> && sizeof...(Args) == 1 &&
                  (std::is_same_v<std::decay_t<Args>, Tensor> && ...)) {
      return content().forward_tensor(args...);
    } else {
      return any_forward(std::forward<Args>(args)...).template get<Result>();
    }
  }
  template <class T>
  requires detail::IsModule<T> T& get() const {
    if (content().type != typeid(T)) detail::wrong_any_type(typeid(T), content().type);
    return *static_cast<detail::AnyModuleHolder<T>&>(*content_).module;
  }
  template <class T>
  requires detail::IsHolder<T> T get()
  const { return T(ptr<typename T::ContainedType>()); }
  const std::shared_ptr<Module>& ptr() const { return content().ptr(); }
  template <class T>
  requires detail::IsModule<T> std::shared_ptr<T> ptr()
  const {
    get<T>();
    return std::static_pointer_cast<T>(ptr());
  }
  const std::type_info& type_info() const { return content().type; }
  bool is_empty() const noexcept { return content_ == nullptr; }

 private:
  template <class T> static AnyValue box(T&& value) {
    if constexpr (std::is_same_v<std::decay_t<T>, AnyValue>)
      return std::forward<T>(value);
    else
      return AnyValue(std::forward<T>(value));
  }
  detail::AnyModulePlaceholder& content() const {
    PELLUCID_CHECK(content_ != nullptr, ValueError, "An empty AnyModule was used.");
    return *content_;
  }
  friend class SequentialImpl;
  std::unique_ptr<detail::AnyModulePlaceholder> content_;
};

/// A module with the name it is to have in a container: {"fc", Linear(3, 4)}.
class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module)
      : name_(std::move(name)), module_(make(std::forward<M>(module))) {}
  const std::string& name() const noexcept { return name_; }
  AnyModule& module() noexcept { return module_; }
  const AnyModule& module() const noexcept { return module_; }

 private:
  template <class M> static AnyModule make(M&& module) {
    if constexpr (std::is_same_v<std::decay_t<M>, AnyModule>)
      return std::forward<M>(module);
    else
      return AnyModule(std::forward<M>(module));
  }
  std::string name_;
  AnyModule module_;
};

}  // namespace pellucid::nn
