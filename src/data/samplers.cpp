// The samplers. A permutation is saved as the random numbers it was drawn from.
#include "pellucid/data/samplers.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/random.h"
#include "pellucid/ops.h"

namespace pellucid::data::samplers {
namespace {

/// The index of a saved position, checked against the size.
int64_t saved_index(const NamedValues& values, int64_t size, std::string_view who) {
  const int64_t saved_size = integer_of(values, "size", who);
  const int64_t index = integer_of(values, "index", who);
  PELLUCID_CHECK(saved_size == size, ValueError,
                 "{}: saved over {} examples but this sampler has {}.", who, saved_size, size);
  PELLUCID_CHECK(index >= 0 && index <= size, ValueError, "{}: position {} is outside 0 to {}.",
                 who, index, size);
  return index;
}

}  // namespace

void SequentialSampler::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = *new_size;
  index_ = 0;
}

std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  const size_t n = std::min(batch_size, size_ - index_);
  if (n == 0) return std::nullopt;
  std::vector<size_t> indices(n);
  for (size_t& i : indices) i = index_++;
  return indices;
}

NamedValues SequentialSampler::state_dict() const {
  return {{"index", static_cast<int64_t>(index_)}, {"size", static_cast<int64_t>(size_)}};
}

void SequentialSampler::load_state_dict(const NamedValues& values) {
  index_ = static_cast<size_t>(
      saved_index(values, static_cast<int64_t>(size_), "SequentialSampler::load_state_dict"));
}

RandomSampler::RandomSampler(int64_t size, DType) : size_(size) {}

void RandomSampler::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = static_cast<int64_t>(*new_size);
  const PhiloxRange drawn = default_generator().get_state();
  seed_ = drawn.seed;
  offset_ = drawn.offset;
  order_ = randperm(size_);
  index_ = 0;
}

std::optional<std::vector<size_t>> RandomSampler::next(size_t batch_size) {
  if (!order_.defined()) reset();
  const int64_t n = std::min<int64_t>(static_cast<int64_t>(batch_size), size_ - index_);
  if (n <= 0) return std::nullopt;
  const int64_t* first = order_.const_data_ptr<int64_t>() + index_;
  index_ += n;
  return std::vector<size_t>(first, first + n);
}

NamedValues RandomSampler::state_dict() const {
  return {{"seed", std::bit_cast<int64_t>(seed_)},
          {"offset", std::bit_cast<int64_t>(offset_)},
          {"drawn", order_.defined()},
          {"index", index_},
          {"size", size_}};
}

void RandomSampler::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "RandomSampler::load_state_dict";
  const int64_t index = saved_index(values, size_, who);
  const auto seed = std::bit_cast<uint64_t>(integer_of(values, "seed", who));
  const auto offset = std::bit_cast<uint64_t>(integer_of(values, "offset", who));
  const bool drawn = value_of(values, "drawn", who).scalar().toBool();
  order_ = {};
  if (drawn) {
    const PhiloxRange now = default_generator().get_state();
    default_generator().set_state({seed, offset});
    order_ = randperm(size_);
    default_generator().set_state(now);
  }
  seed_ = seed, offset_ = offset, index_ = index;
}

std::optional<BatchSize> StreamSampler::next(size_t batch_size) {
  const std::optional<std::vector<size_t>> indices = order_.next(batch_size);
  return indices ? std::optional(BatchSize(indices->size())) : std::nullopt;
}

void detail::DistributedOrder::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = *new_size;
  const std::vector<size_t> all = order();
  part_.resize(local_sample_count());
  for (size_t i = 0; i < part_.size(); ++i) part_[i] = all[(rank_ * part_.size() + i) % size_];
  index_ = 0;
  drawn_ = true;
}

std::optional<std::vector<size_t>> detail::DistributedOrder::next(size_t batch_size) {
  if (!drawn_) reset();
  const size_t n = std::min(batch_size, part_.size() - index_);
  if (n == 0) return std::nullopt;
  const auto first = part_.begin() + static_cast<std::ptrdiff_t>(index_);
  index_ += n;
  return std::vector<size_t>(first, first + static_cast<std::ptrdiff_t>(n));
}

NamedValues detail::DistributedOrder::state_dict() const {
  return {{"epoch", static_cast<int64_t>(epoch_)},
          {"index", static_cast<int64_t>(index_)},
          {"size", static_cast<int64_t>(size_)}};
}

void detail::DistributedOrder::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "DistributedSampler::load_state_dict";
  const int64_t index = saved_index(values, static_cast<int64_t>(size_), who);
  epoch_ = static_cast<size_t>(integer_of(values, "epoch", who));
  reset();
  index_ = std::min(static_cast<size_t>(index), part_.size());
}

std::vector<size_t> DistributedRandomSampler::order() const {
  Generator generator(epoch_);
  const GeneratorGuard guard(generator);
  const Tensor drawn = randperm(static_cast<int64_t>(size_));
  const auto* first = drawn.const_data_ptr<int64_t>();
  return {first, first + size_};
}

std::vector<size_t> DistributedSequentialSampler::order() const {
  std::vector<size_t> all(size_);
  std::iota(all.begin(), all.end(), size_t{0});
  return all;
}

}  // namespace pellucid::data::samplers
