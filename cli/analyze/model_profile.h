// The profile of a model by name or spec: its table of layers, FLOPs, memory, latency forward and
// backward, and what binds it. `pellucid profile MODEL --input 64,784` runs it.
#pragma once

#include "cli/app.h"

namespace pellucid::cli {

/// Whether a word is a model's name or a spec, and not a program to run.
bool is_model(const std::string& word);
struct ModelProfileFlags {
  std::string model, input, machine;
  int64_t batch = 1, sequence = 0, depth = 3;
  bool json = false;
};
/// --input, --batch, --sequence, --depth, --machine and --json, as a group of the help.
void add_model_options(CommandLine& line, ModelProfileFlags& flags, const std::string& group);
/// Measures and prints the profile.
int run_model_profile(const Args& args, const ModelProfileFlags& flags);

}  // namespace pellucid::cli
