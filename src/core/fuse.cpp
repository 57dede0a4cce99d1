#include "core/fuse.h"

#include <algorithm>
#include <numeric>

#include "base/allocator.h"
#include "core/registry.h"
#include "core/watch.h"
#include "kernels/pointwise_plan.h"
#include "tensor/strides.h"

namespace pellucid::detail {

int64_t least_fused = kLeastFused;
bool fuse_updates = false;
constinit std::atomic<int64_t> fused_calls{0};

namespace {

constexpr size_t kMostCalls = 64;
// A smaller result of a product stays in the first-level cache: what follows gains nothing, and its
// rows in a block are short.
constexpr int64_t kLeastAfterProduct = 4;
// Columns that a block of a fold has whole.
constexpr int64_t kMostColumns = 1024;

bool same_view(const TensorImpl& a, const TensorImpl& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.offset == b.offset &&
         a.sizes == b.sizes && a.strides == b.strides;
}

// The same elements in the same order.
bool same_elements(const TensorImpl& a, const TensorImpl& b) {
  return a.storage == b.storage && a.dtype == b.dtype && a.offset == b.offset &&
         a.numel == b.numel && a.is_contiguous() && b.is_contiguous();
}

// Whether a call makes one element of many: then it goes over what it reads.
bool is_reduction(const CapturedCall& call) {
  return call.op.kind == OpKind::Reduction && call.output_count != 0 && !call.inputs.empty() &&
         call.inputs[0].defined() && call.outputs[0].defined() &&
         call.outputs[0].impl().numel < call.inputs[0].impl().numel;
}

// What a call goes over: its result or, for an update, the parameter.
const TensorImpl& subject(const CapturedCall& call) {
  return call.output_count == 0 || is_reduction(call) ? call.inputs[0].impl()
                                                      : call.outputs[0].impl();
}

bool is_result(const CapturedCall& call, const Storage* s) {
  for (size_t k = 0; k < call.output_count; ++k)
    if (call.outputs[k].defined() && call.outputs[k].impl().storage.get() == s) return true;
  return false;
}

bool touches(const CapturedCall& call, const Storage* s) {
  for (const Tensor& t : call.inputs)
    if (t.defined() && t.impl().storage.get() == s) return true;
  return is_result(call, s);
}

bool broadcasts_to(IntArrayRef from, IntArrayRef to) {
  if (from.size() > to.size()) return false;
  for (size_t d = 1; d <= from.size(); ++d)
    if (from[from.size() - d] != 1 && from[from.size() - d] != to[to.size() - d]) return false;
  return true;
}

char* address(const TensorImpl& t) {
  return static_cast<char*>(t.storage->data) + t.offset * element_size(t.dtype);
}

}  // namespace

Group::Group(std::span<const std::unique_ptr<CapturedCall>> calls, bool reasons)
    : reasons_(reasons) {
  const size_t expected = std::min<size_t>(calls.size(), 8);
  calls_.reserve(expected);
  steps_.reserve(expected);
  made_.reserve(expected);
  program_.values.reserve(expected);
  program_.calls.reserve(expected);
  program_.operands.reserve(expected);
  for (const auto& call : calls) {
    if (calls_.size() == kMostCalls) {
      refuse([&] { return fmt::format("a group has at most {} calls", kMostCalls); });
      break;
    }
    if (!add(*call)) break;
  }
  if (calls_.size() < 2) calls_.clear();
}

std::unique_ptr<Group> Group::form(std::span<const std::unique_ptr<CapturedCall>> calls,
                                   bool reasons) {
  if (calls.size() < 2 || !calls[0]->op.describes || !calls[1]->op.describes ||
      !calls[0]->outputs[0].defined() || subject(*calls[0]).numel < least_fused)
    return nullptr;
  auto group = std::make_unique<Group>(calls, reasons);
  return group->size() > 0 ? std::move(group) : nullptr;
}

bool Group::describe_again(size_t i) {
  kernels::TileStep& old = *steps_[i];
  if (old.root || old.update) return true;  // they look at everything when they run
  kernels::TileStep step;
  describe_captured(*calls_[i], step);
  bool same = !old.loop == !step.loop && !old.rows == !step.rows && old.row == step.row &&
              old.out_computed == step.out_computed && old.input_count == step.input_count &&
              old.reduces == step.reduces && !old.fold == !step.fold &&
              (!step.fold || old.fold->shape == step.fold->shape);
  for (size_t k = 0; same && k < step.input_count; ++k) same = old.inputs[k] == step.inputs[k];
  if (same) old = step;
  return same;
}

const Group::Made* Group::made(const Storage* s) const {
  for (auto m = made_.rbegin(); m != made_.rend(); ++m)
    if (m->storage == s) return &*m;
  return nullptr;
}

// A tensor that the group wrote can be read as it was written, and in no other way, but that what
// has one element a row may be repeated along the rows.
bool Group::reads_alike(const TensorImpl& t) const {
  const Made* const m = made(t.storage.get());
  return !m || same_view(*m->view, t) || same_elements(*m->view, t) ||
         (m->row > 0 && spreads_rows(t, *m));
}

// Whether a view has, over the group's shape, the same element all along each row.
bool Group::spreads_rows(const TensorImpl& t, const Made& m) const {
  if (t.dtype != m.view->dtype || t.offset != m.view->offset ||
      !broadcasts_to(t.sizes, program_.shape))
    return false;
  std::vector<int64_t> strides(program_.shape.size());
  broadcast_strides(t, program_.shape, strides.data());
  int64_t inner = 1, outer = 1;
  for (size_t d = strides.size(); d-- > 0;) {
    const int64_t n = program_.shape[d];
    if (n == 1) continue;
    if (inner < m.row) {
      if (strides[d] != 0) return false;
      inner *= n;
    } else {
      if (strides[d] != outer) return false;
      outer *= n;
    }
  }
  return inner == m.row;
}

// Of a call that goes over what has one element a row of the group's: how long that is, else 0.
int64_t Group::row_of(const CapturedCall& call) const {
  if (calls_.empty() || call.output_count != 1 || !call.outputs[0].defined()) return 0;
  const TensorImpl& out = call.outputs[0].impl();
  if (out.sizes == domain_->sizes) return 0;
  for (const Tensor& t : call.inputs) {
    const Made* const m = t.defined() ? made(t.impl().storage.get()) : nullptr;
    if (m && m->row > 0 && out.numel * m->row == domain_->numel) return m->row;
  }
  return 0;
}

bool Group::fits(const CapturedCall& call) {
  const std::string& name = call.op.info->name;
  if (!call.op.describes || call.op.random_count ||
      (call.output_count != 0 && !call.outputs[0].defined()))
    return refuse([&] {
      return fmt::format("{} has no loop that can be fused ({})", name,
                         kOpKindNames[static_cast<size_t>(call.op.kind)]);
    });
  if (!fits_shape(call)) return false;
  if (!(call.output_count == 0 ? fits_update(call) : fits_writes(call))) return false;
  for (const CapturedCall* earlier : calls_)
    if (earlier->op.info->mutates)  // what it changes beside its results
      for (const Storage* s : earlier->writes)
        if (!is_result(*earlier, s) && touches(call, s))
          return refuse(
              [&] { return fmt::format("{} uses what {} changes", name, earlier->op.info->name); });
  for (const Tensor& t : call.inputs)
    if (t.defined() &&
        (!reads_alike(t.impl()) || (!made(t.impl().storage.get()) && !t.impl().storage->data)))
      return refuse(
          [&] { return fmt::format("{} reads what the group made in another way", name); });
  return true;
}

// A call over what has one element a row reads such tensors, and numbers.
bool Group::fits_rows(const CapturedCall& call) const {
  const TensorImpl& out = call.outputs[0].impl();
  if (!out.is_contiguous()) return false;
  for (const Tensor& t : call.inputs) {
    if (!t.defined() || t.impl().sizes.empty()) continue;
    const Made* const m = made(t.impl().storage.get());
    if (m ? m->row != step_row_ || !same_elements(*m->view, t.impl())
          : t.impl().numel != out.numel || !t.impl().is_contiguous())
      return false;
  }
  return true;
}

bool Group::fits_shape(const CapturedCall& call) {
  const std::string& name = call.op.info->name;
  const TensorImpl& out = subject(call);
  step_row_ = row_of(call);
  if (step_row_ > 0)
    return fits_rows(call) ||
           refuse([&] { return fmt::format("{} reads more than statistics of rows", name); });
  if (out.numel < least_fused || out.numel == 0 || out.sizes.empty())
    return refuse([&] {
      return fmt::format("{} has {} elements; groups are made from {} on", name, out.numel,
                         least_fused);
    });
  if (calls_.empty())
    return is_dense(out) ||
           refuse([&] { return fmt::format("what {} goes over has gaps in memory", name); });
  // What follows a product may see its rows in more dims.
  const TensorImpl& first = calls_[0]->outputs[0].impl();
  if (calls_.size() == 1 && has_root() && first.is_contiguous() && out.is_contiguous() &&
      out.numel == first.numel && out.sizes.back() == first.sizes.back())
    return true;
  if (is_reduction(call) && out.is_contiguous() && out.numel == domain_->numel &&
      domain_->is_contiguous())
    return true;  // rows are the same in whatever dims they are seen
  if (!(out.sizes == domain_->sizes))
    return refuse([&] { return fmt::format("{} has sizes {}", name, out.sizes); });
  if (!(out.strides == domain_->strides))
    return refuse(
        [&] { return fmt::format("{} has another layout, strides {}", name, out.strides); });
  return true;
}

// An update changes its arrays while other parts of the group still run: nothing else may use them.
bool Group::fits_update(const CapturedCall& call) {
  const std::string& name = call.op.info->name;
  if (!fuse_updates)
    return refuse([&] { return fmt::format("{} would not hide behind other work", name); });
  const Tensor& by = call.inputs[1];
  if (calls_.empty() || steps_[0]->repeats || !made(by.impl().storage.get()) ||
      !subject(*calls_[0]).is_contiguous())
    return refuse([&] { return fmt::format("{} needs a gradient that the group makes", name); });
  for (const Storage* s : call.writes)
    for (const CapturedCall* other : calls_)
      if (touches(*other, s))
        return refuse([&] { return fmt::format("{} changes what the group uses", name); });
  return true;
}

// What a call of the group reads in another way than a later one writes it would be torn.
bool Group::fits_writes(const CapturedCall& call) {
  const std::string& name = call.op.info->name;
  for (size_t k = 0; k < call.output_count; ++k) {
    if (!call.outputs[k].defined()) continue;
    const TensorImpl& to = call.outputs[k].impl();
    if (!reads_alike(to))
      return refuse([&] { return fmt::format("{} writes a part of what the group made", name); });
    if (!to.storage->data) continue;  // new
    // What the group itself made is made again, too.
    if (has_root() && steps_[0]->repeats && call.in_place && !made(to.storage.get()))
      return refuse([&] {
        return fmt::format("{} may begin again, and {} changes a tensor in place",
                           calls_[0]->op.info->name, name);
      });
    for (const CapturedCall* earlier : calls_)
      for (const Tensor& t : earlier->inputs)
        if (t.defined() && t.impl().storage == to.storage &&
            (!same_view(t.impl(), to) || (has_root() && earlier == calls_[0])))
          return refuse(
              [&] { return fmt::format("{} changes what the group reads in another way", name); });
    for (const Tensor& t : call.inputs)
      if (t.defined() && t.impl().storage == to.storage && !same_view(t.impl(), to))
        return refuse(
            [&] { return fmt::format("{} reads and changes a tensor in two ways", name); });
  }
  return true;
}

// Where a step finds an input: a result of the group, or an operand from outside.
int Group::source_of(const TensorImpl& t, int64_t row) {
  if (const Made* const m = made(t.storage.get())) return m->value;
  const bool number = t.sizes.empty();
  kernels::TileOperand o{address(t), t.dtype, std::vector<int64_t>(program_.shape.size(), 0),
                         number, number ? 0 : row};
  if (!number && row == 0) {
    if (broadcasts_to(t.sizes, program_.shape))
      broadcast_strides(t, program_.shape, o.strides.data());
    else  // a reduction sees the same rows in other dims
      o.strides.assign(program_.strides.begin(), program_.strides.end());
  }
  for (size_t k = 0; k < program_.operands.size(); ++k) {
    const kernels::TileOperand& other = program_.operands[k];
    if (operands_[k]->storage == t.storage && operands_[k]->offset == t.offset &&
        other.dtype == o.dtype && other.strides == o.strides && other.number == o.number &&
        other.row == o.row)
      return -1 - static_cast<int>(k);
  }
  program_.operands.push_back(std::move(o));
  operands_.push_back(&t);
  return -static_cast<int>(program_.operands.size());
}

// Whether the rows of a group end where blocks of the fold do.
bool Group::folds_whole_rows(const kernels::PieceFold::Shape& fold, int64_t row) const {
  if (fold.columns > 1) return fold.columns <= kMostColumns && fold.columns % row == 0;
  return fold.chunk % std::lcm(row, fold.piece) == 0 && fold.count % row == 0;
}

// A fold over all has an order of its own, which the whole group follows.
bool Group::fits_fold(const CapturedCall& call, const kernels::TileStep& step) {
  const std::string& name = call.op.info->name;
  if (has_root())
    return refuse([&] {
      return fmt::format("{} folds over blocks of {}, which come in any order", name,
                         calls_[0]->op.info->name);
    });
  for (size_t i = 0; i < steps_.size(); ++i) {
    const kernels::TileStep& other = *steps_[i];
    const std::string& of = calls_[i]->op.info->name;
    if (step.fold && other.fold && !(step.fold->shape == other.fold->shape))
      return refuse([&] { return fmt::format("{} folds in another order than {}", name, of); });
    const kernels::TileStep &fold = step.fold ? step : other, &rows = step.fold ? other : step;
    if (fold.fold && rows.rows && !folds_whole_rows(fold.fold->shape, rows.row))
      return refuse([&] {
        return fmt::format("{}: rows of {} elements end within blocks of {} that are folded", name,
                           rows.row, fold.fold->shape.piece * fold.fold->shape.columns);
      });
  }
  return true;
}

// What a step gets tile by tile must be there then; what it reaches by an address, whole, before.
bool Group::reads_fit(const CapturedCall& call, const kernels::TileStep& step) {
  const std::string& name = call.op.info->name;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto fed = [&] {
      for (size_t k = 0; k < step.input_count; ++k)
        if (step.inputs[k].number == i) return true;
      return false;
    };
    if (call.inputs[i].defined() && made(call.inputs[i].impl().storage.get()) && !fed())
      return refuse([&] { return fmt::format("{} reads all of what the group makes", name); });
  }
  size_t operands = program_.operands.size();
  for (size_t k = 0; k < step.input_count; ++k) {
    const TensorImpl& t = call.inputs[step.inputs[k].number].impl();
    const Made* const m = made(t.storage.get());
    if (!m) {
      ++operands;
    } else if (m->value < 0) {
      return refuse(
          [&] { return fmt::format("{} reads what is complete when the group is done", name); });
    } else if (m->row > 0 && step_row_ == 0 && (step.update || !spreads_rows(t, *m))) {
      return refuse(
          [&] { return fmt::format("{} reads statistics of rows in another way", name); });
    } else if (m->row == 0 && step_row_ > 0) {
      return refuse([&] { return fmt::format("{} reads more than statistics of rows", name); });
    }
  }
  return operands < kernels::kMaxPlanned || refuse([&] {
           return fmt::format("a group reads at most {} tensors", kernels::kMaxPlanned - 1);
         });
}

