// A program and what it is bound to: which of its storages are inputs, which belong to tensors that
// exist (parameters), and which it makes anew. For trace() and for sealed functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/program.h"
#include "pellucid/program.h"

namespace pellucid::detail {

/// What a tensor must look like.
struct TensorForm {
  DType dtype = kFloat32;
  Dims sizes, strides;
  int64_t offset = 0;
  bool defined = false;
  TensorForm() = default;
  explicit TensorForm(const Tensor& t);
};

class TracedProgram {
 public:
  /// Of calls that were captured and did not run. `who` begins messages. `keeps`: what is seen
  /// afterwards and not returned stays in its place, and each run writes it again. `before` was
  /// made by an earlier call of the same function; where both differ, all this one can do is to say
  /// so.
  /// `random`: the generator's state before the first call.
  TracedProgram(const char* who, bool keeps, Capture& capture, const Tensors& inputs,
                const Tensors& results, const PhiloxRange& random,
                const TracedProgram* before = nullptr);

  /// Runs it. Inputs are checked against those that it was made with.
  Tensors run(TensorList inputs) const { return run(inputs, checked(inputs)); }
  /// The inputs as it reads them; throws where they are not like those that it was made with.
  Tensors checked(TensorList inputs) const;
  Tensors run(TensorList given, const Tensors& inputs) const;
  /// Whether it still is what the function would do: the tensors that it uses are still those of
  /// the program (p.data = … gives a parameter other memory), gradients exist as they did, and
  /// what it noted (note_assumption) is the same.
  bool fits(TensorList inputs) const;
  /// The last part of that.
  bool assumes_the_same() const;
  /// To be called before the function is traced again: which gradients exist then.
  void note_gradients(TensorList inputs) const;
  /// To be called when the function's own references are gone.
  void note_held();
  /// Throws ValueError where the other, made later by the same function, is another program: it
  /// names the first call that differs, with its line.
  void check_same(const TracedProgram& later) const;

  /// Whether its calls change a tensor that the function makes from values of its own.
  bool changes_constants() const { return changes_constants_; }
  /// A call whose result somebody else keeps: each run would write it again. "" for none.
  std::string kept_result() const;
  size_t input_count() const { return inputs_.size(); }
  const ProgramKey& key() const { return key_; }
  const std::shared_ptr<ReplayProgram>& program() const { return program_; }
  /// As captured and after each pass; passes that changed nothing share one.
  using Stages = std::vector<std::pair<std::string, std::shared_ptr<const ProgramStage>>>;
  const Stages& stages() const { return stages_; }
  std::vector<std::string> names;  ///< of the inputs

 private:
  struct Slot {
    int input = -1;       // which input, or
    Ref<Storage> exists;  // a storage that exists, or neither: made anew, or inside
    bool number = false;  // it holds a number that the function wrote as one
    uint64_t bits = 0;    // its value
    std::shared_ptr<const std::function<Tensor()>> live;  // gives it anew before each run
    int64_t writes = 0;
    bool constant = false;  // made from values of the function's own
    bool held = false;      // somebody beside the program had it when it was made
    uint16_t changed = 0;   // Storage::tensors_changed when the program was made
  };
  /// What is known of a call when another trace is compared.
  struct TracedCall {
    TracedCall(std::string t, ProgramLine l, uint64_t k) : text(std::move(t)), line(l), key(k) {}
    /// With its line.
    std::string described() const;
    std::string text;  // the op, with the dtypes and sizes of its inputs
    ProgramLine line;
    uint64_t key;                   // of the calls up to this one
    std::vector<uint64_t> numbers;  // among its attributes
  };
  /// The first call that reads or writes a storage, as text.
  std::string user_of(size_t storage) const;
  /// A leaf whose gradient a run changes.
  struct Leaf {
    Tensor leaf;
    int input = -1;        // or which input it is
    Ref<Storage> before;   // its gradient, if it had one
    uint64_t hooks = 0;    // what is called when its gradient arrives
    bool cleared = false;  // the function drops a gradient that is there
    // After a run it has none, one that the run made, a copy of one that no call made, or, changed,
    // that from before.
    bool dropped = false;
    int storage = -1;
    TensorForm form;
    Tensor given;
    mutable bool exists_now = false;  // note_gradients()
  };
  void take_gradients(const Capture& capture, const Tensors& inputs, const StorageNumbers& numbers,
                      const TracedProgram* before);
  void check_random(std::span<CapturedCall* const> calls) const;
  const Tensor& leaf_of(const Leaf& leaf, TensorList inputs) const {
    return leaf.input < 0 ? leaf.leaf : inputs[static_cast<size_t>(leaf.input)];
  }
  struct Result {
    int storage = -1;  // -1: undefined, or a tensor that no call used
    int input = -1;    // then: the input whose memory it shows
    TensorForm form;
    Tensor given;           // else
    bool constant = false;  // made from values of the function's own: each run gives a copy
  };
  Tensor prepared(const Tensor& t, size_t i) const;
  void check_distinct(TensorList given, const Tensors& inputs) const;

  const char* who_;
  ProgramKey key_;
  std::shared_ptr<ReplayProgram> program_;
  std::vector<TensorForm> inputs_;
  std::vector<bool> tracked_;     // of a sealed function: whether an input requires a gradient
  std::vector<int> shared_with_;  // the first input in the same memory
  std::vector<Slot> slots_;
  std::vector<Result> results_;
  std::vector<Leaf> leaves_;
  bool changes_constants_ = false;
  std::vector<std::pair<std::function<uint64_t()>, uint64_t>> assumptions_;  // and what they gave
  PhiloxRange random_, random_end_;  // the generator before and after the calls of program_
  std::vector<TracedCall> calls_;
  Stages stages_;
};

/// The nodes of a graph as data.
ProgramStage stage_of(std::string_view name, const graph::Graph& g);

}  // namespace pellucid::detail
