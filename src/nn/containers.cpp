// Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict.
#include "pellucid/nn/containers.h"

#include <cxxabi.h>

#include <cstdlib>
#include <ostream>
#include <sstream>

#include "pellucid/nn/sequential.h"

namespace pellucid::nn {

namespace detail {

std::string type_name(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string s = status == 0 ? text : type.name();
  std::free(text);
  return s;
}

void wrong_any_type(const std::type_info& asked, const std::type_info& held) {
  pellucid::detail::raise<TypeError>("A {} was asked for, but the value is a {}.", type_name(asked),
                                     type_name(held));
}

void wrong_argument_count(const Module& module, size_t got, size_t least, size_t most) {
  if (least == most)
    pellucid::detail::raise<TypeError>("{}: forward takes {} argument(s), but got {}.",
                                       module.name(), most, got);
  pellucid::detail::raise<TypeError>("{}: forward takes {} to {} arguments, but got {}.",
                                     module.name(), least, most, got);
}

}  // namespace detail

SequentialImpl::SequentialImpl(OrderedDict<std::string, AnyModule>&& modules) {
  for (auto& item : modules) push_back(item.key(), std::move(item.value()));
}

SequentialImpl::SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
  for (const NamedAnyModule& m : modules) push_back(m.name(), m.module());
}

void SequentialImpl::push_back(std::string name, AnyModule module) {
  add_child(std::move(name), module.ptr());
  modules_.push_back(std::move(module));
}

std::shared_ptr<Module> SequentialImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  for (size_t i = 0; i < size(); ++i)
    copy->push_back(children_[i].key(), modules_[i].clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

Tensor SequentialImpl::forward_tensor(const Tensor& input) {
  PELLUCID_CHECK(!is_empty(), ValueError, "Sequential: forward was called, but it is empty.");
  const ModuleScope scope(*this);
  Tensor x = input;
  for (size_t i = 0; i < modules_.size(); ++i) {
    detail::AnyModulePlaceholder& m = *modules_[i].content_;
    if (!m.tensor_to_tensor) {  // from here on values may be of any type
      AnyValue value = m.forward({AnyValue(x)});
      for (++i; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
      return value.get<Tensor>();
    }
    x = m.forward_tensor(x);
  }
  return x;
}

AnyValue SequentialImpl::forward_any(std::vector<AnyValue> arguments) {
  PELLUCID_CHECK(!is_empty(), ValueError, "Sequential: forward was called, but it is empty.");
  const ModuleScope scope(*this);
  AnyValue value = modules_[0].content_->forward(std::move(arguments));
  for (size_t i = 1; i < modules_.size(); ++i) value = modules_[i].any_forward(std::move(value));
  return value;
}

const AnyModule& SequentialImpl::checked(size_t index) const {
  PELLUCID_CHECK(index < size(), IndexError, "Sequential: index {} is out of range, there are {}.",
                 index, size());
  return modules_[index];
}

std::shared_ptr<Module> ModuleListImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& m : modules_) copy->push_back(m->clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

void ModuleListImpl::push_back(std::shared_ptr<Module> module) {
  add_child(std::to_string(size()), module);
  modules_.push_back(std::move(module));
}

void ModuleListImpl::insert(size_t index, std::shared_ptr<Module> module) {
  PELLUCID_CHECK(index <= size(), IndexError, "ModuleList: index {} is out of range, there are {}.",
                 index, size());
  std::vector<std::shared_ptr<Module>> all = std::move(modules_);
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(index), std::move(module));
  modules_.clear();
  children_.clear();
  for (auto& m : all) push_back(std::move(m));
}

const std::shared_ptr<Module>& ModuleListImpl::ptr(size_t index) const {
  PELLUCID_CHECK(index < size(), IndexError, "ModuleList: index {} is out of range, there are {}.",
                 index, size());
  return modules_[index];
}

void ModuleListImpl::pretty_print(std::ostream& stream) const {
  std::vector<std::string> texts;
  for (const auto& m : modules_) {
    std::ostringstream text;
    m->pretty_print(text);
    texts.push_back(text.str());
  }
  stream << name() << '(';
  for (size_t i = 0; i < texts.size();) {
    size_t end = i + 1;
    while (end < texts.size() && texts[end] == texts[i]) ++end;
    stream << "\n  (" << i;
    if (end - i > 1)
      stream << '-' << end - 1 << "): " << end - i << " x ";
    else
      stream << "): ";
    for (const char c : texts[i]) {
      stream << c;
      if (c == '\n') stream << "  ";
    }
    i = end;
  }
  stream << (texts.empty() ? ")" : "\n)");
}

std::shared_ptr<Module> ModuleDictImpl::clone(const std::optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& m : children_) copy->add_child(m.key(), m.value()->clone(device));
  if (!is_training()) copy->eval();
  return copy;
}

std::shared_ptr<Module> ModuleDictImpl::pop(const std::string& key) {
  std::shared_ptr<Module> out = children_[key];
  children_.erase(key);
  return out;
}

void ModuleDictImpl::update(
    const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
  for (const auto& [key, module] : modules)
    if (children_.contains(key))
      children_[key] = module;
    else
      add_child(key, module);
}

namespace {
std::string describe_parameters(const OrderedDict<std::string, Tensor>& parameters) {
  std::string out;
  for (const auto& p : parameters) {
    std::string sizes;
    for (const int64_t s : p.value().sizes())
      sizes += (sizes.empty() ? "" : "x") + std::to_string(s);
    out += fmt::format("{}({}): Parameter containing: [{} of size {}]", out.empty() ? "" : "\n",
                       p.key(), p.value().dtype(), sizes);
  }
  return out;
}
}  // namespace

std::string ParameterListImpl::extra_repr() const { return describe_parameters(parameters_); }
std::string ParameterDictImpl::extra_repr() const { return describe_parameters(parameters_); }

std::shared_ptr<Module> ParameterListImpl::clone(const std::optional<Device>&) const {
  auto copy = std::make_shared<ParameterListImpl>();
  for (const auto& p : parameters_)
    copy->register_parameter(p.key(), p.value().detach().clone(), p.value().requires_grad());
  return copy;
}

std::shared_ptr<Module> ParameterDictImpl::clone(const std::optional<Device>&) const {
  auto copy = std::make_shared<ParameterDictImpl>();
  for (const auto& p : parameters_)
    copy->register_parameter(p.key(), p.value().detach().clone(), p.value().requires_grad());
  return copy;
}

}  // namespace pellucid::nn
