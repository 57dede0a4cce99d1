// GPT-2's byte-level byte-pair encoding. The files write bytes as printable characters; here they
// are turned back into bytes at once.
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/files.h"
#include "data/merge_pairs.h"
#include "data/utf8.h"
#include "pellucid/data/tokenizers.h"

namespace pellucid::data {
namespace {

using Json = nlohmann::json;
constexpr size_t kMostPieces = 10'000'000;

/// Which code point the files write for each byte: itself if printable, else 256 and on.
const std::array<uint32_t, 256>& written_bytes() {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    uint32_t others = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable =
          (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
      t[b] = printable ? b : others++;
    }
    return t;
  }();
  return table;
}

/// The bytes of a written piece; a character that stands for no byte stays as it is (special
/// tokens).
std::string bytes_of(std::string_view written) {
  static const std::unordered_map<uint32_t, char> table = [] {
    std::unordered_map<uint32_t, char> t;
    for (size_t b = 0; b < 256; ++b) t[written_bytes()[b]] = static_cast<char>(b);
    return t;
  }();
  std::string bytes;
  for (size_t at = 0; at < written.size();) {
    const uint32_t c = next_code_point(written, at);
    const auto found = table.find(c);
    bytes += found == table.end() ? to_utf8(c) : std::string(1, found->second);
  }
  return bytes;
}

Json parse(const std::string& path) {
  try {
    return Json::parse(read_file("Gpt2Tokenizer", path));
  } catch (const Json::exception& e) {
    pellucid::detail::raise<IoError>("Gpt2Tokenizer: {} is not valid JSON: {}.", path, e.what());
  }
}

uint64_t pair_key(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

/// The length of 's 't 're 've 'm 'll 'd at the beginning of `text`, or 0.
size_t contraction(std::string_view text) {
  for (const std::string_view c : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(c)) return c.size();
  return 0;
}

enum class Class { Letter, Number, Space, Other };
Class class_of(uint32_t c) {
  return is_letter(c)   ? Class::Letter
         : is_number(c) ? Class::Number
         : is_space(c)  ? Class::Space
                        : Class::Other;
}

/// The end of the run of code points of one class that begins at `at`, and where its last begins.
struct Run {
  size_t end, last;
};
Run run_of(std::string_view text, size_t at, Class wanted) {
  Run run{at, at};
  while (run.end < text.size()) {
    size_t after = run.end;
    if (class_of(next_code_point(text, after)) != wanted) break;
    run.last = run.end;
    run.end = after;
  }
  return run;
}

/// The length of the first word of `text`, which is not empty.
size_t first_word(std::string_view text) {
  if (const size_t n = contraction(text)) return n;
  size_t after = 0;
  const uint32_t first = next_code_point(text, after);
  Class kind = class_of(first);
  if (kind != Class::Space) return run_of(text, 0, kind).end;
  if (first == ' ' && after < text.size()) {  // one space belongs to the word behind it
    size_t second = after;
    kind = class_of(next_code_point(text, second));
    if (kind != Class::Space) return run_of(text, after, kind).end;
  }
  const Run spaces = run_of(text, 0, Class::Space);
  // \s+(?!\S): before a word the last white space is left for it.
  return spaces.end == text.size() || spaces.last == 0 ? spaces.end : spaces.last;
}

}  // namespace

std::vector<std::string_view> Gpt2Tokenizer::split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t n = first_word(text);
    words.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return words;
}

void Gpt2Tokenizer::add_piece(const std::string& written, int64_t id, const std::string& path) {
  PELLUCID_CHECK(id >= 0 && id < static_cast<int64_t>(kMostPieces), IoError,
                 "Gpt2Tokenizer: {} gives '{}' the id {}.", path, written, id);
  const auto at = static_cast<size_t>(id);
  if (at >= pieces_.size()) pieces_.resize(at + 1);
  pieces_[at] = bytes_of(written);
  ids_[pieces_[at]] = id;
}

void Gpt2Tokenizer::add_merge(const std::string& left, const std::string& right,
                              const std::string& path) {
  const std::string a = bytes_of(left), b = bytes_of(right);
  const auto i = ids_.find(a), j = ids_.find(b), both = ids_.find(a + b);
  PELLUCID_CHECK(i != ids_.end() && j != ids_.end() && both != ids_.end(), IoError,
                 "Gpt2Tokenizer: {} merges '{}' and '{}', which are not all in the vocabulary.",
                 path, left, right);
  merges_.try_emplace(pair_key(i->second, j->second),
                      Merge{static_cast<int64_t>(merges_.size()), both->second});
}

