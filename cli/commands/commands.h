// The commands of the program `pellucid`, one file each; table.cpp lists them.
#pragma once

#include "cli/app.h"

namespace pellucid::cli {

extern const Command kGraph, kStep, kExplain, kTime, kTrain, kGenerate, kData, kProfile, kReport,
    kDiff, kExport, kView, kEstimate, kAnalyze, kAnatomy, kOps, kDoctor;

/// All of them, in the order of the help.
const std::vector<const Command*>& command_table();

}  // namespace pellucid::cli
