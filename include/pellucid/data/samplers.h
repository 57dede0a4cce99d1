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
  Tensor order_;  ///< int64; undefined before the first reset
  int64_t size_, index_ = 0;
  uint64_t seed_ = 0, offset_ = 0;
};

}  // namespace pellucid::data::samplers
