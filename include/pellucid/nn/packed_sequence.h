// nn::utils::rnn: sequences of several lengths, as one padded tensor or packed without the padding.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include "pellucid/array_ref.h"
#include "pellucid/tensor.h"

namespace pellucid::nn::utils::rnn {

/// The permutation that undoes the given one; undefined for an undefined one.
PELLUCID_API Tensor invert_permutation(const Tensor& permutation);

/// The steps of several sequences one after another, the longest sequence first. Made by
/// pack_padded_sequence and pack_sequence; recurrent layers take it (forward_with_packed_input).
class PELLUCID_API PackedSequence {
 public:
  explicit PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {},
                          Tensor unsorted_indices = {});
  /// [all steps, …]: first the first step of every sequence, then the second…
  const Tensor& data() const { return data_; }
  /// How many sequences have a step t; int64.
  const Tensor& batch_sizes() const { return batch_sizes_; }
  /// Where each packed sequence stood in the batch; undefined if they were sorted already.
  const Tensor& sorted_indices() const { return sorted_indices_; }
  /// Where each sequence of the batch is packed.
  const Tensor& unsorted_indices() const { return unsorted_indices_; }
  /// The same with other data: one row a step, in the same order.
  PackedSequence with_data(Tensor data) const;
  PackedSequence to(TensorOptions options) const { return with_data(data_.to(options)); }
  PackedSequence cpu() const { return *this; }
  bool is_cuda() const { return false; }

 private:
  Tensor data_, batch_sizes_, sorted_indices_, unsorted_indices_;
};

/// Packs [T, B, …] (or [B, T, …]) without what lies beyond each of the B lengths.
PELLUCID_API PackedSequence pack_padded_sequence(Tensor input, Tensor lengths,
                                                 bool batch_first = false,
                                                 bool enforce_sorted = true);
/// The reverse: the padded tensor in the order before packing, and the lengths.
PELLUCID_API std::tuple<Tensor, Tensor> pad_packed_sequence(
    const PackedSequence& sequence, bool batch_first = false, double padding_value = 0,
    std::optional<int64_t> total_length = std::nullopt);
/// [T_i, …] each to [T, B, …] (or [B, T, …]), filled up with padding_value on the given side.
PELLUCID_API Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first = false,
                                 double padding_value = 0, std::string_view padding_side = "right");
/// The reverse of pad_sequence: sequence i has lengths[i] steps.
PELLUCID_API std::vector<Tensor> unpad_sequence(const Tensor& padded_sequences,
                                                const Tensor& lengths, bool batch_first = false);
/// The list that pack_sequence took.
PELLUCID_API std::vector<Tensor> unpack_sequence(const PackedSequence& packed_sequences);
/// Packs a list of [T_i, …].
PELLUCID_API PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted = true);

}  // namespace pellucid::nn::utils::rnn
