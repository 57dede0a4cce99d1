// The texts that gpt and encoder learn from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/train/task.h"

namespace pellucid::cli::train {

/// The text of `file`, or, where that is "", the default text from the folder options.data (the
/// default data folder where none is given), fetched if need be. Throws IoError where it cannot be
/// had, ValueError where it is empty.
std::string read_training_text(const std::string& file, const TrainOptions& options,
                               const Say& say);

/// A text as an option of a task.
struct TextName {
  std::string file;  ///< "" for the default text
  /// The file with its checksum, as a setting of a run: a changed text is another text. Read once.
  const std::string& setting() const;
  mutable std::string known = {};  ///< what setting() found
};

/// A passage of a text as words, and whether it was between quotation marks.
struct Passage {
  std::vector<std::string> words;
  bool spoken = false;
  size_t paragraph = 0;  ///< its number, from 0
};

/// Cuts a text at paragraphs and quotation marks (“…” and "…") into passages of `least` to `most`
/// words; a word is a run of letters and apostrophes in lower case, or one punctuation mark. The
/// quotation marks themselves are left out.
std::vector<Passage> passages(std::string_view text, size_t least, size_t most);

}  // namespace pellucid::cli::train
