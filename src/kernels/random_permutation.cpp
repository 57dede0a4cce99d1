// A random permutation after Rao and Sandelius: every number goes to a random bucket, and each
// bucket, small enough for the first-level cache, is shuffled by Fisher and Yates. A number's first
// word chooses its bucket, its second a step of the shuffle, so the result depends on nothing else.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "kernels/random.h"
#include "kernels/random_words.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kChunk = 1024;       // numbers whose words are made at once
constexpr int64_t kBucketSize = 2048;  // about; 16 KiB of numbers
constexpr int kMostBits = 16;

struct Permutation {
  Permutation(int64_t* to, int64_t count, PhiloxRange r) : out(to), n(count), range(r) {
    while (bits < kMostBits && (n >> bits) > kBucketSize) ++bits;
    buckets = int64_t{1} << bits;
    part = (n / 64 / kChunk + 1) * kChunk;
    parts = (n - 1) / part + 1;
    starts.assign(static_cast<size_t>(parts * buckets), 0);
    edges.assign(static_cast<size_t>(buckets) + 1, 0);
    steps.reset(new uint32_t[static_cast<size_t>(n)]);
  }
  int64_t bucket_of(uint32_t word) const { return bits == 0 ? 0 : word >> (32 - bits); }
  /// Calls f(number, its first word, its second) for each number of a part.
  template <class F> void visit(int64_t index, const F& f) const {
    uint32_t words[2 * kChunk];
    for (int64_t first = index * part; first < std::min(n, (index + 1) * part); first += kChunk) {
      const int64_t count = std::min(kChunk, n - first);
      philox_words(range.seed, range.offset + static_cast<uint64_t>(first / 2), (count + 1) / 2,
                   words);
      for (int64_t i = 0; i < count; ++i) f(first + i, words[2 * i], words[2 * i + 1]);
    }
  }
  /// Finds where each part puts its numbers of each bucket.
  void count() {
    parallel_chunks(parts, [&](int64_t p) {
      int64_t* const counts = starts.data() + p * buckets;
      visit(p, [&](int64_t, uint32_t word, uint32_t) { ++counts[bucket_of(word)]; });
    });
    int64_t sum = 0;
    for (int64_t b = 0; b < buckets; ++b) {
      for (int64_t p = 0; p < parts; ++p)
        sum += std::exchange(starts[static_cast<size_t>(p * buckets + b)], sum);
      edges[static_cast<size_t>(b) + 1] = sum;
    }
  }
  void distribute() {
    parallel_chunks(parts, [&](int64_t p) {
      int64_t* const next = starts.data() + p * buckets;
      visit(p, [&](int64_t number, uint32_t word, uint32_t step) {
        const int64_t to = next[bucket_of(word)]++;
        out[to] = number;
        steps[static_cast<size_t>(to)] = step;
      });
    });
  }
  void shuffle() {
    parallel_for(0, buckets, 16, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        int64_t* const bucket = out + edges[static_cast<size_t>(b)];
        const uint32_t* const step = steps.get() + edges[static_cast<size_t>(b)];
        const int64_t size = edges[static_cast<size_t>(b) + 1] - edges[static_cast<size_t>(b)];
        for (int64_t i = size - 1; i > 0; --i)  // a bias below size / 2^32
          std::swap(bucket[i], bucket[uint64_t{step[i]} * static_cast<uint64_t>(i + 1) >> 32]);
      }
    });
  }

  int64_t* out;
  int64_t n;
  PhiloxRange range;
  int bits = 0;
  int64_t buckets, part, parts;
  std::vector<int64_t> starts;  // [part, bucket]
  std::vector<int64_t> edges;   // where buckets begin and end
  std::unique_ptr<uint32_t[]> steps;
};

}  // namespace

void random_permutation(int64_t* out, int64_t n, PhiloxRange range) {
  if (n == 0) return;
  Permutation p(out, n, range);
  p.count();
  p.distribute();
  p.shuffle();
}

}  // namespace pellucid::kernels
