// Batches: the training data of a task, epoch by epoch, whatever the data set's type. The position
// can be saved after any batch.
#pragma once

#include <memory>
#include <optional>

#include "cli/train/options.h"
#include "pellucid/data.h"

namespace pellucid::cli::train {

class Batches {
 public:
  virtual ~Batches() = default;
  /// Starts an epoch, or goes on with the loaded one; the first next() gives its first batch.
  virtual void begin() = 0;
  /// The next batch, valid until the next call; null at the end of the epoch.
  virtual const data::Example<>* next() = 0;
  virtual int64_t examples() const = 0;  ///< of an epoch
  virtual int64_t count() const = 0;     ///< batches of an epoch
  virtual NamedValues state_dict() const = 0;
  virtual void load_state_dict(const NamedValues& values) = 0;
};

namespace detail {

/// Throws ValueError for an empty set and for batches larger than it.
void check_batch_size(int64_t examples, int64_t batch_size);

template <class Dataset> class LoaderBatches final : public Batches {
 public:
  LoaderBatches(Dataset dataset, const TrainOptions& o, bool drop_last)
      : examples_(static_cast<int64_t>(dataset.size().value())), drop_last_(drop_last) {
    check_batch_size(examples_, o.batch_size);
    loader_ = data::make_data_loader(std::move(dataset),
                                     data::DataLoaderOptions(static_cast<size_t>(o.batch_size))
                                         .workers(static_cast<size_t>(o.workers))
                                         .drop_last(drop_last));
  }
  void begin() override { at_.reset(); }
  const data::Example<>* next() override {
    if (at_)
      ++*at_;
    else
      at_ = loader_->begin();
    return *at_ == loader_->end() ? nullptr : &**at_;
  }
  int64_t examples() const override { return drop_last_ ? count() * batch_size() : examples_; }
  int64_t count() const override {
    return (examples_ + (drop_last_ ? 0 : batch_size() - 1)) / batch_size();
  }
  NamedValues state_dict() const override { return loader_->state_dict(); }
  void load_state_dict(const NamedValues& values) override { loader_->load_state_dict(values); }

 private:
  using Loader = data::DataLoader<Dataset, data::samplers::RandomSampler>;
  int64_t batch_size() const { return static_cast<int64_t>(loader_->options().batch_size()); }
  int64_t examples_;
  bool drop_last_;
  std::unique_ptr<Loader> loader_;
  std::optional<typename Loader::Iterator> at_;
};

}  // namespace detail

/// Shuffled batches of a data set that gives stacked examples (`.map(Stack<>())`).
template <class Dataset>
std::unique_ptr<Batches> make_batches(Dataset dataset, const TrainOptions& o,
                                      bool drop_last = false) {
  return std::make_unique<detail::LoaderBatches<Dataset>>(std::move(dataset), o, drop_last);
}

}  // namespace pellucid::cli::train
