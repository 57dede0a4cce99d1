// The Generator's bookkeeping and the process's default generator.
#include "base/random.h"

#include <pthread.h>

#include <random>
#include <utility>

namespace pellucid {

PhiloxRange Generator::reserve(uint64_t blocks) {
  const std::lock_guard lock(mutex_);
  const PhiloxRange range = state_;
  state_.offset += blocks;
  return range;
}

void Generator::manual_seed(uint64_t seed) { set_state({seed, 0}); }

uint64_t Generator::seed() {
  std::random_device entropy;
  const uint64_t high = entropy(), low = entropy();
  const uint64_t value = high << 32 | low;
  manual_seed(value);
  return value;
}

uint64_t Generator::initial_seed() const { return get_state().seed; }

PhiloxRange Generator::get_state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void Generator::set_state(PhiloxRange state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
}

Generator& process_generator() {
  // Never destroyed: static destructors may still draw numbers. Locked across fork, so that a child
  // never finds the mutex held by a thread it does not have.
  static Generator* const generator = [] {
    auto* made = new Generator;
    pthread_atfork([] { process_generator().mutex_.lock(); },
                   [] { process_generator().mutex_.unlock(); },
                   [] { process_generator().mutex_.unlock(); });
    return made;
  }();
  return *generator;
}

namespace {
thread_local Generator* own_generator = nullptr;
}

Generator& default_generator() { return own_generator ? *own_generator : process_generator(); }

GeneratorGuard::GeneratorGuard(Generator& generator) noexcept
    : previous_(std::exchange(own_generator, &generator)) {}

GeneratorGuard::~GeneratorGuard() { own_generator = previous_; }

}  // namespace pellucid
