// Module: what it owns, by name; modes, conversion, printing, and the stack of running modules.
// Hooks are in hooks.cpp, state_dict in state_dict.cpp.
#include "pellucid/nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <ostream>
#include <sstream>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "core/estimate.h"
#include "pellucid/autograd.h"
#include "pellucid/compile.h"
#include "pellucid/ops.h"
#include "recorder/recorder.h"
#include "tensor/memory_category.h"

namespace pellucid::nn {

namespace {

/// "pellucid::nn::LinearImpl" is "Linear"; template arguments are left out.
std::string short_name(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string s = status == 0 ? text : type.name();
  std::free(text);
  if (const size_t angle = s.find('<'); angle != std::string::npos) s.resize(angle);
  if (const size_t colon = s.rfind("::"); colon != std::string::npos) s.erase(0, colon + 2);
  if (s.size() > 4 && s.ends_with("Impl")) s.resize(s.size() - 4);
  return s;
}

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + '.' + name;
}

std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

void check_name(std::string_view kind, const std::string& name) {
  PELLUCID_CHECK(!name.empty(), ValueError, "{}: the name must not be empty.", kind);
  PELLUCID_CHECK(name.find('.') == std::string::npos, ValueError,
                 "{}: the name must not contain a dot (got '{}').", kind, name);
}

}  // namespace

Module::Module() = default;
Module::Module(const Module&) = default;
Module& Module::operator=(const Module&) = default;
Module::~Module() = default;

const std::string& Module::name() const {
  if (name_) return *name_;
  static std::mutex mutex;  // modules may be named on several threads
  static auto& names =
      *new std::unordered_map<std::type_index, std::string>;  // modules may be static
  const std::lock_guard lock(mutex);
  std::string& name = names[typeid(*this)];
  if (name.empty()) name = short_name(typeid(*this));
  return name;
}

std::shared_ptr<Module> Module::clone(const std::optional<Device>&) const {
  pellucid::detail::raise<NotImplementedError>(
      "clone: {} cannot be cloned; derive it from nn::Cloneable<{}> instead of nn::Module.", name(),
      name());
}

void Module::clone_(Module&, const std::optional<Device>&) {}

void Module::forget(Module& copy) {
  copy.parameters_.clear();
  copy.buffers_.clear();
  copy.children_.clear();
  copy.transient_.clear();
  copy.hooks_.reset();
}

void Module::copy_values(Module& copy, const std::optional<Device>& device) const {
  const auto check = [&](std::string_view what, size_t made, size_t had) {
    PELLUCID_CHECK(made == had, ValueError,
                   "clone: {} has {} {} after reset() but had {} before. Register all of them in "
                   "reset(), not in the constructor.",
                   name(), made, what, had);
  };
  check("parameters", copy.parameters_.size(), parameters_.size());
  check("buffers", copy.buffers_.size(), buffers_.size());
  check("submodules", copy.children_.size(), children_.size());
  const auto copy_all = [](const OrderedDict<std::string, Tensor>& from,
                           OrderedDict<std::string, Tensor>& to) {
    for (const auto& item : from) {
      if (!item.value().defined()) continue;
      Tensor& target = to[item.key()];
      target.set_data(item.value().detach().clone());
      target.requires_grad_(item.value().requires_grad());
    }
  };
  copy_all(parameters_, copy.parameters_);
  copy_all(buffers_, copy.buffers_);
  for (const auto& child : children_) copy.children_[child.key()]->clone_(*child.value(), device);
}

void Module::refuse_clone() const {
  pellucid::detail::raise<TypeError>("clone: {} was replaced by a module of another type.", name());
}

void Module::walk(const std::function<void(const std::string&, const Module&)>& visit,
                  const std::string& prefix) const {
  std::unordered_set<const Module*> seen;
  const auto go = [&](auto&& self, const std::string& path, const Module& m) -> void {
    if (!seen.insert(&m).second) return;
    visit(path, m);
    for (const auto& child : m.children_)
      if (child.value()) self(self, join(path, child.key()), *child.value());
  };
  go(go, prefix, *this);
}

void Module::apply(const ModuleApplyFunction& function) {
  walk([&](const std::string&, const Module& m) { function(const_cast<Module&>(m)); });
}

void Module::apply(const ConstModuleApplyFunction& function) const {
  walk([&](const std::string&, const Module& m) { function(m); });
}

