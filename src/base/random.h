// The Generator: a seed and the count of Philox blocks already spent. A random op reserves a range
// of counters, whose length its shape fixes, and computes its numbers from them alone (philox.h).
#pragma once

#include <cstdint>
#include <mutex>

#include "pellucid/api.h"

namespace pellucid {

/// The seed of a program that sets none: PyTorch's default.
inline constexpr uint64_t kDefaultSeed = 67280421310721;

/// A range of counters: block i of it is philox4x32(seed, offset + i).
struct PhiloxRange {
  uint64_t seed = kDefaultSeed;
  uint64_t offset = 0;
  friend bool operator==(const PhiloxRange&, const PhiloxRange&) = default;
};

/// Hands out counters; every member may be called from any thread.
class PELLUCID_API Generator {
 public:
  explicit Generator(uint64_t seed = kDefaultSeed) : state_{seed, 0} {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  /// Takes the next `blocks` counters (of 128 bits each).
  PhiloxRange reserve(uint64_t blocks);
  /// Starts the stream of `seed` from its beginning.
  void manual_seed(uint64_t seed);
  /// Seeds from the system's entropy; returns the seed.
  uint64_t seed();
  /// The seed in use.
  uint64_t initial_seed() const;
  /// Seed and offset, to go on from later.
  PhiloxRange get_state() const;
  void set_state(PhiloxRange state);

 private:
  friend Generator& process_generator();
  mutable std::mutex mutex_;
  PhiloxRange state_;
};

/// The generator of the process.
PELLUCID_API Generator& process_generator();
/// The generator that ops use when none is given: the process's, or what this thread was given.
PELLUCID_API Generator& default_generator();

/// Makes `generator` this thread's default until the end of the scope, so that numbers do not
/// depend on what other threads draw meanwhile (data-loader workers).
class PELLUCID_API GeneratorGuard {
 public:
  explicit GeneratorGuard(Generator& generator) noexcept;
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  Generator* previous_;
};

}  // namespace pellucid
