// Samplers: the order in which a loader visits a data set. Their state can be saved in the middle
// of an epoch.
#pragma once

#include <optional>
#include <vector>

#include "pellucid/array_ref.h"
#include "pellucid/named_values.h"

namespace pellucid::serialize {
class OutputArchive;
class InputArchive;
}  // namespace pellucid::serialize

namespace pellucid::data::samplers {

namespace detail {
/// A sampler's state into an archive and out of it (defined with the archives, in src/io).
PELLUCID_API void save_state(serialize::OutputArchive& archive, const NamedValues& state);
PELLUCID_API NamedValues load_state(serialize::InputArchive& archive);
}  // namespace detail

/// Gives the next request for a batch.
template <class BatchRequest = std::vector<size_t>> class Sampler {
 public:
  using BatchRequestType = BatchRequest;
  virtual ~Sampler() = default;
  /// Starts a new epoch, over another size if given.
  virtual void reset(std::optional<size_t> new_size) = 0;
  /// At most batch_size indices; nothing at the end of the epoch.
  virtual std::optional<BatchRequest> next(size_t batch_size) = 0;
  /// The order of this epoch and the position in it; empty for a sampler that cannot be resumed.
  virtual NamedValues state_dict() const { return {}; }
  /// The size comes with the state.
  virtual void load_state_dict(const NamedValues&) {}
  /// The same in an archive, as libtorch's samplers have it.
  virtual void save(serialize::OutputArchive& archive) const {
    detail::save_state(archive, state_dict());
  }
  virtual void load(serialize::InputArchive& archive) {
    load_state_dict(detail::load_state(archive));
  }
};

/// 0, 1, 2…
class PELLUCID_API SequentialSampler : public Sampler<> {
 public:
  explicit SequentialSampler(size_t size) : size_(size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  NamedValues state_dict() const override;
  void load_state_dict(const NamedValues& values) override;
  size_t index() const { return index_; }

 private:
  size_t size_, index_ = 0;
};

/// A random permutation, drawn anew from the default generator at each reset.
class PELLUCID_API RandomSampler : public Sampler<> {
 public:
  /// Indices are int64 whatever the dtype, which is taken for libtorch's sake.
  explicit RandomSampler(int64_t size, DType index_dtype = kInt64);
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  /// Seed and offset from which the permutation is drawn, and the position: a few numbers.
  NamedValues state_dict() const override;
  void load_state_dict(const NamedValues& values) override;
  size_t index() const { return static_cast<size_t>(index_); }

 private:
  /// Before the first epoch there is no order. One that is saved then is drawn from numbers of its
  /// own, so that the default generator stays where it is, and both samplers go on with it.
  void fix_order() const;
  mutable Tensor order_;  ///< int64; undefined before the first reset
  int64_t size_, index_ = 0;
  mutable uint64_t seed_ = 0, offset_ = 0;
};

/// What a stream is asked for: so many examples, whichever come next.
struct BatchSize {
  explicit BatchSize(size_t size) : size_(size) {}
  size_t size() const noexcept { return size_; }
  operator size_t() const noexcept { return size_; }
  size_t size_;
};

/// Requests of `epoch_size` examples in all, for data sets without indices (StreamDataset).
class PELLUCID_API StreamSampler : public Sampler<BatchSize> {
 public:
  explicit StreamSampler(size_t epoch_size) : order_(epoch_size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override { order_.reset(new_size); }
  std::optional<BatchSize> next(size_t batch_size) override;
  NamedValues state_dict() const override { return order_.state_dict(); }
  void load_state_dict(const NamedValues& values) override { order_.load_state_dict(values); }

 private:
  SequentialSampler order_;  ///< counts
};

/// The part of an order that process `rank` of `num_replicas` visits. All parts have the same size:
/// with allow_duplicates the order's first examples come once more to fill up the last part,
/// otherwise the examples that are over are left out.
template <class BatchRequest = std::vector<size_t>>
class DistributedSampler : public Sampler<BatchRequest> {
 public:
  DistributedSampler(size_t size, size_t num_replicas = 1, size_t rank = 0,
                     bool allow_duplicates = true)
      : size_(size), num_replicas_(num_replicas), rank_(rank), allow_duplicates_(allow_duplicates) {
    PELLUCID_CHECK(rank < num_replicas, ValueError,
                   "DistributedSampler: the rank is {} of {} replicas, but they are counted from "
                   "0.",
                   rank, num_replicas);
  }
  /// The epoch decides the order of DistributedRandomSampler: all processes must set the same.
  void set_epoch(size_t epoch) { epoch_ = epoch; }
  size_t epoch() const { return epoch_; }

 protected:
  size_t local_sample_count() const {
    return (size_ + (allow_duplicates_ ? num_replicas_ - 1 : 0)) / num_replicas_;
  }
  size_t size_, num_replicas_, rank_, epoch_ = 0;
  bool allow_duplicates_;
};

namespace detail {
/// What both distributed samplers do with an order.
class PELLUCID_API DistributedOrder : public DistributedSampler<> {
 public:
  using DistributedSampler::DistributedSampler;
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  NamedValues state_dict() const override;
  void load_state_dict(const NamedValues& values) override;
  size_t index() const noexcept { return index_; }

 protected:
  /// The order that all processes share.
  virtual std::vector<size_t> order() const = 0;

 private:
  std::vector<size_t> part_;
  size_t index_ = 0;
  bool drawn_ = false;
};
}  // namespace detail

/// Each process takes its part of a permutation that the epoch decides.
class PELLUCID_API DistributedRandomSampler : public detail::DistributedOrder {
 public:
  using DistributedOrder::DistributedOrder;

 protected:
  std::vector<size_t> order() const override;
};

/// Each process takes a run of neighbouring examples.
class PELLUCID_API DistributedSequentialSampler : public detail::DistributedOrder {
 public:
  using DistributedOrder::DistributedOrder;

 protected:
  std::vector<size_t> order() const override;
};

}  // namespace pellucid::data::samplers
