// Elements are made in chunks of 1024: Philox fills words (random_words.h), a vectorised loop maps
// words to numbers, and a converter stores them. Chunks start at multiples of 1024 elements, so
// threads see the same blocks.
#include "kernels/random.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/lane.h"
#include "kernels/math.h"
#include "kernels/random_words.h"
#include "kernels/reduce_convert.h"
#include "kernels/reduce_lanes.h"
#include "kernels/sort.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kChunk = 1024;  // elements
constexpr int64_t kGrain = 16 * kChunk;

/// uniforms[i] in [0, 1) for i < n, from block `first` on.
[[gnu::always_inline]] inline void uniforms(uint64_t seed, uint64_t first, int64_t n, float* out) {
  uint32_t words[kChunk];
  philox_words(seed, first, (n + 3) / 4, words);
  for (int64_t i = 0; i < n; ++i) out[i] = uniform_float(words[i]);
}
[[gnu::always_inline]] inline void uniforms(uint64_t seed, uint64_t first, int64_t n, double* out) {
  uint32_t words[2 * kChunk];
  philox_words(seed, first, (n + 1) / 2, words);
  for (int64_t i = 0; i < n; ++i) out[i] = uniform_double(words[2 * i], words[2 * i + 1]);
}
/// Rows of so many classes that one task takes.
int64_t rows_per_task(int64_t classes) {
  return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, classes));
}

template <class T> inline constexpr int64_t kPerBlock = sizeof(T) == 8 ? 2 : 4;

/// Calls make(level, first element, n, values) for each chunk and stores the values as `type`.
template <class T, class Make>
void fill_chunks(DType type, void* out, int64_t n, const Make& make) {
  parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) T values[kChunk];
    for (int64_t first = begin; first < end; first += kChunk) {
      const int64_t count = std::min(kChunk, end - first);
      T* to = type == dtype_of<T> ? static_cast<T*>(out) + first : values;
      at_isa([&](auto level) { make(level, first, count, to); });
      if (to == values)
        convert(dtype_of<T>, values, 1, type,
                static_cast<std::byte*>(out) + first * element_size(type), 1, count);
    }
  });
}

/// Runs f with the type that numbers for `type` are made in.
template <class F> void visit_made(DType type, const F& f) {
  type == kFloat64 ? f(double{}) : f(float{});
}

/// Fills with map(level, uniform).
template <class Map>
void fill_mapped(DType type, void* out, int64_t n, PhiloxRange range, const Map& map) {
  visit_made(type, [&](auto zero) {
    using T = decltype(zero);
    fill_chunks<T>(type, out, n, [&](auto level, int64_t first, int64_t count, T* to) {
      uniforms(range.seed, range.offset + static_cast<uint64_t>(first / kPerBlock<T>), count, to);
      map(level, to, count);
    });
  });
}

/// Standard normals in pairs, as normal_pair of base/philox.h has them: 2i and 2i + 1 from uniforms
/// 2i and 2i + 1.
template <Isa I, class T>
[[gnu::always_inline]] inline void to_normals(T* values, int64_t n, T mean, T deviation) {
  using V = Lane<T, I>;
  using Turn = Lane<T, I, LaneMode::Ordinary>;  // an angle below 2 pi
  T radius[kChunk / 2], angle[kChunk / 2];
  const int64_t pairs = n / 2;
  for (int64_t i = 0; i < pairs; ++i) radius[i] = values[2 * i], angle[i] = values[2 * i + 1];
  for (int64_t i = 0; i < pairs; ++i) radius[i] = sqrt(V(-2) * log(V(1) - V(radius[i]))).v;
  for (int64_t i = 0; i < pairs; ++i) {
    const Turn turn(T(2) * std::numbers::pi_v<T> * angle[i]), r(radius[i]);
    radius[i] = (r * cos(turn)).v;
    angle[i] = (r * sin(turn)).v;
  }
  for (int64_t i = 0; i < pairs; ++i)
    values[2 * i] = radius[i] * deviation + mean, values[2 * i + 1] = angle[i] * deviation + mean;
}

