// Work is cut so that two threads never write the same destination: by columns of the
// rows that are moved. Within a piece, indices are taken in order.
#include "kernels/index.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/parallel.h"
#include "kernels/index_values.h"
#include "kernels/reduce_convert.h"
#include "kernels/scan_lines.h"

namespace pellucid::kernels {
namespace {

/// The same for all rows, by all threads.
bool all_within(const int64_t* index, const Lines<1>& rows, int64_t least, int64_t limit) {
  if (rows.length == 0) return true;
  std::atomic<bool> good{true};
  const int64_t pieces = (rows.length - 1) / kTaskElements + 1, step = rows.step[0];
  parallel_for(0, rows.count * pieces, per_task(rows.length), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t % pieces * kTaskElements,
                    n = std::min(kTaskElements, rows.length - first);
      const int64_t* line = index + rows.start(t / pieces)[0] + first * step;
      if (!within(line, n, step, least, limit)) good.store(false, std::memory_order_relaxed);
    }
  });
  return good.load(std::memory_order_relaxed);
}

/// Calls f(i, self offset, other offset) over a few dims.
struct Block {
  IntArrayRef sizes, self, other;
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t s : sizes) n *= s;
    return n;
  }
  std::array<int64_t, 2> offsets(int64_t i) const {
    int64_t a = 0, b = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      const int64_t at = i % sizes[d];
      i /= sizes[d];
      a += at * self[d];
      b += at * other[d];
    }
    return {a, b};
  }
};

/// Calls move(self offset, other offset, n) for runs of n elements that lie side by side in both:
/// whole rows where the dims beside the indexed ones are dense, else one by one. Parallel over the
/// positions if `free_order`, else over the elements beside them, with the positions in order.
template <class Move> void for_indexed(const IndexArgs& a, bool free_order, const Move& move) {
  const Block outer{a.outer_sizes, a.outer_self, a.outer_other},
      inner{a.inner_sizes, a.inner_self, a.inner_other};
  const int64_t outers = outer.count(), inners = inner.count();
  if (outers * inners * a.n == 0) return;
  std::vector<std::array<int64_t, 2>> inside(static_cast<size_t>(inners));
  bool dense = true;
  for (int64_t i = 0; i < inners; ++i) {
    inside[static_cast<size_t>(i)] = inner.offsets(i);
    dense &= inside[static_cast<size_t>(i)] == std::array{i, i};
  }
  const auto run = [&](int64_t self, int64_t other, int64_t first, int64_t last) {
    if (dense) return move(self + first, other + first, last - first);
    for (int64_t i = first; i < last; ++i) {
      const auto [in_self, in_other] = inside[static_cast<size_t>(i)];
      move(self + in_self, other + in_other, 1);
    }
  };
  if (free_order) {
    parallel_for(0, outers * a.n, per_task(inners), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto [self, other] = outer.offsets(t / a.n);
        const int64_t p = t % a.n;
        run(self + a.offsets[p], other + p * a.other_stride, 0, inners);
      }
    });
    return;
  }
  const int64_t pieces = (inners - 1) / kColumns + 1;
  parallel_for(0, outers * pieces, per_task(a.n * std::min(inners, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const auto [self, other] = outer.offsets(t / pieces);
                   const int64_t first = t % pieces * kColumns,
                                 last = std::min(inners, first + kColumns);
                   for (int64_t p = 0; p < a.n; ++p)
                     run(self + a.offsets[p], other + p * a.other_stride, first, last);
                 }
               });
}

/// self[index[i]] += alpha source[i] over rows of `inner` values, a tile of columns a task.
template <class T>
void add_rows(T* self, int64_t outer, int64_t limit, int64_t inner, const int64_t* index, int64_t n,
              const T* source, T alpha, int64_t skip) {
  if (n == 0 || inner == 0) return;
  const int64_t pieces = (inner - 1) / kColumns + 1;
  parallel_for(0, outer * pieces, per_task(n * std::min(inner, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t o = t / pieces, first = t % pieces * kColumns,
                                 width = std::min(kColumns, inner - first);
                   at_isa([=](auto) {
                     for (int64_t i = 0; i < n; ++i) {
                       if (index[i] == skip) continue;
                       T* to = self + (o * limit + index[i]) * inner + first;
                       const T* from = source + (o * n + i) * inner + first;
#pragma omp simd
                       for (int64_t c = 0; c < width; ++c)
                         to[c] = add_values<T>(to[c], multiply_values<T>(alpha, from[c]));
                     }
                   });
                 }
               });
}

}  // namespace

int64_t first_bad_index(const int64_t* index, IntArrayRef sizes, IntArrayRef strides, int64_t limit,
                        bool wrap) {
  const Lines<1> rows(sizes, static_cast<int64_t>(sizes.size()) - 1, {strides});
  const int64_t least = wrap ? -limit : 0;
  if (all_within(index, rows, least, limit)) return -1;
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t* line = index + (rows.length ? rows.start(row)[0] : 0);
    for (int64_t i = 0; i < rows.length; ++i)
      if (const int64_t v = line[i * rows.step[0]]; v < least || v >= limit)
        return row * rows.length + i;
  }
  return -1;
}

void index_select(int64_t element_bytes, const void* in, int64_t outer, int64_t limit,
                  int64_t inner, const int64_t* index, int64_t n, void* out) {
  const auto bytes = static_cast<size_t>(inner * element_bytes);
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  parallel_for(0, outer * n, per_task(inner), [&](int64_t begin, int64_t end) {
    visit_width(inner == 1 ? element_bytes : 8, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t / n * limit + index[t % n];
        if (inner == 1)
          reinterpret_cast<T*>(to)[t] = reinterpret_cast<const T*>(from)[row];
        else
          std::memcpy(to + static_cast<size_t>(t) * bytes, from + static_cast<size_t>(row) * bytes,
                      bytes);
      }
    });
  });
}