void Gpt2Tokenizer::check(const std::string& path) const {
  for (size_t b = 0; b < 256; ++b)
    PELLUCID_CHECK(byte_ids_[b] >= 0, IoError,
                   "Gpt2Tokenizer: {} has no piece for the byte {}; it is not a byte-level "
                   "vocabulary.",
                   path, b);
}

namespace {
template <class Ids> void find_bytes(const Ids& ids, int64_t (&byte_ids)[256]) {
  for (size_t b = 0; b < 256; ++b) {
    const auto found = ids.find(std::string(1, static_cast<char>(b)));
    byte_ids[b] = found == ids.end() ? -1 : found->second;
  }
}
}  // namespace

Gpt2Tokenizer Gpt2Tokenizer::from_files(const std::string& vocab_path,
                                        const std::string& merges_path) {
  Gpt2Tokenizer t;
  const Json vocab = parse(vocab_path);
  PELLUCID_CHECK(vocab.is_object(), IoError, "Gpt2Tokenizer: {} is not an object of pieces.",
                 vocab_path);
  for (const auto& [piece, id] : vocab.items()) {
    PELLUCID_CHECK(id.is_number_integer(), IoError, "Gpt2Tokenizer: {}: '{}' has no integer id.",
                   vocab_path, piece);
    t.add_piece(piece, id.get<int64_t>(), vocab_path);
  }
  find_bytes(t.ids_, t.byte_ids_);
  t.check(vocab_path);
  std::istringstream lines(read_file("Gpt2Tokenizer", merges_path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    PELLUCID_CHECK(space != std::string::npos && space > 0 && space + 1 < line.size(), IoError,
                   "Gpt2Tokenizer: {}: '{}' is not a pair of pieces.", merges_path, line);
    t.add_merge(line.substr(0, space), line.substr(space + 1), merges_path);
  }
  return t;
}

Gpt2Tokenizer Gpt2Tokenizer::from_tokenizer_json(const std::string& path) {
  Gpt2Tokenizer t;
  const Json json = parse(path);
  try {
    const Json& model = json.at("model");
    for (const auto& [piece, id] : model.at("vocab").items())
      t.add_piece(piece, id.get<int64_t>(), path);
    if (json.contains("added_tokens"))
      for (const Json& added : json.at("added_tokens"))
        t.add_piece(added.at("content").get<std::string>(), added.at("id").get<int64_t>(), path);
    find_bytes(t.ids_, t.byte_ids_);
    t.check(path);
    for (const Json& merge : model.at("merges")) {
      if (merge.is_array()) {  // newer files write pairs as lists
        t.add_merge(merge.at(0).get<std::string>(), merge.at(1).get<std::string>(), path);
        continue;
      }
      const auto line = merge.get<std::string>();
      const size_t space = line.find(' ');
      PELLUCID_CHECK(space != std::string::npos, IoError,
                     "Gpt2Tokenizer: {}: '{}' is not a pair of pieces.", path, line);
      t.add_merge(line.substr(0, space), line.substr(space + 1), path);
    }
  } catch (const Json::exception& e) {
    pellucid::detail::raise<IoError>("Gpt2Tokenizer: {} is not a byte-pair tokenizer.json: {}.",
                                     path, e.what());
  }
  return t;
}

void Gpt2Tokenizer::encode_word(std::string_view word, std::vector<int64_t>& out) const {
  std::vector<int64_t> ids;
  for (const char c : word) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
  merge_pairs(ids, [&](int64_t left, int64_t right) {
    const auto found = merges_.find(pair_key(left, right));
    if (found == merges_.end()) return PairMerge{};
    return PairMerge{static_cast<double>(found->second.rank), found->second.id};
  });
  out.insert(out.end(), ids.begin(), ids.end());
}

std::vector<int64_t> Gpt2Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  for (const std::string_view word : split(text)) encode_word(word, ids);
  return ids;
}

std::optional<int64_t> Gpt2Tokenizer::id_of(std::string_view piece) const {
  const auto found = ids_.find(std::string(piece));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::string Gpt2Tokenizer::decode(ArrayRef<int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    PELLUCID_CHECK(id >= 0 && id < static_cast<int64_t>(pieces_.size()), IndexError,
                   "Gpt2Tokenizer: id {} is outside the {} pieces.", id, pieces_.size());
    text += pieces_[static_cast<size_t>(id)];
  }
  return text;
}

}  // namespace pellucid::data
