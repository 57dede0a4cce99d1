// A language model with its tokenizer, read from a folder. Two kinds of folders are known:
//
//   what `train gpt` writes    config.json (sizes), model.safetensors, and the tokenizer:
//                              characters.txt (every character once, in the order of ids), or
//                              vocab.json and merges.txt (GPT-2's byte pairs)
//   a model of llama2.c        NAME.bin and tokNAME.bin (or tokenizer.bin)
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pellucid/data/tokenizers.h"
#include "pellucid/models/gpt.h"
#include "pellucid/models/language.h"

namespace pellucid::cli {

struct TextModel {
  std::shared_ptr<models::LanguageModel> model;  ///< in eval mode
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::string description;     ///< "GPT with 818,176 parameters"
  std::vector<int64_t> start;  ///< what an empty prompt begins with
  std::vector<int64_t> ends;   ///< tokens after which the text is over

  /// The prompt's ids, at least one.
  std::vector<int64_t> encode(const std::string& prompt) const;
  /// The bytes that `id` adds after `previous`.
  std::string piece(int64_t previous, int64_t id) const;
};

/// Reads a folder; throws IoError where there is none, or where it is not such a model.
TextModel load_text_model(const std::string& folder);

/// The names of all files that save_text_config may write.
std::vector<std::string> text_model_files();
/// What belongs beside model.safetensors: config.json and the tokenizer's files. `vocabulary` is
/// the folder of GPT-2's files, or "" for characters.
void save_text_config(const std::string& folder, const models::GPTOptions& options,
                      const data::Tokenizer& tokenizer, const std::string& vocabulary);

}  // namespace pellucid::cli
