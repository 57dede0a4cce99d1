// What `pellucid train` was asked for, after a task's defaults have filled the gaps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pellucid::cli::train {

/// The settings of a run. Those of the first block decide every bit of the result: they are kept in
/// the checkpoint and cannot change when a run goes on.
struct TrainOptions {
  int64_t batch_size = 64;
  double lr = 1e-3;
  std::string optimizer = "adam";  ///< sgd, adam, adamw, rmsprop or adagrad
  double momentum = 0;             ///< of sgd and rmsprop
  double weight_decay = 0;
  double clip_norm = 0;  ///< gradients are clipped to this norm; 0 for never
  std::string schedule =
      "constant";      ///< constant, linear or cosine: how the learning rate falls to 0
  int64_t warmup = 0;  ///< steps in which the learning rate rises from near 0
  uint64_t seed = 1;

  int64_t epochs = 1;
  bool compile = false;       ///< steps are captured where that is faster; the bits are the same
  int64_t workers = 0;        ///< threads that make batches ahead
  int64_t log_interval = 10;  ///< batches from one line to the next
  int64_t save_every = 500;   ///< steps from one checkpoint to the next; 0: only at epochs' ends
  std::optional<std::string> data;    ///< --data, as given
  bool data_from_checkpoint = false;  ///< not by this call: nothing is fetched into that folder
  std::string out;                    ///< the run's folder; exists when a task is prepared
};

}  // namespace pellucid::cli::train
