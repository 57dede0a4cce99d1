// The profile of a model by name or spec: its table of layers, FLOPs, memory, latency forward and
// backward, and what binds it. `pellucid profile MODEL --input 64,784` runs it.
#pragma once

#include "cli/app.h"

namespace pellucid::cli {

/// Whether a word is a model's name or a spec, and not a program to run.
bool is_model(const std::string& word);
/// Reads MODEL [--input SIZES] [--batch N] [--sequence T] [--depth N] [--machine RATES] [--json]
/// and prints the profile.
int run_model_profile(const Args& args);

}  // namespace pellucid::cli
