// Models by name or by spec: "resnet18", "gpt2-xl", 'Sequential(Linear(784,128), ReLU())'. A spec
// is written as Python prints a module, with the arguments of torch.nn; positional or by name. What
// repeats is written once: 12 * Sequential(Linear(768,3072), GELU(), Linear(3072,768)).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pellucid/analyze.h"

namespace pellucid::cli {

/// A model with what is needed to run it.
struct MadeModel {
  std::string name;
  nn::AnyModule module;
  std::vector<int64_t> sample;  ///< sizes of one input without the batch; empty where unknown
  int64_t vocabulary = 0;       ///< of models that read tokens; 0 for others
  LossFunction loss;            ///< what training would minimise, with targets of zero
};

/// The model of a name or a spec. `sequence` is the length for models that read tokens, 0 for their
/// own longest. Throws ExprError with a caret for a mistake in a spec.
MadeModel make_model(const std::string& spec, int64_t sequence = 0);
/// The names that make_model knows.
std::vector<std::string> model_names();
/// An input for the model: tokens, or normally distributed numbers.
Tensor make_input(const MadeModel& model, const std::vector<int64_t>& sizes);
/// The sizes "64,784"; throws UsageError that begins with `option`.
std::vector<int64_t> read_sizes(const std::string& text, std::string_view option);

/// The layers that a spec may name, for the help.
std::vector<std::string> layer_names();
/// The module of a spec alone.
nn::AnyModule parse_module(const std::string& spec);

}  // namespace pellucid::cli
