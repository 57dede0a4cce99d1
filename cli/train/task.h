// Task: what one kind of training (mnist, gpt…) says about itself. The engine (engine.h) does the
// rest: the loop, the optimiser, progress, checkpoints, signals, metrics and the picture.
//
// A task is one file in tasks/: a class and a record, which the table in tasks.cpp names.
//
//   class MnistTask final : public Task { … };
//   const TaskInfo kMnist{.name = "mnist", …, .make = [] { return make_task<MnistTask>(); }};
//
// The engine calls, in this order: add_options; then, with the default generator freshly seeded
// by --seed, prepare; then model, batches, optimizer, schedule once each; loss for every batch;
// epoch_end after every epoch; finish after the last. A resumed run does the same and then
// loads its checkpoint over it: so all that a run needs must come from the options, the data, the
// generator and the model's parameters and buffers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app.h"
#include "cli/train/batches.h"
#include "cli/train/options.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"

namespace pellucid::cli::train {

/// Where a run stands when a line is due.
struct StepReport {
  int64_t epoch = 0, epochs = 0;   ///< epoch counts from 0
  int64_t batch = 0, batches = 0;  ///< of the epoch; batch counts from 0
  int64_t examples = 0;            ///< of an epoch
  int64_t batch_size = 0;          ///< as asked for; the last batch may be smaller
  int64_t step = 0;                ///< optimiser steps so far, this one counted
  double loss = 0;                 ///< of this batch, before its step
};

/// What an evaluation found: a line for people and the numbers for the metrics file, with names
/// like "test_loss" and "test_accuracy" (a share of 1).
struct Evaluation {
  std::string text;
  NamedValues metrics;
};

/// Messages to the user (standard error): "reading …".
using Say = std::function<void(const std::string& message)>;

class Task {
 public:
  virtual ~Task() = default;

  /// Adds options of the task's own, read into its members: line.add_option("--text", text_, …).
  virtual void add_options(CommandLine& line) { (void)line; }
  /// Those of its own options on which the result depends, by name: kept in the checkpoint, and
  /// compared when a run goes on.
  virtual NamedValues settings() const { return {}; }

  /// The files that finish() writes, beside those of the engine.
  virtual std::vector<std::string> files() const { return {}; }
  /// The files that the options name: none of them is written over.
  virtual std::vector<std::string> inputs() const { return {}; }

  /// Reads the data and makes the model. May draw random numbers. Throws typed errors.
  virtual void prepare(const TrainOptions& options, const Say& say) = 0;
  /// What tells the data from others where the options do not, known after prepare: kept in the
  /// checkpoint, and compared when a run goes on.
  virtual std::string data_mark() const { return ""; }
  virtual nn::Module& model() = 0;
  /// The training data: make_batches(dataset, options) for a data set of stacked examples.
  virtual std::unique_ptr<Batches> batches(const TrainOptions& options) = 0;
  /// The optimiser that the options ask for, over all parameters in one group.
  virtual std::unique_ptr<optim::Optimizer> optimizer(const TrainOptions& options);
  /// The schedule that the options ask for, stepped after every optimiser step; null for a
  /// constant learning rate.
  virtual std::unique_ptr<optim::LRScheduler> schedule(const TrainOptions& options,
                                                       optim::Optimizer& optimizer,
                                                       int64_t total_steps);

  /// The scalar loss of a batch, with gradients; the model is in training mode.
  virtual Tensor loss(const data::Example<>& batch) = 0;
  /// How well the model does at the end of an epoch, with the model in eval mode and gradients
  /// off; an empty text for a task without a test. Calls stop_if_asked() (signals.h) between
  /// batches, so that Ctrl-C need not wait.
  virtual Evaluation evaluate() { return {}; }
  /// Writes what belongs beside the weights (model.safetensors is there already) into the run's
  /// folder, and returns what to print last, such as a sample of text.
  virtual std::string finish(const TrainOptions& options) { return (void)options, ""; }

  // ---- the lines on standard output, each without its newline
  /// Before an epoch; "" for nothing.
  virtual std::string epoch_title(int64_t epoch, int64_t epochs) const;
  /// Every log_interval batches.
  virtual std::string progress_line(const StepReport& report) const;
  /// After an epoch, before what evaluate() says; "" for nothing.
  virtual std::string epoch_summary(double average_loss) const;
};

/// A task as the command line knows it.
struct TaskInfo {
  std::string_view name;
  std::string_view summary;      // one line without a full stop, for the list of tasks
  std::string_view description;  // a paragraph or more, for `train NAME --help`
  std::string_view examples;     // one command a line
  TrainOptions defaults;
  /// The number that the first batch of an epoch has: a line is due where the number is a multiple
  /// of log_interval. 0 as in PyTorch's MNIST example, 1 for tasks that count from 1.
  int64_t first_batch = 1;
  std::unique_ptr<Task> (*make)();
};

template <class T> std::unique_ptr<Task> make_task() { return std::make_unique<T>(); }

extern const TaskInfo kMnist, kTwoLayer, kGpt, kResNet18, kEncoder;

/// The tasks, in the order of the help.
std::span<const TaskInfo* const> all_tasks();
/// The task called `name`; throws UsageError that suggests another.
const TaskInfo& find_task(std::string_view name);

}  // namespace pellucid::cli::train