// Whether what the op said of itself has a place in the group.
bool Group::tells_loop(const CapturedCall& call, const kernels::TileStep& step) {
  const std::string& name = call.op.info->name;
  const TensorImpl& out = subject(call);
  if (step.root) {
    if (out.numel < kLeastAfterProduct * least_fused)
      return refuse([&] {
        return fmt::format("{} has {} elements; it begins groups from {} on", name, out.numel,
                           kLeastAfterProduct * least_fused);
      });
    return (calls_.empty() && !call.in_place) ||
           refuse([&] { return fmt::format("{} can only begin a group", name); });
  }
  const bool reduces = step.reduces || step.fold;
  if (reduces != is_reduction(call) && !(reduces && out.numel == call.inputs[0].impl().numel))
    return refuse([&] { return fmt::format("{} does not fold along rows or columns here", name); });
  if (step_row_ > 0 && (!step.loop || step.fold))
    return refuse([&] { return fmt::format("{} does not work on statistics of rows", name); });
  if ((!step.loop && !step.rows && !step.update && !step.fold) ||
      (!step.loop && !step.fold && !out.is_contiguous()))
    return refuse([&] { return fmt::format("{} does not work along rows here", name); });
  // A product that fails halfway must not have changed what the program can see.
  if (has_root() && call.in_place && !made(call.outputs[0].impl().storage.get()))
    return refuse([&] { return fmt::format("{} changes a tensor in place", name); });
  if (step.rows && has_root() && (!steps_[0]->whole_rows || step.row != program_.shape.back()))
    return refuse(
        [&] { return fmt::format("{} needs whole rows of {}", name, calls_[0]->op.info->name); });
  if ((step.fold || step.rows) && !fits_fold(call, step)) return false;
  // Results beside the first are those of rows.
  for (size_t k = 1; k < call.output_count; ++k)
    if (call.outputs[k].defined() &&
        ((!step.rows && !step.fold) || k >= kernels::TileStep::kMostOutputs))
      return refuse([&] { return fmt::format("{} has several results", name); });
  return reads_fit(call, step);
}

