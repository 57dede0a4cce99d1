// make_data_loader: batches of a data set in the order of a sampler, made in the loop itself or
// ahead of it by worker threads. Neither the order nor what transforms draw at random depends on
// the workers: each batch has random numbers of its own, given by the epoch's and its place.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "pellucid/arg.h"
#include "pellucid/data/datasets/base.h"
#include "pellucid/data/samplers.h"
#include "pellucid/recorder.h"

namespace pellucid::data {

/// What a loader does; a number stands for the batch size.
struct PELLUCID_API DataLoaderOptions {
  DataLoaderOptions() = default;
  template <std::integral T>
  requires(!std::same_as<T, bool>) DataLoaderOptions(T batch_size)
      : batch_size_(static_cast<size_t>(batch_size)) {
    PELLUCID_CHECK(batch_size > 0, ValueError,
                   "DataLoaderOptions: the batch size must be at least 1, found {}.", batch_size);
  }
  PELLUCID_ARG(size_t, batch_size) = 1;
  PELLUCID_ARG(size_t, workers) = 0;
  /// Batches made ahead; 0 for twice the workers.
  PELLUCID_ARG(size_t, max_jobs) = 0;
  PELLUCID_ARG(bool, enforce_ordering) = true;  ///< kept for libtorch's sake: order is always kept
  PELLUCID_ARG(bool, drop_last) = false;
  /// The longest wait for a worker's batch; none by default.
  PELLUCID_ARG(std::optional<std::chrono::milliseconds>, timeout);
};

namespace detail {

/// Runs jobs on threads of its own; a job is told the number of its thread.
class PELLUCID_API WorkerPool {
 public:
  using Job = std::function<void(size_t worker)>;
  explicit WorkerPool(size_t threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  void submit(Job job);

 private:
  void work(size_t worker);
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

/// The random numbers of one batch, used by this thread's ops until the end of the scope.
class PELLUCID_API BatchRandomness {
 public:
  BatchRandomness(uint64_t epoch_seed, uint64_t batch);
  ~BatchRandomness();
  BatchRandomness(const BatchRandomness&) = delete;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
/// A seed for an epoch, from the default generator.
PELLUCID_API uint64_t draw_epoch_seed();

}  // namespace detail

/// Iterates over batches: `for (auto& batch : *loader)`. One iteration at a time.
template <class Dataset, class Sampler> class DataLoader {
 public:
  using BatchType = typename Dataset::BatchType;
  using BatchRequestType = typename Sampler::BatchRequestType;

  DataLoader(Dataset dataset, Sampler sampler, DataLoaderOptions options)
      : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(options) {
    PELLUCID_CHECK(options_.batch_size() > 0 && options_.batch_size() <= size_t{INT64_MAX},
                   ValueError, "make_data_loader: the batch size must be at least 1, found {}.",
                   static_cast<int64_t>(options_.batch_size()));
    if (options_.max_jobs() == 0) options_.max_jobs(2 * options_.workers());
  }
  DataLoader(const DataLoader&) = delete;
  ~DataLoader() { end_iteration(); }

 private:
  /// What the iterators of one begin() share with the loader.
  struct Iteration {
    DataLoader* loader = nullptr;  ///< null once the loader ended the iteration
    bool valid = true;             ///< false at the end of the epoch
  };

 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    using pointer = BatchType*;
    using reference = BatchType&;
    Iterator() = default;
    BatchType& operator*() const { return *checked(); }
    BatchType* operator->() const { return checked().get(); }
    /// Throws IndexError at the end, ValueError where the loader is gone or has begun another
    /// iteration.
    Iterator& operator++() {
      PELLUCID_CHECK(iteration_ && iteration_->valid, IndexError,
                     "DataLoader: ++ on an iterator that is past the end.");
      take();
      return *this;
    }
    bool operator==(const Iterator& o) const {
      return batch_ == o.batch_ && (!batch_ || iteration_ == o.iteration_);
    }
    bool operator!=(const Iterator& o) const { return !(*this == o); }

   private:
    friend class DataLoader;
    explicit Iterator(std::shared_ptr<Iteration> iteration) : iteration_(std::move(iteration)) {
      take();
    }
    void take() {
      DataLoader* const loader = iteration_->loader;
      PELLUCID_CHECK(loader != nullptr, ValueError,
                     "DataLoader: this iterator's loader is gone or has begun another iteration; "
                     "keep the loader, and use the newest begin().");
      batch_ = loader->next();
      if (!batch_) iteration_->valid = false;
    }
    const std::shared_ptr<BatchType>& checked() const {
      PELLUCID_CHECK(batch_ != nullptr, IndexError,
                     "DataLoader: an iterator that is past the end has no batch.");
      return batch_;
    }
    std::shared_ptr<Iteration> iteration_;
    std::shared_ptr<BatchType> batch_;
  };

  /// Starts an epoch; after load_state_dict goes on with the saved one.
  Iterator begin() {
    abandon();
    if (!resumed_) {
      sampler_.reset(std::nullopt);
      epoch_ = sampler_.state_dict();
      epoch_seed_ = detail::draw_epoch_seed();
      delivered_ = 0;
    }
    requested_ = delivered_;
    resumed_ = false;
    exhausted_ = false;
    in_epoch_ = true;
    iteration_ = std::make_shared<Iteration>(Iteration{this});
    return Iterator(iteration_);
  }
  Iterator end() { return {}; }
  void join() { abandon(); }
  const DataLoaderOptions& options() const { return options_; }

  /// The order of the present epoch and the number of batches that the loop has taken from it.
  NamedValues state_dict() const {
    NamedValues values{{"in_epoch", in_epoch_},
                       {"batches", static_cast<int64_t>(delivered_)},
                       {"seed", static_cast<int64_t>(epoch_seed_)},
                       {"batch_size", static_cast<int64_t>(options_.batch_size())}};
    add_part(values, "sampler", epoch_.empty() ? sampler_.state_dict() : epoch_);
    return values;
  }
  /// The next iteration goes on after the batches that were taken when the state was saved.
  void load_state_dict(const NamedValues& values) {
    constexpr std::string_view who = "DataLoader::load_state_dict";
    const int64_t batches = integer_of(values, "batches", who);
    const int64_t batch_size = integer_of(values, "batch_size", who);
    PELLUCID_CHECK(batches >= 0 && batch_size == static_cast<int64_t>(options_.batch_size()),
                   ValueError, "{}: saved with batch size {} but this loader has {}.", who,
                   batch_size, options_.batch_size());
    const bool in_epoch = value_of(values, "in_epoch", who).scalar().toBool();
    const auto seed = static_cast<uint64_t>(integer_of(values, "seed", who));
    const NamedValues order = part_of(values, "sampler"), own = sampler_.state_dict();
    if (find_value(own, "size") && find_value(order, "size")) {
      const int64_t saved = integer_of(order, "size", who), size = integer_of(own, "size", who);
      PELLUCID_CHECK(saved == size, ValueError,
                     "{}: saved over {} examples but this loader has {}.", who, saved, size);
    }
    abandon();
    sampler_.load_state_dict(order);
    epoch_seed_ = seed;
    epoch_ = sampler_.state_dict();
    delivered_ = static_cast<size_t>(batches);
    for (int64_t i = 0; i < batches; ++i)
      if (!sampler_.next(options_.batch_size())) break;
    resumed_ = in_epoch_ = in_epoch;  // between epochs the next one is drawn anew
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::condition_variable ready;
    bool done = false;
    std::shared_ptr<BatchType> batch;
    std::exception_ptr error;
  };

  std::optional<BatchRequestType> next_request() {
    if (exhausted_) return std::nullopt;
    std::optional<BatchRequestType> request = sampler_.next(options_.batch_size());
    if (!request || (options_.drop_last() && request->size() < options_.batch_size())) {
      exhausted_ = true;
      return std::nullopt;
    }
    return request;
  }

  /// The next batch; null at the end of the epoch.
  std::shared_ptr<BatchType> next() {
    const RecordFunction scope("DataLoader.next", profile::EventKind::Wait);
    std::shared_ptr<BatchType> batch = options_.workers() == 0 ? made_here() : made_ahead();
    if (batch)
      ++delivered_;
    else
      in_epoch_ = false;
    return batch;
  }

  std::shared_ptr<BatchType> made_here() {
    const std::optional<BatchRequestType> request = next_request();
    if (!request) return nullptr;
    const detail::BatchRandomness random(epoch_seed_, requested_++);
    return std::make_shared<BatchType>(dataset_.get_batch(*request));
  }

  std::shared_ptr<BatchType> made_ahead() {
    if (copies_.empty()) copies_.assign(options_.workers(), dataset_);
    if (!pool_) pool_ = std::make_unique<detail::WorkerPool>(options_.workers());
    while (waiting_.size() < options_.max_jobs()) {
      std::optional<BatchRequestType> request = next_request();
      if (!request) break;
      submit(std::move(*request));
    }
    if (waiting_.empty()) return nullptr;
    const std::shared_ptr<Slot> slot = waiting_.front();
    std::unique_lock lock(slot->mutex);
    const auto done = [&] { return slot->done; };
    if (const auto limit = options_.timeout())
      PELLUCID_CHECK(slot->ready.wait_for(lock, *limit, done), IoError,
                     "DataLoader: a batch took longer than the timeout of {} ms.", limit->count());
    else
      slot->ready.wait(lock, done);
    waiting_.pop_front();
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(slot->batch);
  }

  void submit(BatchRequestType request) {
    auto slot = std::make_shared<Slot>();
    waiting_.push_back(slot);
    pool_->submit([this, slot, request = std::move(request), seed = epoch_seed_,
                   number = requested_++](size_t worker) {
      std::shared_ptr<BatchType> batch;
      std::exception_ptr error;
      try {
        const detail::BatchRandomness random(seed, number);
        batch = std::make_shared<BatchType>(copies_[worker].get_batch(request));
      } catch (...) { error = std::current_exception(); }
      const std::lock_guard lock(slot->mutex);
      slot->batch = std::move(batch);
      slot->error = error;
      slot->done = true;
      slot->ready.notify_all();
    });
  }

  void end_iteration() {
    if (iteration_) iteration_->loader = nullptr;
    iteration_.reset();
  }

  /// Ends what an earlier iteration left under way.
  void abandon() {
    end_iteration();
    pool_.reset();
    waiting_.clear();
  }

  Dataset dataset_;
  std::vector<Dataset> copies_;  ///< one a worker, as in libtorch; tensors in them are shared
  Sampler sampler_;
  DataLoaderOptions options_;
  NamedValues epoch_;
  uint64_t epoch_seed_ = 0;
  size_t delivered_ = 0, requested_ = 0;  ///< batches of the epoch: taken by the loop, asked for
  bool resumed_ = false, exhausted_ = false, in_epoch_ = false;
  std::shared_ptr<Iteration> iteration_;
  std::deque<std::shared_ptr<Slot>> waiting_;
  std::unique_ptr<detail::WorkerPool> pool_;
};

/// A loader with the given sampler.
template <class Dataset, class Sampler>
requires(!std::is_convertible_v<Sampler, DataLoaderOptions>)
    std::unique_ptr<DataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset, Sampler sampler,
                                                                   DataLoaderOptions options = {}) {
  return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), std::move(sampler),
                                                        options);
}

/// A loader with a sampler of the given kind over the whole data set; random by default.
template <class Sampler = samplers::RandomSampler, class Dataset>
std::unique_ptr<DataLoader<Dataset, Sampler>> make_data_loader(Dataset dataset,
                                                               DataLoaderOptions options = {}) {
  const std::optional<size_t> size = dataset.size();
  PELLUCID_CHECK(size, ValueError,
                 "make_data_loader: the data set has no size; give a sampler that needs none.");
  return std::make_unique<DataLoader<Dataset, Sampler>>(std::move(dataset), Sampler(*size),
                                                        options);
}

}  // namespace pellucid::data
