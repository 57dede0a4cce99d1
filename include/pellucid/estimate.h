// What a program would cost, without running it: under EstimateGuard every op checks its arguments
// and makes its results as always, but results have no memory and no kernel runs. FLOPs, bytes and
// memory are counted instead, so that a model of any size can be built, run forward and backward
// and stepped in the time that its graph takes.
//
//   EstimateGuard estimate;
//   models::GPT model(models::GPTOptions().n_layer(96).n_head(96).n_embd(12288));
//   estimate.phase("forward");
//   Tensor loss = model(zeros({1, 1024}, kInt64)).mean();
//   estimate.phase("backward");
//   loss.backward();
//   estimate.phases()[1].peak.total   // bytes
//
// What needs values (item(), data_ptr(), nonzero()) throws NotImplementedError. 0-dim tensors that
// depend on no such tensor do have values: an optimiser's learning rate and counters. Tensors that
// exist already are not changed, and no random number is drawn.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pellucid/memory_snapshot.h"
#include "pellucid/op.h"

namespace pellucid {

namespace nn {
class Module;
}

/// The work of a call in two columns. `contraction` is what torch.utils.flop_counter counts:
/// products and convolutions without their bias, attention as its products, masked ones included.
/// `other` is all the rest. `total` is what our kernels do: causal attention skips half.
struct FlopSplit {
  double contraction = 0, other = 0, total = 0;
};

/// The split of a call whose outputs are inferred.
PELLUCID_API FlopSplit split_flops(const Call& call);

/// One call of an op that was costed.
struct EstimatedCall {
  const OpDef* op = nullptr;
  /// The innermost module whose forward ran, in backward the one whose forward left the node;
  /// null outside modules.
  const nn::Module* module = nullptr;
  size_t phase = 0;  ///< its place in phases()
  FlopSplit flops;
  double bytes = 0;
  double elements = 0;  ///< of its first output
};

/// A stretch of the estimate that the program named.
struct EstimatedPhase {
  std::string name;
  MemorySnapshot end, peak;
};

/// Estimates on this thread until the end of the scope; guards nest, and the innermost counts.
class PELLUCID_API EstimateGuard {
 public:
  EstimateGuard();
  ~EstimateGuard();
  EstimateGuard(const EstimateGuard&) = delete;
  EstimateGuard& operator=(const EstimateGuard&) = delete;
  static bool is_enabled();

  /// Ends the phase (the first is called "setup") and begins another.
  void phase(std::string name);
  /// Every call so far, in order.
  const std::vector<EstimatedCall>& calls() const;
  /// The phases so far; the last one's `end` is now.
  std::vector<EstimatedPhase> phases() const;
  /// What is alive now.
  MemorySnapshot memory() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace pellucid
