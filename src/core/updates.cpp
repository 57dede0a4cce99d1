#include "core/updates.h"

#include <fmt/format.h>

#include <unordered_set>

#include "base/parallel.h"
#include "core/fuse.h"
#include "core/watch.h"

namespace pellucid::detail {
namespace {

// Work of a call beside its elements, and from how much on a part is worth a thread; both count
// elements of an update.
constexpr int64_t kCallWork = 256, kPartWork = 8192;

// Why a call cannot be run by any thread beside others; empty if it can.
std::string refusal(const CapturedCall& call) {
  const std::string& name = call.op.info->name;
  if (call.output_count != 0 || !call.op.describes || !call.op.info->mutates)
    return fmt::format("{} is no update of a parameter", name);
  const TensorImpl& parameter = call.inputs[0].impl();
  if (parameter.numel > Updates::kMostElements)
    return fmt::format("{} has {} elements; up to {} run beside others", name, parameter.numel,
                       Updates::kMostElements);
  if (parameter.dtype != kFloat32 && parameter.dtype != kFloat64)
    return fmt::format("{} works on a copy of {}", name, parameter.dtype);
  for (const Tensor& t : call.inputs)
    if (t.defined() && !t.impl().is_contiguous())
      return fmt::format("{} works on a copy of what has gaps", name);
  return {};
}

}  // namespace

std::unique_ptr<Updates> Updates::form(std::span<const std::unique_ptr<CapturedCall>> calls,
                                       bool reasons) {
  if (calls.size() < 2 || calls[0]->output_count != 0 || calls[1]->output_count != 0)
    return nullptr;
  auto updates = std::make_unique<Updates>();
  std::unordered_set<const Storage*> written, read;
  for (const auto& call : calls) {
    std::string why = refusal(*call);
    for (const Tensor& t : call->inputs)
      if (why.empty() && t.defined() && written.contains(t.impl().storage.get()))
        why = fmt::format("{} reads what another one changes", call->op.info->name);
    for (const Storage* s : call->writes)
      if (why.empty() && read.contains(s))
        why = fmt::format("{} changes what another one reads", call->op.info->name);
    if (!why.empty()) {
      if (reasons) updates->end_ = std::move(why);
      break;
    }
    for (const Tensor& t : call->inputs)
      if (t.defined()) read.insert(t.impl().storage.get());
    written.insert(call->writes.begin(), call->writes.end());
    updates->calls_.push_back(call.get());
  }
  if (updates->size() < 2) return nullptr;
  int64_t work = 0;
  for (size_t i = 0; i < updates->size(); ++i) {
    updates->prepared_.push_back(std::make_unique<PreparedCall>(*updates->calls_[i]));
    if (work == 0) updates->parts_.push_back(i);
    work += kCallWork + updates->calls_[i]->inputs[0].numel();
    if (work >= kPartWork) work = 0;
  }
  return updates;
}

void Updates::run() {
  const profile::FromPlace from(calls_.back()->place);
  GroupWatch watch(calls_, 0);
  parallel_chunks(static_cast<int64_t>(parts_.size()), [&](int64_t part) {
    const auto p = static_cast<size_t>(part);
    const size_t last = p + 1 < parts_.size() ? parts_[p + 1] : prepared_.size();
    for (size_t i = parts_[p]; i < last; ++i) prepared_[i]->run_in_group();
  });
  watch.done();
  fused_calls.fetch_add(static_cast<int64_t>(calls_.size()), std::memory_order_relaxed);
}

}  // namespace pellucid::detail
