// The samplers. A permutation is saved as the random numbers it was drawn from.
#include "pellucid/data/samplers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>

#include "base/random.h"
#include "pellucid/ops.h"

namespace pellucid::data::samplers {
namespace {

/// A saved size and the position in it.
struct Saved {
  int64_t size, index;
};
Saved saved_position(const NamedValues& values, std::string_view who) {
  const Saved saved{integer_of(values, "size", who), integer_of(values, "index", who)};
  PELLUCID_CHECK(saved.size >= 0 && saved.index >= 0 && saved.index <= saved.size, ValueError,
                 "{}: position {} is outside 0 to {}.", who, saved.index, saved.size);
  return saved;
}

/// The permutation that the random numbers from a seed and an offset on give.
Tensor permutation(int64_t size, PhiloxRange from) {
  Generator generator;
  generator.set_state(from);
  const GeneratorGuard guard(generator);
  return randperm(size);
}

/// How many of the indices that are left the next request gets; nothing at the end.
std::optional<size_t> take(size_t batch_size, size_t size, size_t index) {
  if (index >= size) return std::nullopt;
  return std::min(batch_size, size - index);
}

}  // namespace

void SequentialSampler::reset(std::optional<size_t> new_size) {
  if (new_size) size_ = *new_size;
  index_ = 0;
}

std::optional<std::vector<size_t>> SequentialSampler::next(size_t batch_size) {
  const std::optional<size_t> n = take(batch_size, size_, index_);
  if (!n) return std::nullopt;
  std::vector<size_t> indices(*n);
  for (size_t& i : indices) i = index_++;
  return indices;
}

NamedValues SequentialSampler::state_dict() const {
  return {{"index", static_cast<int64_t>(index_)}, {"size", static_cast<int64_t>(size_)}};
}

void SequentialSampler::load_state_dict(const NamedValues& values) {
  const Saved saved = saved_position(values, "SequentialSampler::load_state_dict");
  size_ = static_cast<size_t>(saved.size);
  index_ = static_cast<size_t>(saved.index);
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
  const std::optional<size_t> n =
      take(batch_size, static_cast<size_t>(size_), static_cast<size_t>(index_));
  if (!n) return std::nullopt;
  const int64_t* first = order_.const_data_ptr<int64_t>() + index_;
  index_ += static_cast<int64_t>(*n);
  return std::vector<size_t>(first, first + *n);
}

void RandomSampler::fix_order() const {
  if (order_.defined()) return;
  const PhiloxRange now = default_generator().get_state();
  std::seed_seq words{static_cast<uint32_t>(now.seed), static_cast<uint32_t>(now.seed >> 32),
                      static_cast<uint32_t>(now.offset), static_cast<uint32_t>(now.offset >> 32)};
  std::array<uint32_t, 2> mixed{};
  words.generate(mixed.begin(), mixed.end());
  seed_ = mixed[0] | static_cast<uint64_t>(mixed[1]) << 32;
  offset_ = 0;
  order_ = permutation(size_, {seed_, offset_});
}

NamedValues RandomSampler::state_dict() const {
  fix_order();
  return {{"seed", std::bit_cast<int64_t>(seed_)},
          {"offset", std::bit_cast<int64_t>(offset_)},
          {"drawn", order_.defined()},
          {"index", index_},
          {"size", size_}};
}

void RandomSampler::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "RandomSampler::load_state_dict";
  const Saved saved = saved_position(values, who);
  const auto seed = std::bit_cast<uint64_t>(integer_of(values, "seed", who));
  const auto offset = std::bit_cast<uint64_t>(integer_of(values, "offset", who));
  const bool drawn = value_of(values, "drawn", who).scalar().toBool();
  order_ = drawn ? permutation(saved.size, {seed, offset}) : Tensor();
  size_ = saved.size, index_ = saved.index;
  seed_ = seed, offset_ = offset;
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
  const std::optional<size_t> n = take(batch_size, part_.size(), index_);
  if (!n) return std::nullopt;
  const auto first = part_.begin() + static_cast<std::ptrdiff_t>(index_);
  index_ += *n;
  return std::vector<size_t>(first, first + static_cast<std::ptrdiff_t>(*n));
}

NamedValues detail::DistributedOrder::state_dict() const {
  return {{"epoch", static_cast<int64_t>(epoch_)},
          {"index", static_cast<int64_t>(index_)},
          {"size", static_cast<int64_t>(size_)}};
}

void detail::DistributedOrder::load_state_dict(const NamedValues& values) {
  constexpr std::string_view who = "DistributedSampler::load_state_dict";
  const Saved saved = saved_position(values, who);
  epoch_ = static_cast<size_t>(integer_of(values, "epoch", who));
  reset(static_cast<size_t>(saved.size));
  index_ = std::min(static_cast<size_t>(saved.index), part_.size());
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