void Module::apply(const NamedModuleApplyFunction& function, const std::string& name_prefix) {
  walk([&](const std::string& n, const Module& m) { function(n, const_cast<Module&>(m)); },
       name_prefix);
}

void Module::apply(const ModulePointerApplyFunction& function) const {
  apply(NamedModulePointerApplyFunction(
      [&](const std::string&, const std::shared_ptr<Module>& m) { function(m); }));
}

void Module::apply(const NamedModulePointerApplyFunction& function,
                   const std::string& name_prefix) const {
  PELLUCID_CHECK(!weak_from_this().expired(), ValueError,
                 "apply: {} is not owned by a shared_ptr, so no pointer to it can be given out; "
                 "make it with std::make_shared or a holder.",
                 name());
  for (const auto& item : named_modules(name_prefix)) function(item.key(), item.value());
}

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> out("Parameter");
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& path, const Module& m) {
    for (const auto& p : m.parameters_)
      if (p.value().defined() && seen.insert(p.value().impl_ref().get()).second)
        out.insert(join(path, p.key()), p.value());
  };
  if (recurse)
    walk(add);
  else
    add("", *this);
  return out;
}

OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> out("Buffer");
  std::unordered_set<const void*> seen;
  const auto add = [&](const std::string& path, const Module& m) {
    for (const auto& b : m.buffers_)
      if (b.value().defined() && seen.insert(b.value().impl_ref().get()).second)
        out.insert(join(path, b.key()), b.value());
  };
  if (recurse)
    walk(add);
  else
    add("", *this);
  return out;
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  return named_parameters(recurse).values();
}

std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(
    const std::string& name_prefix, bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> out("Module");
  walk(
      [&](const std::string& path, const Module& m) {
        if (&m == this && !include_self) return;
        if (auto shared = const_cast<Module&>(m).weak_from_this().lock())
          out.insert(path, std::move(shared));
      },
      name_prefix);
  return out;
}

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules({}, include_self).values();
}

bool Module::is_training() const noexcept {
  if (pellucid::detail::is_sealing()) [[unlikely]]
    note_use();
  return training_;
}

uint64_t Module::fingerprint() const {
  uint64_t h = uint64_t{2} | training_;  // not that of a module which is gone
  for (const auto& child : children_)
    h = profile::mix(h, reinterpret_cast<uintptr_t>(child.value().get()), 1);
  return hooks_ ? profile::mix(h, detail::fingerprint(*hooks_), 2) : h;
}

void Module::note_use() const {
  pellucid::detail::note_assumption(
      [this, alive = alive_.watch()] { return alive.expired() ? uint64_t{0} : fingerprint(); });
}

void Module::train(bool on) {
  training_ = on;
  for (auto& child : children_) child.value()->train(on);
}

void Module::to(Device device, DType dtype, bool non_blocking) {
  device.require_available("Module::to");
  to(dtype, non_blocking);
}

void Module::to(DType dtype, bool) {
  PELLUCID_CHECK(is_floating(dtype), TypeError,
                 "Module::to: parameters take a floating dtype, but {} was given.", dtype);
  const NoGradGuard off;
  for (auto& child : children_) child.value()->to(dtype);
  const auto convert = [&](Tensor& t) {
    if (!t.defined() || !t.is_floating_point() || t.dtype() == dtype) return;
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): what it refers to is dropped
    const Tensor grad = t.grad();
    t.zero_grad();
    t.set_data(t.detach().to(dtype));
    if (grad.defined()) t.set_grad(grad.to(dtype));
  };
  for (auto& p : parameters_) convert(p.value());
  for (auto& b : buffers_) convert(b.value());
}

void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) child.value()->zero_grad(set_to_none);
  for (auto& p : parameters_)
    if (p.value().defined()) p.value().zero_grad(set_to_none);
}

void Module::requires_grad_(bool on) {
  for (const Tensor& p : parameters()) p.requires_grad_(on);
}

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("register_parameter", name);
  PELLUCID_CHECK(!buffers_.contains(name) && !children_.contains(name), ValueError,
                 "register_parameter: {} has something else of the name '{}'.", this->name(), name);
  if (tensor.defined()) {
    PELLUCID_CHECK(tensor.is_leaf(), AutogradError,
                   "register_parameter: '{}' was computed from other tensors; pass a leaf, for "
                   "example tensor.detach().",
                   name);
    tensor.requires_grad_(requires_grad);
    if (const auto& storage = tensor.impl().storage)
      pellucid::detail::set_memory_category(*storage, MemoryCategory::Parameter);
  }
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor& Module::register_buffer(std::string name, Tensor tensor, bool persistent) {
  check_name("register_buffer", name);
  PELLUCID_CHECK(!parameters_.contains(name) && !children_.contains(name), ValueError,
                 "register_buffer: {} has something else of the name '{}'.", this->name(), name);
  if (!persistent) transient_.push_back(name);
  return buffers_.insert(std::move(name), std::move(tensor));
}

