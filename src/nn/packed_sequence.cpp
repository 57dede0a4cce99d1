// Packing and padding of sequences: both are one selection of rows of the flattened [T * B, …].
#include "pellucid/nn/packed_sequence.h"

#include <algorithm>

#include "pellucid/creation.h"
#include "pellucid/ops.h"

namespace pellucid::nn::utils::rnn {
namespace {

/// The numbers of an integer tensor of one dimension.
std::vector<int64_t> integers(const Tensor& t) {
  const Tensor flat = t.to(kInt64).contiguous();
  const auto* first = flat.const_data_ptr<int64_t>();
  return {first, first + flat.numel()};
}

/// The rows of [T * B, …] that exist, in the packed order.
Tensor packed_rows(const std::vector<int64_t>& batch_sizes) {
  std::vector<int64_t> rows;
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    for (int64_t b = 0; b < batch_sizes[t]; ++b)
      rows.push_back(static_cast<int64_t>(t) * batch_sizes[0] + b);
  return tensor(rows);
}

/// `first` and then the sizes of t from dimension `from` on.
std::vector<int64_t> sizes_after(std::vector<int64_t> first, const Tensor& t, int64_t from) {
  for (int64_t d = from; d < t.dim(); ++d) first.push_back(t.size(d));
  return first;
}

}  // namespace

Tensor invert_permutation(const Tensor& permutation) {
  return permutation.defined() ? argsort(permutation) : Tensor();
}

PackedSequence::PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices,
                               Tensor unsorted_indices)
    : data_(std::move(data)),
      batch_sizes_(std::move(batch_sizes)),
      sorted_indices_(std::move(sorted_indices)),
      unsorted_indices_(std::move(unsorted_indices)) {
  if (!unsorted_indices_.defined()) unsorted_indices_ = invert_permutation(sorted_indices_);
}

PackedSequence PackedSequence::with_data(Tensor data) const {
  PackedSequence other = *this;
  other.data_ = std::move(data);
  return other;
}

PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first,
                                    bool enforce_sorted) {
  PELLUCID_CHECK(input.dim() >= 2, ShapeError,
                 "pack_padded_sequence: the input must have at least 2 dimensions, but is {}.",
                 input.sizes());
  if (batch_first) input = input.transpose(0, 1);
  PELLUCID_CHECK(lengths.dim() == 1 && lengths.numel() == input.size(1), ShapeError,
                 "pack_padded_sequence: there must be one length for each of the {} sequences, but "
                 "lengths is {}.",
                 input.size(1), lengths.sizes());
  Tensor order;
  if (!enforce_sorted) {
    std::tie(lengths, order) = sort(lengths, -1, /*descending=*/true);
    input = input.index_select(1, order);
  }
  const std::vector<int64_t> all = integers(lengths);
  PELLUCID_CHECK(!all.empty() && *std::ranges::min_element(all) > 0, ValueError,
                 "pack_padded_sequence: every length must be at least 1, but they are {}.",
                 IntArrayRef(all));
  PELLUCID_CHECK(*std::ranges::max_element(all) <= input.size(0), ValueError,
                 "pack_padded_sequence: a length of {} is beyond the {} steps of the input.",
                 *std::ranges::max_element(all), input.size(0));
  PELLUCID_CHECK(std::ranges::is_sorted(all, std::greater<>()), ValueError,
                 "pack_padded_sequence: lengths must fall, but are {}. Sort the batch, or pass "
                 "enforce_sorted = false.",
                 IntArrayRef(all));
  std::vector<int64_t> batch_sizes(static_cast<size_t>(all[0]));
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    batch_sizes[t] =
        std::ranges::count_if(all, [&](int64_t n) { return n > static_cast<int64_t>(t); });
  const Tensor rows = input.reshape(sizes_after({input.size(0) * input.size(1)}, input, 2));
  return PackedSequence(rows.index_select(0, packed_rows(batch_sizes)), tensor(batch_sizes), order);
}

std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length) {
  const std::vector<int64_t> batch_sizes = integers(sequence.batch_sizes());
  const auto longest = static_cast<int64_t>(batch_sizes.size());
  const int64_t steps = total_length.value_or(longest), batch = batch_sizes.at(0);
  PELLUCID_CHECK(steps >= longest, ValueError,
                 "pad_packed_sequence: total_length is {} but the longest sequence has {} steps.",
                 steps, longest);
  const Tensor& data = sequence.data();
  Tensor padded = full(sizes_after({steps * batch}, data, 1), padding_value, data.dtype())
                      .index_copy(0, packed_rows(batch_sizes), data)
                      .view(sizes_after({steps, batch}, data, 1));
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b)
    lengths.push_back(std::ranges::count_if(batch_sizes, [&](int64_t n) { return n > b; }));
  Tensor counts = tensor(lengths);
  if (const Tensor& back = sequence.unsorted_indices(); back.defined()) {
    padded = padded.index_select(1, back);
    counts = counts.index_select(0, back);
  }
  return {batch_first ? padded.transpose(0, 1) : padded, counts};
}

std::vector<Tensor> unpad_sequence(const Tensor& padded_sequences, const Tensor& lengths,
                                   bool batch_first) {
  const std::vector<int64_t> steps = integers(lengths);
  const int64_t dim = batch_first ? 0 : 1;
  PELLUCID_CHECK(padded_sequences.dim() >= 2 &&
                     padded_sequences.size(dim) == static_cast<int64_t>(steps.size()),
                 ShapeError, "unpad_sequence: {} lengths were given for sequences of sizes {}.",
                 steps.size(), padded_sequences.sizes());
  std::vector<Tensor> out;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Tensor sequence = padded_sequences.select(dim, static_cast<int64_t>(i));
    out.push_back(sequence.narrow(0, 0, steps[i]));
  }
  return out;
}

std::vector<Tensor> unpack_sequence(const PackedSequence& packed_sequences) {
  const auto [padded, lengths] = pad_packed_sequence(packed_sequences);
  return unpad_sequence(padded, lengths);
}

Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first, double padding_value,
                    std::string_view padding_side) {
  PELLUCID_CHECK(!sequences.empty(), ValueError, "pad_sequence: there are no sequences.");
  PELLUCID_CHECK(padding_side == "right" || padding_side == "left", ValueError,
                 "pad_sequence: padding_side must be \"right\" or \"left\", but is \"{}\".",
                 padding_side);
  int64_t longest = 0;
  for (const Tensor& s : sequences) {
    PELLUCID_CHECK(s.dim() > 0 && s.sizes().slice(1) == sequences[0].sizes().slice(1), ShapeError,
                   "pad_sequence: sequences may differ in their first size alone (sizes {} and "
                   "{}).",
                   sequences[0].sizes(), s.sizes());
    longest = std::max(longest, s.size(0));
  }
  std::vector<Tensor> rows;
  for (const Tensor& s : sequences) {
    const Tensor fill = full(sizes_after({longest - s.size(0)}, s, 1), padding_value, s.dtype());
    rows.push_back(cat(padding_side == "left" ? std::vector{fill, s} : std::vector{s, fill}));
  }
  return stack(rows, batch_first ? 0 : 1);
}

PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted) {
  std::vector<int64_t> lengths;
  for (const Tensor& s : sequences) lengths.push_back(s.dim() > 0 ? s.size(0) : 0);
  return pack_padded_sequence(pad_sequence(sequences), tensor(lengths), false, enforce_sorted);
}

}  // namespace pellucid::nn::utils::rnn