void Group::add_value(CapturedCall& call, std::unique_ptr<kernels::TileStep> step) {
  const TensorImpl& over = subject(call);
  const int place = static_cast<int>(program_.calls.size());
  if (place == 0) {
    domain_ = &over;
    program_.shape.assign(over.sizes.begin(), over.sizes.end());
    program_.strides.assign(over.strides.begin(), over.strides.end());
  }
  const bool has_value = !step->update && !step->fold;
  kernels::TileCall tile{.step = step.get(), .sources = {}, .value = -1, .row = step_row_};
  if (!step->root)
    for (size_t k = 0; k < step->input_count; ++k) {
      tile.sources[k] = source_of(call.inputs[step->inputs[k].number].impl(), step_row_);
      if (tile.sources[k] >= 0)
        program_.values[static_cast<size_t>(tile.sources[k])].last_use = place;
    }
  for (size_t k = 0; k < call.output_count; ++k) {
    if (!call.outputs[k].defined()) continue;
    const TensorImpl& out = call.outputs[k].impl();
    const bool of_rows = step->rows && (k > 0 || step->reduces);
    const int64_t row = of_rows ? step->row : step_row_;
    int value = -1;
    if (has_value && (k == 0 || step->rows)) {
      value = static_cast<int>(program_.values.size());
      (k == 0 ? tile.value : tile.more[k - 1]) = value;
      program_.values.push_back({out.dtype, nullptr, place, row});
      makers_.push_back({&call, k});
    }
    made_.push_back({out.storage.get(), &out, value, row});
  }
  if (!step->root) program_.calls.push_back(tile);
  // What a step does not read tile by tile, its loop reaches by an address.
  size_t given = 0;
  for (const Tensor& t : call.inputs) given += t.defined() ? 1 : 0;
  holds_addresses_.push_back(!step->root && !step->update && given > step->input_count);
  steps_.push_back(std::move(step));
  calls_.push_back(&call);
}

