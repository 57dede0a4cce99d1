// The tokenizer of llama2.c's models. File: int32 length of the longest piece, then for each piece
// float32 score, int32 length, bytes; little-endian.
#include <cmath>
#include <cstring>

#include "data/files.h"
#include "data/merge_pairs.h"
#include "data/utf8.h"
#include "pellucid/data/tokenizers.h"

namespace pellucid::data {
namespace {

constexpr int64_t kFirstByte = 3;  // <unk>, <s>, </s>, then <0x00> to <0xFF>

/// The byte of a piece written <0x41>, or -1.
int byte_of(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : {piece[3], piece[4]}) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

LlamaTokenizer::LlamaTokenizer(const std::string& path, size_t vocab_size) {
  const std::string bytes = read_file("LlamaTokenizer", path);
  size_t at = 0;
  const auto take = [&](void* to, size_t n) {
    PELLUCID_CHECK(bytes.size() - at >= n, IoError,
                   "LlamaTokenizer: {} ends after {} of {} pieces.", path, pieces_.size(),
                   vocab_size);
    std::memcpy(to, bytes.data() + at, n);
    at += n;
  };
  int32_t longest = 0;
  take(&longest, 4);
  for (size_t i = 0; i < vocab_size; ++i) {
    float score = 0;
    int32_t length = 0;
    take(&score, 4);
    take(&length, 4);
    PELLUCID_CHECK(length >= 0 && length <= longest && !std::isnan(score), IoError,
                   "LlamaTokenizer: {}: piece {} has length {} and score {}; the longest has {}.",
                   path, i, length, score, longest);
    std::string piece(static_cast<size_t>(length), '\0');
    take(piece.data(), piece.size());
    ids_.try_emplace(piece, static_cast<int64_t>(i));
    pieces_.push_back(std::move(piece));
    scores_.push_back(score);
  }
  PELLUCID_CHECK(at == bytes.size(), IoError,
                 "LlamaTokenizer: {} has {} bytes after its {} pieces; is the vocabulary larger?",
                 path, bytes.size() - at, vocab_size);
  PELLUCID_CHECK(vocab_size >= kFirstByte + 256, IoError,
                 "LlamaTokenizer: {}: {} pieces leave no room for the 256 bytes.", path,
                 vocab_size);
}

std::vector<int64_t> LlamaTokenizer::encode(std::string_view text) const {
  return encode(text, true, false);
}

std::vector<int64_t> LlamaTokenizer::encode(std::string_view text, bool bos, bool eos) const {
  std::vector<int64_t> ids;
  if (!text.empty()) {  // the pieces were learnt from texts that begin with a space
    const auto space = ids_.find(" ");
    if (space != ids_.end()) ids.push_back(space->second);
  }
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    next_code_point(text, at);
    const auto found = ids_.find(std::string(text.substr(from, at - from)));
    if (found != ids_.end()) {
      ids.push_back(found->second);
      continue;
    }
    for (size_t i = from; i < at; ++i)
      ids.push_back(kFirstByte + static_cast<unsigned char>(text[i]));
  }
  merge_pairs(ids, [&](int64_t left, int64_t right) {
    const auto found =
        ids_.find(pieces_[static_cast<size_t>(left)] + pieces_[static_cast<size_t>(right)]);
    if (found == ids_.end()) return PairMerge{};
    return PairMerge{-static_cast<double>(scores_[static_cast<size_t>(found->second)]),
                     found->second};
  });
  if (bos) ids.insert(ids.begin(), kBos);
  if (eos) ids.push_back(kEos);
  return ids;
}

std::string LlamaTokenizer::piece(int64_t previous, int64_t id) const {
  PELLUCID_CHECK(id >= 0 && id < static_cast<int64_t>(pieces_.size()), IndexError,
                 "LlamaTokenizer: id {} is outside the {} pieces.", id, pieces_.size());
  const std::string& piece = pieces_[static_cast<size_t>(id)];
  if (id == kBos || id == kEos) return {};
  if (const int byte = byte_of(piece); byte >= 0) return {static_cast<char>(byte)};
  return previous == kBos && piece.starts_with(' ') ? piece.substr(1) : piece;
}

std::string LlamaTokenizer::decode(ArrayRef<int64_t> ids) const {
  std::string text;
  int64_t previous = kBos;  // without a beginning, the first space is the one that encode added
  for (const int64_t id : ids) {
    text += piece(previous, id);
    previous = id;
  }
  return text;
}

}  // namespace pellucid::data
