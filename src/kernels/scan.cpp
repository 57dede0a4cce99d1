// Lines are scanned a few at a time in blocks of compute values. Where the dim is strided,
// neighbouring lines are scanned side by side, so that memory is read in runs. Where there are few
// lines, long ones are cut into segments.
#include "kernels/scan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/parallel.h"
#include "kernels/reduce_convert.h"
#include "kernels/reduce_lanes.h"
#include "kernels/scan_lines.h"

namespace pellucid::kernels {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kTaskElements = 16384;
constexpr int64_t kSegment = 2048;  // of a line that is cut because there are few others

const std::byte* at(DType type, const void* base, int64_t offset) {
  return static_cast<const std::byte*>(base) + offset * element_size(type);
}
std::byte* at(DType type, void* base, int64_t offset) {
  return static_cast<std::byte*>(base) + offset * element_size(type);
}

/// Lines that are scanned at once: each step of a line waits for the one before it, so several
/// lines keep the adders busy.
constexpr int64_t kAbreast = 8;

/// `count` lines (1 or kAbreast) of `length` elements, whose starts are in `in` and `out`, a block
/// of each at a time. `total` is where each begins, and then where it ended; nothing is written
/// where only that is asked for.
template <int64_t count, class T, class Combine>
void scan_lines(const ScanArgs& a, const Lines<2>& lines, int64_t length, const int64_t* in,
                const int64_t* out, T* total, bool totals_only, Combine combine) {
  constexpr int64_t block = count == 1 ? kBlock : kBlock / 4;
  T buffer[count][block];
  for (int64_t done = 0; done < length; done += block) {
    const int64_t n = std::min(block, length - done), first = a.reverse ? length - done - n : done;
    for (int64_t l = 0; l < count; ++l)
      convert(a.in_type, at(a.in_type, a.in, in[l] + first * lines.step[0]), lines.step[0],
              dtype_of<T>, buffer[l], 1, n);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = a.reverse ? n - 1 - k : k;
#pragma GCC unroll 8
      for (int64_t l = 0; l < count; ++l) buffer[l][i] = total[l] = combine(total[l], buffer[l][i]);
    }
    if (totals_only) continue;
    for (int64_t l = 0; l < count; ++l)
      convert(dtype_of<T>, buffer[l], 1, a.out_type,
              at(a.out_type, a.out, out[l] + first * lines.step[1]), lines.step[1], n);
  }
}

/// Lines [begin, end) of `length` elements: kAbreast at a time, the rest one by one. start(i) gives
/// the offsets of line i in `in` and `out`, totals[i - begin] is as in scan_lines.
template <class T, class Start, class Combine>
void scan_range(const ScanArgs& a, const Lines<2>& lines, int64_t length, int64_t begin,
                int64_t end, const Start& start, T* totals, bool totals_only, Combine combine) {
  int64_t in[kAbreast], out[kAbreast];
  for (int64_t i = begin; i < end;) {
    const int64_t count = end - i < kAbreast ? 1 : kAbreast;
    for (int64_t l = 0; l < count; ++l) {
      const auto [from, to] = start(i + l);
      in[l] = from, out[l] = to;
    }
    T* const total = totals + (i - begin);
    if (count == 1)
      scan_lines<1, T>(a, lines, length, in, out, total, totals_only, combine);
    else
      scan_lines<kAbreast, T>(a, lines, length, in, out, total, totals_only, combine);
    i += count;
  }
}