/// y = x scaled where the uniform of the word is at least p, else 0.
template <class T>
[[gnu::always_inline]] inline void drop(const T* x, const uint32_t* words, float p, T scale, T* y,
                                        int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = uniform_float(words[i]) >= p ? x[i] * scale : T(0);
}

}  // namespace

void random_uniform(DType type, void* out, int64_t n, PhiloxRange range, double low, double high) {
  fill_mapped(type, out, n, range, [=](auto, auto* to, int64_t count) {
    using T = std::remove_reference_t<decltype(*to)>;
    const T start = static_cast<T>(low), span = static_cast<T>(high - low),
            last = std::nextafter(static_cast<T>(high), start);
    // Rounding may reach high itself, which the interval excludes.
    for (int64_t i = 0; i < count; ++i) {
      const T v = to[i] * span + start;
      to[i] = span > T(0) && v > last ? last : v;
    }
  });
}

void random_normal(DType type, void* out, int64_t n, PhiloxRange range, double mean,
                   double deviation) {
  visit_made(type, [&](auto zero) {
    using T = decltype(zero);
    fill_chunks<T>(type, out, n, [&](auto level, int64_t first, int64_t count, T* to) {
      // An odd last element is the first of a whole pair.
      T values[kChunk];
      const int64_t even = (count + 1) / 2 * 2;
      uniforms(range.seed, range.offset + static_cast<uint64_t>(first / kPerBlock<T>), even,
               values);
      to_normals<level>(values, even, static_cast<T>(mean), static_cast<T>(deviation));
      std::copy_n(values, count, to);
    });
  });
}

void random_exponential(DType type, void* out, int64_t n, PhiloxRange range, double rate) {
  fill_mapped(type, out, n, range, [=](auto level, auto* to, int64_t count) {
    using T = std::remove_reference_t<decltype(*to)>;
    const T scale = static_cast<T>(-1 / rate);
    for (int64_t i = 0; i < count; ++i) to[i] = log(Lane<T, level>(T(1) - to[i])).v * scale;
  });
}

void random_integers(DType type, void* out, int64_t n, PhiloxRange range, int64_t low,
                     int64_t high) {
  const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  fill_chunks<int64_t>(type, out, n, [&](auto, int64_t first, int64_t count, int64_t* to) {
    uint32_t words[2 * kChunk];
    philox_words(range.seed, range.offset + static_cast<uint64_t>(first / 2), (count + 1) / 2,
                 words);
    for (int64_t i = 0; i < count; ++i) {
      // The upper half of a 64 by 64 bit product: a bias below span / 2^64.
      const uint64_t bits = uint64_t{words[2 * i]} << 32 | words[2 * i + 1];
      const auto scaled = static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * span >> 64);
      to[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + scaled);
    }
  });
}

void random_bernoulli(DType type, void* out, int64_t n, PhiloxRange range, double p) {
  const float limit = static_cast<float>(p);
  fill_chunks<float>(type, out, n, [&](auto, int64_t first, int64_t count, float* to) {
    uniforms(range.seed, range.offset + static_cast<uint64_t>(first / 4), count, to);
    for (int64_t i = 0; i < count; ++i) to[i] = to[i] < limit ? 1.0f : 0.0f;
  });
}

void random_bernoulli(DType type, void* out, int64_t n, PhiloxRange range, DType p_type,
                      const void* p) {
  fill_chunks<float>(type, out, n, [&](auto, int64_t first, int64_t count, float* to) {
    float limits[kChunk];
    convert(p_type, static_cast<const std::byte*>(p) + first * element_size(p_type), 1, kFloat32,
            limits, 1, count);
    uniforms(range.seed, range.offset + static_cast<uint64_t>(first / 4), count, to);
    for (int64_t i = 0; i < count; ++i) to[i] = to[i] < limits[i] ? 1.0f : 0.0f;
  });
}

