// The table of the commands: what the program runs and what the tests of help and errors go over.
#include "cli/commands/commands.h"

namespace pellucid::cli {

const std::vector<const Command*>& command_table() {
  static const std::vector<const Command*> table = {
      &kGraph, &kStep,   &kExplain, &kTime,     &kTrain,   &kGenerate, &kData, &kProfile, &kReport,
      &kDiff,  &kExport, &kView,    &kEstimate, &kAnalyze, &kAnatomy,  &kOps,  &kDoctor};
  return table;
}

}  // namespace pellucid::cli
