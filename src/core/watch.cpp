#include "core/watch.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/capture.h"
#include "core/registry.h"
#include "pellucid/autograd.h"
#include "pellucid/estimate.h"
#include "tensor/mode.h"

namespace pellucid {
namespace {

using Json = nlohmann::json;
using profile::mix;

// By Attr::Kind: those whose value is hashed as one word, and those that are lists of such.
constexpr unsigned bit(Attr::Kind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned kValues =
    bit(Attr::Kind::Bool) | bit(Attr::Kind::Int) | bit(Attr::Kind::DType) | bit(Attr::Kind::Format);
constexpr unsigned kLists = bit(Attr::Kind::Ints) | bit(Attr::Kind::Text);

[[gnu::noinline]] uint64_t mix_list(uint64_t h, const Attr& a) noexcept {
  if (a.kind() == Attr::Kind::Text) {
    h = mix(h, a.text().size());
    for (const char ch : a.text()) h = mix(h, static_cast<uint64_t>(ch));
  } else {
    h = mix(h, a.ints().size());
    for (const int64_t v : a.ints()) h = mix(h, static_cast<uint64_t>(v));
  }
  return h;
}

// All that makes a call cost or mean something else: the op, sizes and dtypes, attributes. This is
// done for every call, so it is written for few instructions. `elements` are those of all inputs.
uint64_t hash_of(const Call& c, int64_t& elements) noexcept {
  uint64_t h = mix(0xca11, c.op().info->id);
  for (const Tensor* t : c.inputs()) {
    if (!t->defined()) [[unlikely]] {
      h = mix(h, ~uint64_t{0});
      continue;
    }
    const detail::TensorImpl& impl = t->impl();
    elements += impl.numel;
    const auto* sizes = reinterpret_cast<const uint64_t*>(impl.sizes.data());
    const size_t rank = impl.sizes.size();
    const uint64_t kind = static_cast<uint64_t>(impl.dtype) << 56 | rank << 48;
    // Up to two dimensions the first one and the number of elements tell the sizes; which of them
    // it is must not be a branch, for that is hard to foresee.
    const uint64_t first = rank == 0 ? 0 : sizes[0];
    h = mix(h, kind ^ first, static_cast<uint64_t>(impl.numel));
    if (rank > 2 || impl.numel == 0) [[unlikely]]
      for (size_t i = 0; i < rank; ++i) h = mix(h, sizes[i]);
  }
  for (const Attr& a : c.attrs()) {
    const auto kind = static_cast<unsigned>(a.kind());
    // Numbers do not change what a call costs, and a learning rate that falls must not make every
    // step another call.
    const uint64_t counts = kValues >> kind & 1;
    h = mix(h, kind, static_cast<uint64_t>(a.integer()) & (0 - counts));
    if (kLists >> kind & 1) [[unlikely]]
      h = mix_list(h, a);
  }
  return h;
}

// Calls with fewer elements are not looked at: to find repeated work, it must be some.
constexpr int64_t kLeastIdentified = 8192;
// Calls with at least so many take much longer than asking the system what it did meanwhile.
constexpr int64_t kLeastCounted = 1 << 17;

// Tells the values that a call reads from others: the blocks, their versions, the views of them,
// and the numbers among the attributes. 0 where that cannot be known: memory that is not the
// allocator's, or that the program may write without a word, or a call without tensors.
[[gnu::noinline]] uint32_t inputs_of(const Call& c) noexcept {
  if (!profile::detail::blocks_recorded.load(std::memory_order_relaxed)) return 0;
  uint64_t h = 0x1d;
  for (const Tensor* t : c.inputs()) {
    if (!t->defined()) continue;
    const detail::TensorImpl& impl = t->impl();
    const detail::Storage* storage = impl.storage.get();
    if (!storage || !storage->data) return 0;
    if (impl.wrapped_number) {
      uint64_t value = 0;
      std::memcpy(&value, storage->data, static_cast<size_t>(element_size(impl.dtype)));
      h = mix(h, value);
      continue;
    }
    if (storage->pointer_given_out()) return 0;
    uint64_t view = static_cast<uint64_t>(impl.offset);
    for (const int64_t stride : impl.strides) view = view * 31 + static_cast<uint64_t>(stride);
    h = mix(h, reinterpret_cast<uint64_t>(storage->data),
            uint64_t{storage->version.load(std::memory_order_relaxed)} << 32 |
                profile::detail::generation_of(storage->data).load(std::memory_order_relaxed));
    h = mix(h, view);
  }
  for (const Attr& a : c.attrs())
    if (a.kind() == Attr::Kind::Float || a.kind() == Attr::Kind::Scalar)
      h = mix(h, std::bit_cast<uint64_t>(a.number()));
  return static_cast<uint32_t>(h >> 32) | 1;
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

void Watch::begin(const Call& c, bool knows_inputs) noexcept {
  using profile::EventKind;
  // A call that is kept is recorded when it runs.
  if ((detail::modes & detail::kCapture) && !c.op().compose) return;
  try {
    info_of(c.op());
    const EventKind kind = c.op().compose ? EventKind::Composite : EventKind::Op;
    int64_t elements = 0;
    const uint64_t hash = hash_of(c, elements);
    const uint32_t inputs = knows_inputs && elements >= kLeastIdentified ? inputs_of(c) : 0;
    if (!profile::begin_call(this, kind, hash, inputs)) [[unlikely]]
      begin_new(c, kind, hash, inputs);
    begun_ = true;
    if (elements >= kLeastCounted) profile::count_usage(this);
  } catch (const std::exception&) {
    // A call that cannot be described is not recorded.
  }
}

void Watch::begin_new(const Call& c, profile::EventKind kind, uint64_t hash, uint32_t inputs) {
  signature_ = profile::find_signature(hash);
  if (signature_ == 0) {
    signature_ = profile::define_signature(hash, kind, describe_signature(c));
    is_new_ = kind == profile::EventKind::Op;
  }
  profile::begin_new_call(this, kind, hash, inputs, signature_);
}

void Watch::tell_cost(const Call& c) noexcept {
  try {
    profile::define_cost(signature_, describe_cost(c));
  } catch (const std::exception&) {
    // A cost that needs what the call no longer has: the signature stays without one.
  }
}

// Of the chosen step: which blocks the call read and wrote, and which the node that it left keeps.
[[gnu::noinline]] void Watch::tell_uses(const Call& c, uint64_t node) noexcept {
  using profile::BlockRole;
  const auto block_of = [](const Tensor& t) -> const void* {
    const detail::Storage* storage = t.defined() ? t.impl().storage.get() : nullptr;
    return storage ? storage->data : nullptr;
  };
  try {
    if (c.op().compose) return;  // its ops tell
    for (const Tensor* t : c.inputs()) profile::record_use(block_of(*t), BlockRole::Read);
    for (size_t k = 0; k < c.output_count(); ++k)
      profile::record_use(block_of(c.out(k)), BlockRole::Write);
    if (node == 0 || c.output_count() == 0 || !c.out(0).defined()) return;
    const autograd::NodeRef left = autograd::gradient_edge(c.out(0)).function;
    if (!left) return;
    for (const autograd::SavedInfo& saved : left->saved_tensors())
      profile::record_use(block_of(saved.tensor), BlockRole::Saved,
                          profile::define_name(saved.name));
  } catch (const std::exception&) {
    // A use less is recorded.
  }
}

// A group costs what its ops cost, and moves what they move less the results that it does not
// make, once written and at least once read.
void GroupWatch::begin(std::span<detail::CapturedCall* const> calls, int64_t unmade) noexcept {
  using profile::EventKind;
  try {
    uint64_t hash = mix(0xf05e, calls.size(), static_cast<uint64_t>(unmade));
    int64_t elements = 0;
    for (detail::CapturedCall* call : calls) {
      detail::with_captured(*call, [&](const Call& c) { hash = mix(hash, hash_of(c, elements)); });
      if (call->node != 0) node_ = call->node;
    }
    if (!profile::begin_call(this, EventKind::Op, hash, 0)) {
      uint32_t signature = profile::find_signature(hash);
      if (signature == 0) {
        std::string name = "fused";
        Json inputs = Json::array();
        double flops = 0, contraction = 0, bytes = 0;
        OpKind kind = OpKind::Pointwise;
        for (size_t i = 0, next = 0; i < calls.size() && name.size() < 80; i = next) {
          while (next < calls.size() && &calls[next]->op == &calls[i]->op) ++next;
          if (next - i > 2) name += "_" + std::to_string(next - i);
          for (size_t k = 0; k < (next - i > 2 ? 1 : next - i); ++k)
            name += "_" + calls[i]->op.info->name;
        }
        for (detail::CapturedCall* call : calls) {
          if (kind == OpKind::Pointwise && (call->output_count != 0 || calls[0]->output_count == 0))
            kind = call->op.kind;
          detail::with_captured(*call, [&](const Call& c) {
            if (!c.op().cost) return;
            const FlopSplit split = split_flops(c);
            flops += split.total;
            contraction += split.contraction;
            bytes += c.op().cost(c).bytes;
          });
          for (const Tensor& t : call->inputs)
            if (t.defined() && t.impl().storage->data) inputs.push_back(tensor_json(t));
        }
        signature =
            profile::define_signature(hash, EventKind::Op,
                                      members({{"name", name},
                                               {"op_kind", kOpKindNames[static_cast<size_t>(kind)]},
                                               {"inputs", inputs},
                                               {"attributes", ""}}));
        Json outputs = Json::array();
        if (calls.back()->outputs[0].defined())
          outputs.push_back(tensor_json(calls.back()->outputs[0]));
        profile::define_cost(
            signature, members({{"outputs", outputs},
                                {"flops", flops},
                                {"bytes", std::max(0.0, bytes - 2.0 * static_cast<double>(unmade))},
                                {"contraction", contraction}}));
      }
      profile::begin_new_call(this, EventKind::Op, hash, 0, signature);
    }
    begun_ = true;
    if (elements >= kLeastCounted) profile::count_usage(this);
  } catch (const std::exception&) {
    // A group that cannot be described is not recorded.
  }
}

}  // namespace pellucid