void dropout(DType type, const void* x, void* y, int64_t n, PhiloxRange range, double p) {
  visit_made(type, [&](auto zero) {
    using T = decltype(zero);
    fill_chunks<T>(type, y, n, [&](auto, int64_t first, int64_t count, T* to) {
      T values[kChunk];
      uint32_t words[kChunk];
      const T* from = static_cast<const T*>(x) + first;
      if (type != dtype_of<T>) {
        convert(type, static_cast<const std::byte*>(x) + first * element_size(type), 1, dtype_of<T>,
                values, 1, count);
        from = values;
      }
      philox_words(range.seed, range.offset + static_cast<uint64_t>(first / 4), (count + 3) / 4,
                   words);
      drop(from, words, static_cast<float>(p), static_cast<T>(1 / (1 - p)), to, count);
    });
  });
}

int64_t first_bad_distribution(DType type, const void* p, int64_t rows, int64_t classes,
                               int64_t samples, bool replacement) {
  std::atomic<int64_t> first{rows};
  parallel_for(0, rows, rows_per_task(classes), [&](int64_t begin, int64_t end) {
    double w[kChunk];
    for (int64_t r = begin; r < end; ++r) {
      int64_t bad = 0, positive = 0;
      for (int64_t c = 0; c < classes; c += kChunk) {
        const int64_t n = std::min(kChunk, classes - c);
        convert(type, static_cast<const std::byte*>(p) + (r * classes + c) * element_size(type), 1,
                kFloat64, w, 1, n);
        for (int64_t i = 0; i < n; ++i) {
          bad += static_cast<int64_t>(!(w[i] >= 0 && w[i] <= std::numeric_limits<double>::max()));
          positive += static_cast<int64_t>(w[i] > 0);
        }
      }
      if (bad == 0 && positive != 0 && (replacement || positive >= samples)) continue;
      int64_t known = first.load();
      while (r < known && !first.compare_exchange_weak(known, r)) {}
      return;
    }
  });
  return first < rows ? first.load() : -1;
}

void random_multinomial(DType type, const void* p, int64_t rows, int64_t classes, int64_t samples,
                        bool replacement, PhiloxRange range, int64_t* out) {
  if (classes == 0 || samples == 0) return;
  parallel_for(0, rows, rows_per_task(classes), [&](int64_t begin, int64_t end) {
    std::vector<double> w(static_cast<size_t>(classes));
    for (int64_t r = begin; r < end; ++r) {
      convert(type, static_cast<const std::byte*>(p) + r * classes * element_size(type), 1,
              kFloat64, w.data(), 1, classes);
      int64_t* to = out + r * samples;
      if (replacement) {
        for (int64_t c = 1; c < classes; ++c) w[c] += w[c - 1];
        for (int64_t s = 0; s < samples; ++s) {
          const PhiloxBlock block =
              philox4x32(range.seed, range.offset + static_cast<uint64_t>(r * samples + s));
          const double u = uniform_double(block[0], block[1]) * w.back();
          const auto at = std::upper_bound(w.begin(), w.end(), u);
          // Rounding may make u the whole sum: then the last class of positive weight.
          to[s] = (at == w.end() ? std::lower_bound(w.begin(), w.end(), w.back()) : at) - w.begin();
        }
        continue;
      }
      // The largest of w / exponential noise come first with the right probabilities (Efraimidis
      // and Spirakis).
      const auto base = range.offset + static_cast<uint64_t>(r * ((classes + 1) / 2));
      for (int64_t c = 0; c < classes; ++c) {
        const PhiloxBlock block = philox4x32(range.seed, base + static_cast<uint64_t>(c / 2));
        const double u = uniform_double(block[2 * (c % 2)], block[2 * (c % 2) + 1]);
        w[c] = w[c] > 0 ? w[c] / -std::log1p(-u) : -1;
      }
      const int64_t sizes[1] = {classes}, strides[1] = {1};
      topk({.type = kFloat64,
            .in = w.data(),
            .values = nullptr,
            .indices = to,
            .sizes = sizes,
            .in_strides = strides,
            .out_strides = strides,
            .dim = 0},
           samples, true);
    }
  });
}

}  // namespace pellucid::kernels