void Module::add_child(std::string name, std::shared_ptr<Module> module) {
  check_name("register_module", name);
  PELLUCID_CHECK(!parameters_.contains(name) && !buffers_.contains(name), ValueError,
                 "register_module: {} has something else of the name '{}'.", this->name(), name);
  PELLUCID_CHECK(module != nullptr, ValueError, "register_module: '{}' is empty.", name);
  children_.insert(std::move(name), std::move(module));
}

void Module::pretty_print(std::ostream& stream) const {
  const std::string extra = extra_repr();
  stream << name() << '(';
  if (children_.is_empty() && extra.find('\n') == std::string::npos) {
    stream << extra << ')';
    return;
  }
  if (!extra.empty()) stream << "\n  " << indented(extra);
  for (const auto& child : children_) {
    std::ostringstream text;
    child.value()->pretty_print(text);
    stream << "\n  (" << child.key() << "): " << indented(text.str());
  }
  stream << "\n)";
}

std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.pretty_print(stream);
  return stream;
}

namespace {
thread_local const ModuleScope* running = nullptr;

// The name of `module` below `above`: mostly a child's; a program may also call a grandchild
// without running what is between.
std::string name_below(const Module& above, const Module& module) {
  for (const auto& below : above.named_modules({}, false))
    if (below.value().get() == &module) return below.key();
  return {};
}

// Tells the recorder that a module's forward begins. Modules are numbered by their place, so that
// one that is used in two places is two rows of a report.
void begin_recorded(const ModuleScope& scope) noexcept {
  const Module& module = scope.module();
  const uint64_t call = profile::mix(0x30d, reinterpret_cast<uint64_t>(&module),
                                     reinterpret_cast<uint64_t>(&typeid(module)));
  if (profile::begin_call(&scope, profile::EventKind::Module, call)) [[likely]]
    return;
  const uint32_t parent = profile::innermost_module();
  const uint64_t hash = profile::mix(call, parent);
  uint32_t number = profile::find_module(hash);
  if (number == 0) {
    try {
      int64_t parameters = 0, bytes = 0;
      for (const Tensor& p : module.parameters(false)) {
        parameters += p.numel();
        bytes += static_cast<int64_t>(p.nbytes());
      }
      const std::string name = scope.parent() ? name_below(scope.parent()->module(), module) : "";
      number = profile::define_module(
          hash, parent,
          fmt::format(R"("name":{},"type":{},"parameters":{},"bytes":{})", profile::json_text(name),
                      profile::json_text(module.name()), parameters, bytes));
    } catch (const std::exception&) { return; }
  }
  profile::begin_new_call(&scope, profile::EventKind::Module, call, 0, number);
}
}  // namespace

ModuleScope::ModuleScope(const Module& module) noexcept : module_(module), parent_(running) {
  if (running && &running->module_ == &module) return;
  running = this;
  if (pellucid::detail::is_sealing()) [[unlikely]]
    module.note_use();
  if (profile::recording()) [[unlikely]]
    begin_recorded(*this);
}

ModuleScope::~ModuleScope() {
  if (profile::recording() && running == this) [[unlikely]]
    profile::end_scope(this, 0, false);
  running = parent_;
}

const Module* current_module() noexcept { return running ? &running->module() : nullptr; }

namespace {
[[maybe_unused]] const bool estimates_ask = [] {
  estimate::set_module_query(current_module);
  return true;
}();
}  // namespace

std::string current_module_path() {
  std::vector<const Module*> stack;
  for (const ModuleScope* s = running; s; s = s->parent()) stack.push_back(&s->module());
  std::string path;
  for (size_t i = stack.size(); i-- > 1;) {
    const std::string name = name_below(*stack[i], *stack[i - 1]);
    if (!name.empty()) path = join(path, name);
  }
  return path;
}

}  // namespace pellucid::nn
