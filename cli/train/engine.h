// The engine of `pellucid train`: the loop around a task, with checkpoints from which a killed run
// goes on bit for bit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/train/run_folder.h"
#include "cli/train/task.h"
#include "pellucid/io/checkpoint.h"

namespace pellucid::cli::train {

/// A run as the command line asks for it.
struct Request {
  const TaskInfo* info = nullptr;
  std::unique_ptr<Task> task;
  TrainOptions options;
  NamedValues given;  ///< the options that were given, by name, for the checkpoint
  std::optional<io::Checkpoint> checkpoint;  ///< to go on from
  bool json = false;
};

/// What decides the result: the task's name, the options of TrainOptions' first block and the
/// task's own.
NamedValues settings_of(const Request& request);

/// Trains; returns the exit code: 0, or 128 and the signal that stopped it.
int run_training(const Args& args, Request request);

}  // namespace pellucid::cli::train
