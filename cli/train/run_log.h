// The metrics of a run: metrics.jsonl (every step and every evaluation, with nothing in it that
// depends on time), TensorBoard's event file beside it, and the loss curve drawn from them. The
// state remembers how long both files were, so that a run which goes on cuts off what a killed one
// wrote after its last checkpoint.
#pragma once

#include <memory>
#include <string>

#include "cli/train/run_folder.h"
#include "pellucid/io/metrics.h"
#include "pellucid/named_values.h"

namespace pellucid::cli::train {

class RunLog {
 public:
  /// Opens new files in the folder, and removes the events of a run that ended before its first
  /// checkpoint.
  explicit RunLog(std::string folder) : RunLog(std::move(folder), {}) {}
  /// Goes on with the files of a saved state.
  RunLog(std::string folder, const NamedValues& state);

  void step(int64_t step, int64_t epoch, double loss, double lr);
  /// An evaluation, and the average loss of the epoch it ends.
  void epoch(int64_t step, int64_t epoch, double average_loss, const NamedValues& metrics);
  /// A number that belongs to TensorBoard alone, as the speed does.
  void speed(int64_t step, double samples_per_second);
  void flush();
  /// The run has a checkpoint: it needs no other mark.
  void settled() const { mark_.remove(); }
  /// Syncs both files; the state is then true whatever happens.
  NamedValues synced_state();
  /// Draws loss.svg and loss.png from metrics.jsonl.
  void draw(const std::string& title);

 private:
  std::string folder_;
  RunMark mark_;
  std::unique_ptr<io::SummaryWriter> events_;
  io::JsonLinesWriter lines_;
};

}  // namespace pellucid::cli::train