void index_add(DType type, void* self, int64_t outer, int64_t limit, int64_t inner,
               const int64_t* index, int64_t n, const void* source, double alpha) {
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    add_rows<T>(static_cast<T*>(self), outer, limit, inner, index, n, static_cast<const T*>(source),
                static_cast<T>(alpha), -1);
  });
}

void embedding_backward(DType type, const void* dy, const int64_t* index, int64_t n, int64_t limit,
                        int64_t inner, int64_t padding_index, void* dweight) {
  const int64_t skip = padding_index < 0 ? -1 : padding_index;
  const auto run = [&](auto zero, void* sums, const void* rows) {
    using T = decltype(zero);
    parallel_for(0, limit * inner, 1 << 16, [&](int64_t begin, int64_t end) {
      std::fill(static_cast<T*>(sums) + begin, static_cast<T*>(sums) + end, T(0));
    });
    add_rows<T>(static_cast<T*>(sums), 1, limit, inner, index, n, static_cast<const T*>(rows), T(1),
                skip);
  };
  if (type == kFloat64) return run(double{}, dweight, dy);
  if (type == kFloat32) return run(float{}, dweight, dy);
  std::vector<float> rows(static_cast<size_t>(n * inner)), sums(static_cast<size_t>(limit * inner));
  convert(type, dy, 1, kFloat32, rows.data(), 1, n * inner);
  run(float{}, sums.data(), rows.data());
  convert(kFloat32, sums.data(), 1, type, dweight, 1, limit * inner);
}

BadIndex index_offsets(std::span<const IndexTensor> tensors, IntArrayRef sizes, int64_t* offsets) {
  int64_t count = 1;
  for (const int64_t s : sizes) count *= s;
  std::fill_n(offsets, count, 0);
  for (size_t k = 0; k < tensors.size(); ++k) {
    const IndexTensor& t = tensors[k];
    const Lines<1> rows(sizes, static_cast<int64_t>(sizes.size()) - 1, {t.strides});
    for (int64_t row = 0; count > 0 && row < rows.count; ++row) {
      const int64_t* line = t.index + rows.start(row)[0];
      for (int64_t i = 0; i < rows.length; ++i) {
        const int64_t v = line[i * rows.step[0]], p = row * rows.length + i;
        if (v < -t.limit || v >= t.limit) return {static_cast<int64_t>(k), p, v};
        offsets[p] += (v < 0 ? v + t.limit : v) * t.stride;
      }
    }
  }
  return {};
}

void index_get(int64_t element_bytes, const IndexArgs& a, const void* self, void* out) {
  visit_width(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    const T* s = static_cast<const T*>(self);
    T* o = static_cast<T*>(out);
    for_indexed(a, true, [=](int64_t from, int64_t to, int64_t n) {
      if (n == 1)
        o[to] = s[from];
      else
        std::memcpy(o + to, s + from, static_cast<size_t>(n) * sizeof(T));
    });
  });
}

void index_put(int64_t element_bytes, const IndexArgs& a, void* self, const void* values) {
  visit_width(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    T* s = static_cast<T*>(self);
    const T* o = static_cast<const T*>(values);
    for_indexed(a, false, [=](int64_t to, int64_t from, int64_t n) {
      if (n == 1)
        s[to] = o[from];
      else
        std::memmove(s + to, o + from, static_cast<size_t>(n) * sizeof(T));
    });
  });
}

void index_put_add(DType type, const IndexArgs& a, void* self, const void* values) {
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    T* s = static_cast<T*>(self);
    const T* o = static_cast<const T*>(values);
    for_indexed(a, false, [=](int64_t to, int64_t from, int64_t n) {
      for (int64_t i = 0; i < n; ++i) s[to + i] = add_values(s[to + i], o[from + i]);
    });
  });
}

void one_hot(const int64_t* index, int64_t n, int64_t classes, int64_t* out) {
  parallel_for(0, n, per_task(classes), [&](int64_t begin, int64_t end) {
    std::fill(out + begin * classes, out + end * classes, 0);
    for (int64_t i = begin; i < end; ++i) out[i * classes + index[i]] = 1;
  });
}

void tril_triu(int64_t element_bytes, const void* in, int64_t batch, int64_t rows, int64_t columns,
               int64_t diagonal, bool lower, void* out) {
  parallel_for(0, batch * rows, per_task(columns), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const auto* from = static_cast<const std::byte*>(in) + t * columns * element_bytes;
      auto* to = static_cast<std::byte*>(out) + t * columns * element_bytes;
      // Columns [0, split) are below the cut, the rest above it; the sum saturates far diagonals.
      const int64_t cut =
          std::clamp<int64_t>(diagonal, -rows - 1, columns + 1) + t % rows + (lower ? 1 : 0);
      const int64_t split = std::clamp<int64_t>(cut, 0, columns) * element_bytes,
                    all = columns * element_bytes;
      const int64_t first = lower ? 0 : split, last = lower ? split : all;
      std::memset(to, 0, static_cast<size_t>(first));
      std::memmove(to + first, from + first, static_cast<size_t>(last - first));
      std::memset(to + last, 0, static_cast<size_t>(all - last));
    }
  });
}

}  // namespace pellucid::kernels
