// gather and scatter. Work is cut so that two threads never write the same destination: by the
// lines beside the indexed dim, one by one or, where they are neighbours in memory, many abreast.
// Within a piece, indices are taken in order.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/parallel.h"
#include "kernels/index.h"
#include "kernels/index_values.h"
#include "kernels/reduce_convert.h"
#include "kernels/scan_lines.h"

namespace pellucid::kernels {
namespace {

/// Calls f(self offset of the line, other offset of the line, index pointer) for each line of good
/// indices, in parallel; whether all were good.
template <class F> bool for_lines(const GatherArgs& a, const F& f) {
  const Lines<3> lines(a.sizes, a.dim, {a.self_strides, a.other_strides, a.index_strides});
  if (lines.length == 0) return true;
  std::atomic<bool> good{true};
  // Lines that lie apart in self may be written at once; where self is expanded they coincide,
  // which callers forbid.
  parallel_for(0, lines.count, per_task(lines.length), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const auto [self, other, index] = lines.start(line);
      if (a.limit == 0 || within(a.index + index, lines.length, lines.step[2], 0, a.limit))
        f(lines, self, other, a.index + index);
      else
        good.store(false, std::memory_order_relaxed);
    }
  });
  return good.load(std::memory_order_relaxed);
}

/// Whether lines lie side by side along the last dim in all three arrays: then it is quicker to
/// walk many of them abreast than one after another.
bool side_by_side(const GatherArgs& a) {
  const size_t last = a.sizes.size() - 1;
  return !a.sizes.empty() && a.dim != static_cast<int64_t>(last) && a.sizes[last] >= 8 &&
         a.self_strides[last] == 1 && a.other_strides[last] == 1 && a.index_strides[last] == 1;
}

/// Calls f(self offset, other offset, index pointer, width) for groups of neighbouring lines, in
/// parallel; f is called once for each group of good indices. Whether all were good.
template <class F> bool for_groups(const GatherArgs& a, const F& f) {
  const Lines<3> lines(a.sizes, a.dim, {a.self_strides, a.other_strides, a.index_strides});
  const int64_t row = a.sizes[a.sizes.size() - 1];
  if (lines.length == 0 || lines.count == 0) return true;
  const int64_t pieces = (row - 1) / kColumns + 1;
  std::atomic<bool> good{true};
  parallel_for(0, lines.count / row * pieces, per_task(lines.length * std::min(row, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t first = t % pieces * kColumns,
                                 width = std::min(kColumns, row - first);
                   const auto [self, other, index] = lines.start(t / pieces * row + first);
                   bool inside = true;
                   for (int64_t i = 0; i < lines.length && a.limit != 0 && inside; ++i)
                     inside = within(a.index + index + i * lines.step[2], width, 1, 0, a.limit);
                   if (inside)
                     f(lines, self, other, a.index + index, width);
                   else
                     good.store(false, std::memory_order_relaxed);
                 }
               });
  return good.load(std::memory_order_relaxed);
}

/// Calls f(steps of self, other and index, length), with constants where all are 1.
template <class F> void with_steps(const Lines<3>& lines, const F& f) {
  using One = std::integral_constant<int64_t, 1>;
  if (lines.step == std::array<int64_t, 3>{1, 1, 1})
    f(One{}, One{}, One{}, lines.length);
  else
    f(lines.step[0], lines.step[1], lines.step[2], lines.length);
}

/// The line of self that begins at `offset`, with its initial values.
template <class T> T* start_line(const GatherArgs& a, void* self, int64_t offset) {
  T* const line = static_cast<T*>(self) + offset;
  if (a.initial)
    std::memcpy(static_cast<void*>(line), static_cast<const T*>(a.initial) + offset,
                static_cast<size_t>(a.limit) * sizeof(T));
  else if (a.zero_lines)
    std::memset(static_cast<void*>(line), 0, static_cast<size_t>(a.limit) * sizeof(T));
  return line;
}

/// self[…index[i]…] = f(self[…index[i]…], source[…i…]).
template <class T, class F>
bool scatter_with(const GatherArgs& a, void* self, const void* source, const F& f) {
  if (side_by_side(a))
    return for_groups(a, [&](const Lines<3>& lines, int64_t to, int64_t from, const int64_t* index,
                             int64_t width) {
      T* s = static_cast<T*>(self) + to;
      const T* o = static_cast<const T*>(source) + from;
      for (int64_t i = 0; i < lines.length; ++i)
        for (int64_t c = 0; c < width; ++c) {
          T& at = s[index[i * lines.step[2] + c] * lines.step[0] + c];
          at = f(at, o[i * lines.step[1] + c]);
        }
    });
  return for_lines(a, [&](const Lines<3>& lines, int64_t to, int64_t from, const int64_t* index) {
    T* s = start_line<T>(a, self, to);
    const T* o = static_cast<const T*>(source) + from;
    with_steps(lines, [=](auto a0, auto a1, auto a2, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        T& at = s[index[i * a2] * a0];
        at = f(at, o[i * a1]);
      }
    });
  });
}

}  // namespace

bool gather(int64_t element_bytes, const GatherArgs& a, const void* self, void* out) {
  bool good = true;
  visit_width(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    if (side_by_side(a)) {
      good = for_groups(a, [&](const Lines<3>& lines, int64_t from, int64_t to,
                               const int64_t* index, int64_t width) {
        const T* s = static_cast<const T*>(self) + from;
        T* o = static_cast<T*>(out) + to;
        for (int64_t i = 0; i < lines.length; ++i)
          for (int64_t c = 0; c < width; ++c)
            o[i * lines.step[1] + c] = s[index[i * lines.step[2] + c] * lines.step[0] + c];
      });
      return;
    }
    good = for_lines(a, [&](const Lines<3>& lines, int64_t from, int64_t to, const int64_t* index) {
      const T* s = static_cast<const T*>(self) + from;
      T* o = static_cast<T*>(out) + to;
      with_steps(lines, [=](auto a0, auto a1, auto a2, int64_t n) {
        for (int64_t i = 0; i < n; ++i) o[i * a1] = s[index[i * a2] * a0];
      });
    });
  });
  return good;
}

bool scatter(int64_t element_bytes, const GatherArgs& a, void* self, const void* source) {
  bool good = true;
  visit_width(element_bytes, [&](auto zero) {
    using T = decltype(zero);
    good = scatter_with<T>(a, self, source, [](T, T y) { return y; });
  });
  return good;
}

bool scatter_add(DType type, const GatherArgs& a, void* self, const void* source) {
  bool good = true;
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    good = scatter_with<T>(a, self, source, [](T x, T y) { return add_values<T>(x, y); });
  });
  return good;
}

bool scatter_multiply(DType type, const GatherArgs& a, void* self, const void* source) {
  bool good = true;
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    good = scatter_with<T>(a, self, source, [](T x, T y) { return multiply_values<T>(x, y); });
  });
  return good;
}

bool scatter_extreme(DType type, bool greatest, const GatherArgs& a, void* self,
                     const void* source) {
  bool good = true;
  visit(type, [&](auto zero) {
    using T = decltype(zero);
    // A NaN stays: it is neither above nor below anything, and x != x finds it.
    const auto greater = [](T x, T y) { return y > x || y != y ? y : x; };
    const auto less = [](T x, T y) { return y < x || y != y ? y : x; };
    good = greatest ? scatter_with<T>(a, self, source, greater)
                    : scatter_with<T>(a, self, source, less);
  });
  return good;
}

}  // namespace pellucid::kernels
