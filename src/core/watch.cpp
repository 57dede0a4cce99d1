#include "core/watch.h"

#include <nlohmann/json.hpp>

#include "core/registry.h"
#include "pellucid/estimate.h"

namespace pellucid {
namespace {

using Json = nlohmann::json;
using profile::mix;

// All that makes a call cost or mean something else: the op, sizes and dtypes, attributes.
uint64_t hash_of(const Call& c) noexcept {
  uint64_t h = mix(0xca11, c.op().info->id);
  for (const Tensor* t : c.inputs()) {
    if (!t->defined()) {
      h = mix(h, ~uint64_t{0});
      continue;
    }
    const detail::TensorImpl& impl = t->impl();
    h = mix(h, static_cast<uint64_t>(impl.dtype) << 8 | impl.sizes.size());
    for (const int64_t size : impl.sizes) h = mix(h, static_cast<uint64_t>(size));
  }
  for (const Attr& a : c.attrs()) {
    h = mix(h, static_cast<uint64_t>(a.kind()));
    switch (a.kind()) {
      case Attr::Kind::Ints:
        for (const int64_t v : a.ints()) h = mix(h, static_cast<uint64_t>(v));
        break;
      case Attr::Kind::Text:
        for (const char ch : a.text()) h = mix(h, static_cast<uint64_t>(ch));
        break;
      case Attr::Kind::None:
      case Attr::Kind::Float:   // numbers do not change what a call costs, and a learning rate
      case Attr::Kind::Scalar:  // that falls must not make every step another call
        break;
      default:
        h = mix(h, static_cast<uint64_t>(a.integer()));
    }
  }
  return h;
}

Json tensor_json(const Tensor& t) {
  if (!t.defined()) return nullptr;
  const auto sizes = t.sizes();
  return {static_cast<int>(t.dtype()), std::vector<int64_t>(sizes.begin(), sizes.end())};
}

std::string attribute_text(const Call& c) {
  std::string text;
  size_t next = 0;
  for (const Arg& arg : c.op().info->args) {
    if (arg.type == ArgType::Tensor || arg.type == ArgType::TensorList) continue;
    if (next >= c.attrs().size()) break;
    const Attr& a = c.attr(next++);
    std::string value;
    switch (a.kind()) {
      case Attr::Kind::Bool:
        value = a.flag() ? "true" : "false";
        break;
      case Attr::Kind::Int:
        value = fmt::format("{}", a.integer());
        break;
      case Attr::Kind::Ints:
        value = fmt::format("{}", a.ints());
        break;
      case Attr::Kind::Text:
        value = a.text();
        break;
      case Attr::Kind::DType:
        value = fmt::format("{}", a.dtype());
        break;
      default:
        continue;  // absent, or a number that may change from call to call
    }
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", arg.name, value);
  }
  return text;
}

// The members of an object, without its brackets.
std::string members(const Json& j) {
  const std::string text = j.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

std::string describe_signature(const Call& c) {
  const OpInfo& info = *c.op().info;
  Json inputs = Json::array();
  for (const Tensor* t : c.inputs()) inputs.push_back(tensor_json(*t));
  return members(
      {{"name", info.name},
       {"op_kind", info.is_view ? "view" : kOpKindNames[static_cast<size_t>(c.op().kind)]},
       {"inputs", inputs},
       {"attributes", attribute_text(c)}});
}

std::string describe_cost(const Call& c) {
  Json outputs = Json::array();
  for (size_t k = 0; k < std::min(c.output_count(), c.op().info->visible_outputs); ++k)
    outputs.push_back(tensor_json(c.out(k)));
  Json j = {{"outputs", outputs}};
  if (c.op().info->is_view) {
    j["flops"] = 0;
    j["bytes"] = 0;
    j["contraction"] = 0;
  } else if (c.op().cost) {
    const FlopSplit flops = split_flops(c);
    j["flops"] = flops.total;
    j["bytes"] = c.op().cost(c).bytes;
    j["contraction"] = flops.contraction;
  }
  return members(j);
}

}  // namespace

void Watch::begin(const Call& c) noexcept {
  try {
    info_of(c.op());
    const auto kind = c.op().compose ? profile::EventKind::Composite : profile::EventKind::Op;
    const uint64_t hash = hash_of(c);
    signature_ = profile::find_signature(hash);
    if (signature_ == 0) {
      signature_ = profile::define_signature(hash, kind, describe_signature(c));
      is_new_ = kind == profile::EventKind::Op;
    }
    profile::begin_scope(this, kind, signature_, profile::current_site());
    begun_ = true;
  } catch (const std::exception&) {
    // A call that cannot be described is not recorded.
  }
}

void Watch::end(const Call& c, uint64_t node) noexcept {
  profile::end_scope(this, node);
  begun_ = false;
  if (!is_new_) return;
  try {
    profile::define_cost(signature_, describe_cost(c));
  } catch (const std::exception&) {
    // A cost that needs what the call no longer has: the signature stays without one.
  }
}

}  // namespace pellucid
