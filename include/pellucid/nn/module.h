// Module: a part of a network that owns parameters, buffers and other modules. Names and meaning
// are libtorch's; printing and state_dict are those of Python's torch.nn. Tensors that appear under
// several names (tied weights) are listed once by parameters() and under each name by state_dict().
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pellucid/detail/alive.h"
#include "pellucid/ordered_dict.h"
#include "pellucid/tensor.h"

namespace pellucid::serialize {
class OutputArchive;
class InputArchive;
}  // namespace pellucid::serialize

namespace pellucid::nn {

class Module;
template <class Contained> class ModuleHolder;
using StateDict = OrderedDict<std::string, Tensor>;

namespace detail {
struct ModuleHooks;
uint64_t fingerprint(const ModuleHooks& hooks);
struct ModuleHolderIndicator {};
template <class T>
concept IsHolder = std::is_base_of_v<ModuleHolderIndicator, std::decay_t<T>>;
}  // namespace detail

/// Called before forward with its tensor arguments; a list it returns replaces them.
using ForwardPreHook = std::function<std::optional<Tensors>(Module& module, const Tensors& inputs)>;
/// Called after forward; a list it returns replaces the outputs.
using ForwardHook = std::function<std::optional<Tensors>(Module& module, const Tensors& inputs,
                                                         const Tensors& outputs)>;
/// Called when the gradients of a module's inputs are known; a list it returns replaces them.
using BackwardHook = std::function<std::optional<Tensors>(
    Module& module, const Tensors& grad_inputs, const Tensors& grad_outputs)>;

/// What a loaded state lacked, and what it had that the module does not know.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys, unexpected_keys;
};

/// Takes a hook away again.
class PELLUCID_API HookHandle {
 public:
  HookHandle(std::weak_ptr<detail::ModuleHooks> hooks, uint64_t id)
      : hooks_(std::move(hooks)), id_(id) {}
  void remove();

 private:
  std::weak_ptr<detail::ModuleHooks> hooks_;
  uint64_t id_;
};

