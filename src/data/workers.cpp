// The threads behind a data loader, and the random numbers of a batch. Ops inside the threads run
// on one thread, so that loading does not take the team of threads from training.
#include "base/parallel.h"
#include "base/philox.h"
#include "base/random.h"
#include "pellucid/data/dataloader.h"

namespace pellucid::data::detail {
namespace {

void end_threads(std::mutex& mutex, std::condition_variable& wake, bool& stop,
                 std::vector<std::thread>& threads) {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread& t : threads) t.join();
  threads.clear();  // a destructor of one that was not joined would end the process
}

}  // namespace

WorkerPool::WorkerPool(size_t threads) {
  constexpr size_t kMost = 4096;
  PELLUCID_CHECK(threads <= kMost, ValueError, "DataLoader: workers must be at most {}, but is {}.",
                 kMost, threads);
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work(i); });
  } catch (const std::exception& e) {
    const size_t made = threads_.size();
    end_threads(mutex_, wake_, stop_, threads_);
    pellucid::detail::raise<ValueError>(
        "DataLoader: the system gives this process {} of {} workers: {}. Ask for fewer.", made,
        threads, e.what());
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
  }
  end_threads(mutex_, wake_, stop_, threads_);
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
