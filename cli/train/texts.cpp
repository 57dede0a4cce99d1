// Reading texts, and cutting them into passages.
#include "cli/train/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/sha256.h"
#include "cli/data/line_stream.h"
#include "cli/data/package.h"
#include "data/files.h"

namespace pellucid::cli::train {
namespace {

constexpr std::string_view kOpening = "“", kClosing = "”", kApostrophe = "’";

bool is_letter(char c) {  // bytes of characters beyond ASCII count as letters
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (static_cast<unsigned char>(c) & 0x80);
}

// Cuts one paragraph; a quotation that its end leaves open ends there.
class Cutter {
 public:
  Cutter(std::vector<Passage>& out, size_t least, size_t most)
      : out_(out), least_(least), most_(most) {}

  void paragraph(std::string_view text) {
    while (!text.empty()) {
      if (text.starts_with(kOpening)) {
        turn(true);
        text.remove_prefix(kOpening.size());
      } else if (text.starts_with(kClosing)) {
        turn(false);
        text.remove_prefix(kClosing.size());
      } else if (text[0] == '"') {
        turn(!spoken_);
        text.remove_prefix(1);
      } else {
        text.remove_prefix(take_word(text));
      }
    }
    end_passage();
    spoken_ = false;
    ++paragraph_;
  }

 private:
  // Ends the passage where the speaker changes.
  void turn(bool spoken) {
    if (spoken == spoken_) return;
    end_passage();
    spoken_ = spoken;
  }

  void end_passage() {
    if (words_.size() >= least_) out_.push_back({std::move(words_), spoken_, paragraph_});
    words_.clear();
  }

  // Adds the word that the text begins with; returns the bytes it takes.
  size_t take_word(std::string_view text) {
    std::string word;
    size_t n = 0;
    while (n < text.size()) {
      const std::string_view rest = text.substr(n);
      if (rest.starts_with(kOpening) || rest.starts_with(kClosing) || rest.starts_with("—")) break;
      if (rest.starts_with(kApostrophe)) {
        word += '\'';
        n += kApostrophe.size();
      } else if (is_letter(rest[0]) || (rest[0] == '\'' && n > 0)) {
        word += static_cast<char>(rest[0] >= 'A' && rest[0] <= 'Z' ? rest[0] - 'A' + 'a' : rest[0]);
        ++n;
      } else {
        break;
      }
    }
    if (n == 0 && text.starts_with("—")) return std::string_view("—").size();
    if (n == 0 && std::string_view(".,;:!?").find(text[0]) != std::string_view::npos)
      word = text[0];
    if (!word.empty()) words_.push_back(std::move(word));
    if (words_.size() == most_) end_passage();
    return std::max<size_t>(n, 1);
  }

  std::vector<Passage>& out_;
  size_t least_, most_, paragraph_ = 0;
  bool spoken_ = false;
  std::vector<std::string> words_;
};

}  // namespace

std::string read_training_text(const std::string& file, const TrainOptions& o, const Say& say) {
  std::string path = file;
  const std::optional<std::string>& data = o.data;
  PELLUCID_CHECK(!path.empty() || !o.data_from_checkpoint || has_files(kTextData, *data), IoError,
                 "the folder {} no longer has the data that the run in {} used: give --data "
                 "or --text.",
                 *data, o.out);
  if (path.empty()) {
    LineStream said(say);
    try {
      path = find_or_fetch(kTextData, data.value_or(""), said) + "/" +
             std::string(kTextData.files[0].name);
    } catch (const IoError& e) {
      throw IoError(fmt::format("{} Give a text of your own with --text FILE.", e.what()));
    }
  }
  say("reading " + path);
  std::string text = pellucid::data::read_file("train", path);
  PELLUCID_CHECK(!text.empty(), ValueError, "train: the text {} is empty.", path);
  return text;
}

const std::string& TextName::setting() const {
  if (known.empty())
    known = file.empty()
                ? "default"
                : fmt::format("{} (SHA-256 {})", file, io::sha256_of_file(file).substr(0, 16));
  return known;
}

std::vector<Passage> passages(std::string_view text, size_t least, size_t most) {
  std::vector<Passage> out;
  Cutter cutter(out, least, most);
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    if (end > 0) cutter.paragraph(text.substr(0, end));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

}  // namespace pellucid::cli::train
