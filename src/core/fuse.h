// Which captured calls run as one: neighbours over one shape, each of which can tell its loop
// (OpDef::describes), or a root (a product, a convolution, batch norm) followed by such neighbours,
// which then run on each block of its result. Results that only calls of the group read get no
// memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/capture.h"
#include "kernels/tiles.h"

namespace pellucid::detail {

/// Calls of fewer elements run one by one: telling costs more than it saves. Tests set it to 0.
inline constexpr int64_t kLeastFused = 4096;
extern int64_t least_fused;
/// Whether optimisers' steps may run in a group with the calls that make their gradient. Off: on
/// the processors measured the arithmetic of a step does not hide behind a product (docs/notes).
extern bool fuse_updates;
/// How many calls of the process ran as part of a group.
extern constinit std::atomic<int64_t> fused_calls;

/// Neighbouring calls that run together.
class Group {
 public:
  /// The longest group that begins with the first of the calls and of which all are to run; empty
  /// where that is less than two. With `reasons` it can tell why it ends.
  Group(std::span<const std::unique_ptr<CapturedCall>> calls, bool reasons);
  /// The same, null where the first call begins no group.
  static std::unique_ptr<Group> form(std::span<const std::unique_ptr<CapturedCall>> calls,
                                     bool reasons);
  /// A number or an attribute of call i changed: asks its kernel again for the loop. False where
  /// the group cannot run so.
  bool describe_again(size_t i);
  size_t size() const { return calls_.size(); }
  /// Whether it begins with a call that makes its result in blocks, such as a product.
  bool has_root() const { return !steps_.empty() && steps_[0]->root; }
  /// Gives memory to what is read outside the group, and runs it. Its tensors may lie elsewhere
  /// than at the last time.
  void run();
  /// Why the call after the group's last one is no part of it, or why there is no group.
  const std::string& end() const { return end_; }
  /// How many results got no memory, and their bytes.
  int64_t unmade() const { return unmade_; }
  int64_t unmade_bytes() const { return unmade_bytes_; }

 private:
  struct Made {
    Storage* storage;
    const TensorImpl* view;  // as it was written; reads must look the same
    int value;               // -1: it is there only when the group is done
    int64_t row;             // as kernels::TileValue's
  };
  struct Maker {
    CapturedCall* call;
    size_t result;
    const TensorImpl& made() const { return call->outputs[result].impl(); }
  };
  bool add(CapturedCall& call);
  bool fits(const CapturedCall& call);
  bool fits_shape(const CapturedCall& call);
  bool fits_rows(const CapturedCall& call) const;
  bool fits_fold(const CapturedCall& call, const kernels::TileStep& step);
  bool folds_whole_rows(const kernels::PieceFold::Shape& fold, int64_t row) const;
  bool reads_fit(const CapturedCall& call, const kernels::TileStep& step);
  int64_t row_of(const CapturedCall& call) const;
  bool fits_writes(const CapturedCall& call);
  bool fits_update(const CapturedCall& call);
  bool tells_loop(const CapturedCall& call, const kernels::TileStep& step);
  void add_value(CapturedCall& call, std::unique_ptr<kernels::TileStep> step);
  template <class Why> bool refuse(const Why& why) {
    if (reasons_) end_ = why();
    return false;
  }
  bool reads_alike(const TensorImpl& t) const;
  bool spreads_rows(const TensorImpl& t, const Made& m) const;
  const Made* made(const Storage* s) const;
  int source_of(const TensorImpl& t, int64_t row);
  bool needed_elsewhere(const Storage& s) const;
  std::vector<Storage*> wanted_storages();
  void run_root();
  Storage* lender();

  std::vector<CapturedCall*> calls_;
  std::vector<Maker> makers_;  // of the program's values
  std::vector<std::unique_ptr<kernels::TileStep>> steps_;
  std::vector<bool> holds_addresses_;  // of each step: it is asked again when tensors moved
  std::vector<Made> made_;
  kernels::TileProgram program_;
  std::vector<const TensorImpl*> operands_;  // of the program's
  const TensorImpl* domain_ = nullptr;       // what the calls go over
  int64_t step_row_ = 0;  // of the call that is looked at: what it goes over, as TileCall's row
  const bool reasons_;
  std::string end_ = "nothing follows";
  int64_t unmade_ = 0, unmade_bytes_ = 0;
};

}  // namespace pellucid::detail