bool Group::add(CapturedCall& call) {
  if (!fits(call)) return false;
  auto step = std::make_unique<kernels::TileStep>();
  describe_captured(call, *step);
  if (!tells_loop(call, *step)) return false;
  add_value(call, std::move(step));
  return true;
}

// Whether anything but the group's own calls can see the storage.
bool Group::needed_elsewhere(const Storage& s) const {
  if (holders(s) > 0) return true;
  uint32_t own = s.slot.load(std::memory_order_relaxed) != 0 ? 1 : 0;  // the capture's
  for (const CapturedCall* call : calls_) {
    for (const Tensor& t : call->inputs) own += t.defined() && t.impl().storage.get() == &s ? 1 : 0;
    for (size_t k = 0; k < call->output_count; ++k)
      own += call->outputs[k].defined() && call->outputs[k].impl().storage.get() == &s ? 1 : 0;
  }
  return own < s.captured.load(std::memory_order_acquire);
}

// The storages without memory that something outside the group needs; counts the others.
std::vector<Storage*> Group::wanted_storages() {
  unmade_ = unmade_bytes_ = 0;
  std::vector<Storage*> wanted, looked_at;  // a result that is changed in place is there twice
  for (const CapturedCall* call : calls_) {
    for (size_t k = 0; k < call->output_count; ++k) {
      if (!call->outputs[k].defined()) continue;
      Storage& s = *call->outputs[k].impl().storage;
      if (s.data || std::find(looked_at.begin(), looked_at.end(), &s) != looked_at.end()) continue;
      looked_at.push_back(&s);
      if (needed_elsewhere(s) || (k > 0 && has_root() && call == calls_[0])) {
        wanted.push_back(&s);
      } else if (k == 0) {
        ++unmade_;
        unmade_bytes_ += static_cast<int64_t>(s.bytes);
      }
    }
  }
  return wanted;
}