/// The base of every layer and model.
class PELLUCID_API Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;
  using NamedModulePointerApplyFunction =
      std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

  explicit Module(std::string name) : name_(std::move(name)) {}
  // Out of line: every module of a program compiles what is here.
  Module();
  Module(const Module&);
  Module& operator=(const Module&);
  virtual ~Module();

  /// The class's name without namespaces and "Impl", or the name given to the constructor.
  const std::string& name() const;
  /// A deep copy; only for modules derived from Cloneable.
  virtual std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const;

  /// Calls `function` with this module and every module below it, parents first.
  void apply(const ModuleApplyFunction& function);
  void apply(const ConstModuleApplyFunction& function) const;
  void apply(const NamedModuleApplyFunction& function, const std::string& name_prefix = {});
  /// The same for functions that keep the modules; this one must be owned by a shared_ptr.
  void apply(const ModulePointerApplyFunction& function) const;
  void apply(const NamedModulePointerApplyFunction& function,
             const std::string& name_prefix = {}) const;

  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  /// This module and all below it; a module that is not owned by a shared_ptr leaves itself out.
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(
      const std::string& name_prefix = {}, bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }

  virtual void train(bool on = true);
  void eval() { train(false); }
  virtual bool is_training() const noexcept;
  virtual void to(Device device, DType dtype, bool non_blocking = false);
  virtual void to(DType dtype, bool non_blocking = false);
  virtual void to(Device device, bool = false) { device.require_available("Module::to"); }
  virtual void zero_grad(bool set_to_none = true);
  /// Turns requires_grad of every parameter on or off.
  void requires_grad_(bool on = true);

  /// Every parameter and persistent buffer by its full name, without history.
  StateDict state_dict(const std::string& prefix = {}) const;
  /// Copies values into the parameters and buffers. Unless all fits, nothing is changed and one
  /// error lists what is missing, unexpected (if strict) or of another shape. Without strict, what
  /// is missing and unexpected is returned.
  IncompatibleKeys load_state_dict(const StateDict& state, bool strict = true);
  /// The state dict into an archive and out of it (defined with the archives, in src/io).
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  /// Whether the module has anything to save, for libtorch's sake.
  virtual bool is_serializable() const { return true; }

  /// This module as M, or null.
  template <class M>
  requires(!detail::IsHolder<M>) M* as() noexcept { return dynamic_cast<M*>(this); }
  template <class M>
  requires(!detail::IsHolder<M>) const M* as() const noexcept {
    return dynamic_cast<const M*>(this);
  }
  template <class M>
  requires detail::IsHolder<M>
  typename M::ContainedType* as() noexcept { return as<typename M::ContainedType>(); }
  template <class M>
  requires detail::IsHolder<M>
  const typename M::ContainedType* as() const noexcept { return as<typename M::ContainedType>(); }

  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, Module&, const Tensors&>> HookHandle
  register_forward_pre_hook(F hook) {
    return register_forward_pre_hook(
        ForwardPreHook([hook](Module& m, const Tensors& in) -> std::optional<Tensors> {
          hook(m, in);
          return std::nullopt;
        }));
  }
  HookHandle register_forward_hook(ForwardHook hook);
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, Module&, const Tensors&, const Tensors&>>
      HookHandle register_forward_hook(F hook) {
    return register_forward_hook(ForwardHook(no_result(hook)));
  }
  HookHandle register_full_backward_hook(BackwardHook hook);
  template <class F>
  requires std::is_void_v<std::invoke_result_t<F, Module&, const Tensors&, const Tensors&>>
      HookHandle register_full_backward_hook(F hook) {
    return register_full_backward_hook(BackwardHook(no_result(hook)));
  }
  bool has_hooks() const noexcept { return hooks_ != nullptr; }
  detail::ModuleHooks& hooks();

  /// Writes the module as Python's print(model) does.
  virtual void pretty_print(std::ostream& stream) const;
  /// What stands between the brackets when the module is printed: "in_features=4, …".
  virtual std::string extra_repr() const { return {}; }

  /// Adds a parameter; an undefined tensor is remembered as absent.
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  /// Adds a buffer: kept and moved with the module, not trained. Only persistent ones are saved.
  Tensor& register_buffer(std::string name, Tensor tensor, bool persistent = true);
  template <class M>  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <class M> std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  /// Puts another module in the place of the one of that name.
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    children_[name] = module;
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name) { children_.erase(name); }

 protected:
  template <class F> static auto no_result(F hook) {
    return [hook](Module& m, const Tensors& a, const Tensors& b) -> std::optional<Tensors> {
      hook(m, a, b);
      return std::nullopt;
    };
  }
  void add_child(std::string name, std::shared_ptr<Module> module);
  /// Calls visit(full name, module) for this module and all below, each once.
  void walk(const std::function<void(const std::string&, const Module&)>& visit,
            const std::string& prefix = {}) const;

  OrderedDict<std::string, Tensor> parameters_{"Parameter"};
  OrderedDict<std::string, Tensor> buffers_{"Buffer"};
  OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};
  std::vector<std::string> transient_;  ///< names of buffers that are not saved

 private:
  template <class Derived> friend class Cloneable;
  friend class ModuleScope;
  virtual void clone_(Module& other, const std::optional<Device>& device);
  // The parts of Cloneable::clone that are the same for every module.
  static void forget(Module& copy);
  void copy_values(Module& copy, const std::optional<Device>& device) const;
  [[noreturn]] void refuse_clone() const;
  // A program that is sealed now does not outlive another mode, other parts and other hooks.
  void note_use() const;
  uint64_t fingerprint() const;
  std::optional<std::string> name_;
  bool training_ = true;
  pellucid::detail::Alive alive_;
  std::shared_ptr<detail::ModuleHooks> hooks_;  ///< null until a hook is registered
};

PELLUCID_API std::ostream& operator<<(std::ostream& stream, const Module& module);

/// Marks on this thread that a module's forward runs, until the end of the scope. Entering the
/// module that runs already adds nothing.
class PELLUCID_API ModuleScope {
 public:
  explicit ModuleScope(const Module& module) noexcept;
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  const Module& module() const { return module_; }
  const ModuleScope* parent() const { return parent_; }

 private:
  const Module& module_;
  const ModuleScope* parent_;
};

/// The innermost module whose forward runs on this thread, or null.
PELLUCID_API const Module* current_module() noexcept;
/// Its full name below the outermost running module ("layer1.0.conv1"); "" for the outermost one
/// and where no module runs.
PELLUCID_API std::string current_module_path();

}  // namespace pellucid::nn
