// The threads behind a data loader, and the random numbers of a batch. Ops inside the threads run
// on one thread, so that loading does not take the team of threads from training.
#include "base/parallel.h"
#include "base/philox.h"
#include "base/random.h"
#include "pellucid/data/dataloader.h"

namespace pellucid::data::detail {

WorkerPool::WorkerPool(size_t threads) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void WorkerPool::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void WorkerPool::work(size_t worker) {
  const SerialGuard serial;
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (stop_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job(worker);
  }
}

struct BatchRandomness::Parts {
  explicit Parts(uint64_t seed) : generator(seed), guard(generator) {}
  Generator generator;
  GeneratorGuard guard;
};

namespace {
/// 64 random bits number `counter` of the stream `seed`.
uint64_t random_bits(uint64_t seed, uint64_t counter) {
  const PhiloxBlock block = philox4x32(seed, counter);
  return uint64_t{block[0]} << 32 | block[1];
}
}  // namespace

BatchRandomness::BatchRandomness(uint64_t epoch_seed, uint64_t batch)
    : parts_(std::make_unique<Parts>(random_bits(epoch_seed, batch))) {}
BatchRandomness::~BatchRandomness() = default;

uint64_t draw_epoch_seed() {
  const PhiloxRange range = default_generator().reserve(1);
  return random_bits(range.seed, range.offset);
}

}  // namespace pellucid::data::detail
