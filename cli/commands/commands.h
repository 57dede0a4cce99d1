// The commands of the program `pellucid`, one file each; main.cpp puts them into its table.
#pragma once

#include "cli/app.h"

namespace pellucid::cli {

extern const Command kGraph, kStep, kTime, kTrain, kGenerate, kData, kProfile, kReport, kDiff,
    kExport, kEstimate, kAnalyze, kAnatomy, kOps, kDoctor;

}  // namespace pellucid::cli
