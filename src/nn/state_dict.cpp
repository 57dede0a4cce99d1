// state_dict and load_state_dict: all values by name, loaded completely or not at all.
#include <algorithm>
#include <vector>

#include "pellucid/autograd.h"
#include "pellucid/nn/module.h"
#include "pellucid/ops.h"

namespace pellucid::nn {

StateDict Module::state_dict(const std::string& prefix) const {
  StateDict out("Key");
  // Unlike walk(), visits a shared module under each of its names, as Python does.
  const auto add = [&](auto&& self, const std::string& path, const Module& m) -> void {
    for (const auto& p : m.parameters_)
      if (p.value().defined()) out.insert(path + p.key(), p.value().detach());
    for (const auto& b : m.buffers_) {
      const bool saved =
          std::find(m.transient_.begin(), m.transient_.end(), b.key()) == m.transient_.end();
      if (saved && b.value().defined()) out.insert(path + b.key(), b.value().detach());
    }
    for (const auto& child : m.children_) self(self, path + child.key() + '.', *child.value());
  };
  add(add, prefix, *this);
  return out;
}

namespace {

void add_lines(std::string& to, std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  to += fmt::format("\n  {} ({}):", title, lines.size());
  for (const std::string& l : lines) to += "\n    " + l;
}

}  // namespace

IncompatibleKeys Module::load_state_dict(const StateDict& state, bool strict) {
  const NoGradGuard off;
  StateDict own = state_dict();
  IncompatibleKeys keys;
  auto& [missing, unexpected] = keys;
  std::vector<std::string> wrong;
  for (const auto& item : own)
    if (const Tensor* given = state.find(item.key()); !given || !given->defined())
      missing.push_back(item.key());
    else if (given->sizes() != item.value().sizes())
      wrong.push_back(fmt::format("{}: the module has {}, the state {}", item.key(),
                                  item.value().sizes(), given->sizes()));
  for (const auto& item : state)
    if (!own.contains(item.key())) unexpected.push_back(item.key());
  if (!wrong.empty() || (strict && !(missing.empty() && unexpected.empty()))) {
    std::string text = fmt::format("load_state_dict: the state does not fit {}:", name());
    if (strict) add_lines(text, "missing keys", missing);
    if (strict) add_lines(text, "unexpected keys", unexpected);
    add_lines(text, "other shapes", wrong);
    text += "\nNothing was loaded.";
    if (wrong.empty()) text += " Pass strict = false to load what fits.";
    if (wrong.empty()) throw ValueError(text);
    throw ShapeError(text);
  }
  for (auto& item : own)
    if (const Tensor* given = state.find(item.key()); given && given->defined())
      item.value().copy_(given->detach());
  return keys;
}

}  // namespace pellucid::nn