// A result that is written after the root's was read for the last time: until then the root's
// blocks may lie there. Only calls in place write what was there before.
Storage* Group::lender() {
  kernels::TileValue& root = program_.values[0];
  root.lent = false;
  for (const kernels::TileCall& c : program_.calls) {
    if (c.value < 0) continue;
    const size_t v = static_cast<size_t>(c.value);
    const int place = static_cast<int>(&c - program_.calls.data());
    Storage* const s = makers_[v].made().storage.get();
    if (makers_[v].call->in_place || !s->data || program_.values[v].row > 0) continue;
    if (place < root.last_use || program_.values[v].dtype != root.dtype) {
      if (made(s)->value == c.value) continue;
      return nullptr;  // changed again later: rare
    }
    root.lent = place == root.last_use;
    return s;
  }
  return nullptr;
}

// The root's blocks need memory while the group runs, even if nobody reads them afterwards.
void Group::run_root() {
  Storage& s = *calls_[0]->outputs[0].impl().storage;
  struct Lent {
    Storage* storage = nullptr;
    bool own = false;
    ~Lent() {
      if (!storage) return;
      if (own) deallocate(storage->data, storage->bytes, storage->category);
      storage->data = nullptr;
    }
  } lent;
  if (!s.data) {
    lent.storage = &s;
    if (const Storage* const from = lender()) {
      s.data = from->data;
    } else {
      s.data = allocate(s.bytes, s.category);
      lent.own = true;
    }
  }
  program_.values[0].memory = address(calls_[0]->outputs[0].impl());
  const kernels::TileEpilogue epilogue(program_);
  steps_[0]->epilogue = &epilogue;
  const AutoGradMode off(false);
  describe_captured(*calls_[0], *steps_[0]);
}

