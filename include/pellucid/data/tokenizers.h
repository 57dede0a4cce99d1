// Texts as token ids: characters, GPT-2's byte-pair encoding, and Llama's scored pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pellucid/tensor.h"

namespace pellucid::data {

/// Turns text into ids and back.
class PELLUCID_API Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// Throws IndexError for an id that is not in the vocabulary.
  virtual std::string decode(ArrayRef<int64_t> ids) const = 0;
  virtual size_t vocab_size() const = 0;
  /// The ids as an int64 tensor.
  Tensor encode_tensor(std::string_view text) const;
};

/// One id a character (Unicode code point), numbered in the order of code points.
class PELLUCID_API CharVocabulary : public Tokenizer {
 public:
  /// The characters that occur in `text`, which must be UTF-8.
  explicit CharVocabulary(std::string_view text);
  std::vector<int64_t> encode(std::string_view text) const override;
  std::string decode(ArrayRef<int64_t> ids) const override;
  size_t vocab_size() const override { return characters_.size(); }
  /// All characters in the order of their ids, from which the vocabulary can be made again.
  std::string characters() const;

 private:
  std::vector<std::string> characters_;
  std::unordered_map<uint32_t, int64_t> ids_;
};

/// GPT-2's byte-level byte-pair encoding.
class PELLUCID_API Gpt2Tokenizer : public Tokenizer {
 public:
  /// From vocab.json (or encoder.json) and merges.txt (or vocab.bpe).
  static Gpt2Tokenizer from_files(const std::string& vocab_path, const std::string& merges_path);
  /// From Hugging Face's tokenizer.json.
  static Gpt2Tokenizer from_tokenizer_json(const std::string& path);
  std::vector<int64_t> encode(std::string_view text) const override;
  std::string decode(ArrayRef<int64_t> ids) const override;
  size_t vocab_size() const override { return pieces_.size(); }
  /// The id of a piece, for special ones such as "<|endoftext|>", which encode takes as plain text.
  std::optional<int64_t> id_of(std::string_view piece) const;
  /// The words into which GPT-2's pattern cuts a text before pairs are merged.
  static std::vector<std::string_view> split(std::string_view text);

 private:
  Gpt2Tokenizer() = default;
  void add_piece(const std::string& written, int64_t id, const std::string& path);
  void add_merge(const std::string& left, const std::string& right, const std::string& path);
  void check(const std::string& path) const;
  void encode_word(std::string_view word, std::vector<int64_t>& out) const;
  std::vector<std::string> pieces_;               ///< bytes by id
  std::unordered_map<std::string, int64_t> ids_;  ///< id by bytes
  struct Merge {
    int64_t rank, id;
  };
  std::unordered_map<uint64_t, Merge> merges_;  ///< by (left id, right id)
  int64_t byte_ids_[256] = {};
};

/// The tokenizer of llama2.c's models (tok512.bin, tokenizer.bin): pieces with scores, the best
/// pair merged first; bytes that no piece has become <0x..> pieces.
class PELLUCID_API LlamaTokenizer : public Tokenizer {
 public:
  /// `vocab_size` is the model's; the file must have that many pieces and nothing after them.
  LlamaTokenizer(const std::string& path, size_t vocab_size);
  static constexpr int64_t kBos = 1, kEos = 2;
  std::vector<int64_t> encode(std::string_view text) const override;
  /// With the id of the beginning before, and that of the end after, if asked.
  std::vector<int64_t> encode(std::string_view text, bool bos, bool eos) const;
  std::string decode(ArrayRef<int64_t> ids) const override;
  size_t vocab_size() const override { return pieces_.size(); }
  /// The text of one id after another, for printing while generating.
  std::string piece(int64_t previous, int64_t id) const;

 private:
  std::vector<std::string> pieces_;
  std::vector<float> scores_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace pellucid::data
