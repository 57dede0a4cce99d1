// Windows of token ids, and the vocabulary of characters.
#include "pellucid/data/datasets/text.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "data/utf8.h"
#include "pellucid/creation.h"
#include "pellucid/data/tokenizers.h"
#include "pellucid/memory.h"
#include "pellucid/ops.h"

namespace pellucid::data {

Tensor Tokenizer::encode_tensor(std::string_view text) const {
  const std::vector<int64_t> ids = encode(text);
  const Tensor t = empty({static_cast<int64_t>(ids.size())}, kInt64);
  if (!ids.empty()) std::memcpy(t.raw_data(), ids.data(), ids.size() * sizeof(int64_t));
  return t;
}

CharVocabulary::CharVocabulary(std::string_view text) {
  std::set<uint32_t> seen;
  for (size_t at = 0; at < text.size();) seen.insert(next_code_point(text, at));
  for (const uint32_t c : seen) {
    ids_[c] = static_cast<int64_t>(characters_.size());
    characters_.push_back(to_utf8(c));
  }
}

std::vector<int64_t> CharVocabulary::encode(std::string_view text) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    const auto found = ids_.find(next_code_point(text, at));
    PELLUCID_CHECK(found != ids_.end(), ValueError,
                   "CharVocabulary: the character '{}' at byte {} is not among the {} known.",
                   text.substr(from, at - from), from, characters_.size());
    ids.push_back(found->second);
  }
  return ids;
}

std::string CharVocabulary::decode(ArrayRef<int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    PELLUCID_CHECK(id >= 0 && id < static_cast<int64_t>(characters_.size()), IndexError,
                   "CharVocabulary: id {} is outside the {} characters.", id, characters_.size());
    text += characters_[static_cast<size_t>(id)];
  }
  return text;
}

std::string CharVocabulary::characters() const {
  std::string all;
  for (const std::string& c : characters_) all += c;
  return all;
}

namespace datasets {

TextDataset::TextDataset(Tensor ids, int64_t length, int64_t stride)
    : ids_(ids.to(kInt64).contiguous()), length_(length), stride_(stride) {
  PELLUCID_CHECK(ids.dim() == 1 && !ids.is_floating_point(), ShapeError,
                 "TextDataset: ids must be a 1-dimensional integer tensor, found {}.",
                 describe(ids));
  PELLUCID_CHECK(length >= 1 && stride >= 1, ValueError,
                 "TextDataset: length and stride must be at least 1, found {} and {}.", length,
                 stride);
  PELLUCID_CHECK(ids.numel() > length, ValueError,
                 "TextDataset: {} ids are too few for windows of {} and their targets.",
                 ids.numel(), length);
  count_ = static_cast<size_t>((ids.numel() - length - 1) / stride + 1);
}

Example<> TextDataset::get(size_t index) {
  detail::check_index("TextDataset", index, count_);
  const int64_t from = static_cast<int64_t>(index) * stride_;
  return {ids_.narrow(0, from, length_), ids_.narrow(0, from + 1, length_)};
}

Example<> TextDataset::get_whole(ArrayRef<size_t> indices, const Normalization& normalization) {
  PELLUCID_CHECK(!normalization.mean.defined(), TypeError,
                 "TextDataset: token ids cannot be normalised.");
  const MemoryCategoryGuard category(MemoryCategory::Data);
  const auto n = static_cast<int64_t>(indices.size());
  const Tensor x = empty({n, length_}, kInt64), y = empty({n, length_}, kInt64);
  const auto* ids = ids_.raw<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    const size_t index = indices[static_cast<size_t>(i)];
    detail::check_index("TextDataset", index, count_);
    const int64_t* from = ids + static_cast<int64_t>(index) * stride_;
    std::copy_n(from, length_, x.raw<int64_t>() + i * length_);
    std::copy_n(from + 1, length_, y.raw<int64_t>() + i * length_);
  }
  return {x, y};
}

}  // namespace datasets
}  // namespace pellucid::data