void Group::run() {
  const std::vector<Storage*> wanted = wanted_storages();
  const profile::FromPlace from(calls_.back()->place);
  GroupWatch watch(calls_, unmade_bytes_);
  for (Storage* s : wanted)  // all of it before anything runs: a failure changes nothing
    s->data = allocate(s->bytes, s->category);
  for (size_t k = 0; k < operands_.size(); ++k) program_.operands[k].data = address(*operands_[k]);
  for (size_t i = 0; i < calls_.size(); ++i)
    if (holds_addresses_[i] && !describe_again(i)) PELLUCID_ASSERT(false);
  for (size_t i = 0; i < makers_.size(); ++i) {
    const TensorImpl& out = makers_[i].made();
    program_.values[i].memory = out.storage->data ? address(out) : nullptr;
  }
  for (size_t i = 0; i < calls_.size(); ++i)
    if (steps_[i]->update) {
      steps_[i]->begins = true;
      describe_captured(*calls_[i], *steps_[i]);
    }
  for (kernels::TileCall& tile : program_.calls) {
    if (!tile.step->fold) continue;
    const CapturedCall& call =
        *calls_[static_cast<size_t>(&tile - program_.calls.data()) + (has_root() ? 1 : 0)];
    for (size_t k = 0; k < tile.folded.size(); ++k) {
      const bool wanted = k < call.output_count && call.outputs[k].defined() &&
                          call.outputs[k].impl().storage->data;
      tile.folded[k] = wanted ? address(call.outputs[k].impl()) : nullptr;
    }
  }
  if (has_root())
    run_root();
  else
    kernels::run_tiles(program_);
  watch.done();
  fused_calls.fetch_add(static_cast<int64_t>(calls_.size()), std::memory_order_relaxed);
}

}  // namespace pellucid::detail