/// One long line in segments, each of which is a line of its own once it is known where it begins:
/// first the segments' totals, then the scan, both by all threads.
template <class T, class Combine>
void scan_segments(const ScanArgs& a, const Lines<2>& lines, int64_t line, T identity,
                   Combine combine) {
  const int64_t segments = (lines.length - 1) / kSegment;  // and the last, which may be shorter
  const auto start = [&](int64_t segment) {
    const int64_t first = segment * kSegment, n = std::min(kSegment, lines.length - first),
                  position = a.reverse ? lines.length - first - n : first;
    const auto [in, out] = lines.start(line);
    return std::array{in + position * lines.step[0], out + position * lines.step[1]};
  };
  std::vector<T> totals(static_cast<size_t>(segments), identity);
  const auto all = [&](bool totals_only) {
    parallel_for(0, segments, kTaskElements / kSegment * kAbreast, [&](int64_t begin, int64_t end) {
      scan_range<T>(a, lines, kSegment, begin, end, start, totals.data() + begin, totals_only,
                    combine);
    });
  };
  all(true);
  T sum = identity;
  for (T& total : totals) {
    const T next = combine(sum, total);
    total = sum;
    sum = next;
  }
  all(false);
  scan_range<T>(a, lines, lines.length - segments * kSegment, segments, segments + 1, start, &sum,
                false, combine);
}

/// `width` lines side by side, whose starts are column_in and column_out apart.
template <class T, class Combine>
void scan_columns(const ScanArgs& a, const Lines<2>& lines, int64_t in, int64_t out,
                  int64_t column_in, int64_t column_out, int64_t width, T identity,
                  Combine combine) {
  T buffer[kBlock], total[kBlock];
  std::fill_n(total, width, identity);
  for (int64_t k = 0; k < lines.length; ++k) {
    const int64_t i = a.reverse ? lines.length - 1 - k : k;
    convert(a.in_type, at(a.in_type, a.in, in + i * lines.step[0]), column_in, dtype_of<T>, buffer,
            1, width);
    for (int64_t c = 0; c < width; ++c) total[c] = combine(total[c], buffer[c]);
    convert(dtype_of<T>, total, 1, a.out_type, at(a.out_type, a.out, out + i * lines.step[1]),
            column_out, width);
  }
}

template <class T, class Combine> void scan_all(const ScanArgs& a, T identity, Combine combine) {
  const Lines<2> lines(a.sizes, a.dim, {a.in_strides, a.out_strides});
  if (lines.count == 0 || lines.length == 0) return;
  // The last dim other than the scanned one numbers neighbouring lines.
  const int64_t last = static_cast<int64_t>(a.sizes.size()) - 1,
                column = last == a.dim ? last - 1 : last;
  const bool side_by_side =
      column >= 0 && a.sizes[column] >= 8 && a.in_strides[column] < lines.step[0];
  if (!side_by_side) {
    // Products are left alone: a segment's may leave the range of T where the line's does not.
    if (a.op == ScanOp::Sum && lines.count < kAbreast && lines.length >= 2 * kAbreast * kSegment) {
      for (int64_t line = 0; line < lines.count; ++line)
        scan_segments<T>(a, lines, line, identity, combine);
      return;
    }
    parallel_for(0, lines.count, std::max<int64_t>(1, kTaskElements / lines.length),
                 [&](int64_t begin, int64_t end) {
                   std::vector<T> totals(static_cast<size_t>(end - begin), identity);
                   scan_range<T>(
                       a, lines, lines.length, begin, end,
                       [&](int64_t i) { return lines.start(i); }, totals.data(), false, combine);
                 });
    return;
  }
  const int64_t row = a.sizes[column], tiles = (row - 1) / kBlock + 1;
  const int64_t task = lines.length * std::min(row, kBlock);
  parallel_for(0, lines.count / row * tiles, std::max<int64_t>(1, kTaskElements / task),
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t first = t % tiles * kBlock;
                   const auto [in, out] = lines.start(t / tiles * row + first);
                   scan_columns<T>(a, lines, in, out, a.in_strides[column], a.out_strides[column],
                                   std::min(kBlock, row - first), identity, combine);
                 }
               });
}

}  // namespace

void scan(const ScanArgs& a) {
  const bool floating = is_floating(a.in_type) || is_floating(a.out_type);
  if (a.op == ScanOp::Sum)
    floating ? scan_all<double>(a, 0.0, AddCombine{}) : scan_all<int64_t>(a, 0, AddCombine{});
  else
    floating ? scan_all<double>(a, 1.0, MulCombine{}) : scan_all<int64_t>(a, 1, MulCombine{});
}

}  // namespace pellucid::kernels
