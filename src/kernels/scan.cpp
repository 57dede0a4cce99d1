// Lines are scanned one after another in blocks of compute values. Where the dim is strided,
// neighbouring lines are scanned side by side, so that memory is read in runs.
#include "kernels/scan.h"

#include <algorithm>
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

const std::byte* at(DType type, const void* base, int64_t offset) {
  return static_cast<const std::byte*>(base) + offset * element_size(type);
}
std::byte* at(DType type, void* base, int64_t offset) {
  return static_cast<std::byte*>(base) + offset * element_size(type);
}

template <class T, class Combine>
void scan_line(const ScanArgs& a, const Lines<2>& lines, int64_t in, int64_t out, T identity,
               Combine combine) {
  const int64_t sign = a.reverse ? -1 : 1;
  if (a.reverse)
    in += (lines.length - 1) * lines.step[0], out += (lines.length - 1) * lines.step[1];
  T buffer[kBlock], total = identity;
  for (int64_t first = 0; first < lines.length; first += kBlock) {
    const int64_t n = std::min(kBlock, lines.length - first);
    convert(a.in_type, at(a.in_type, a.in, in + sign * first * lines.step[0]), sign * lines.step[0],
            dtype_of<T>, buffer, 1, n);
    for (int64_t i = 0; i < n; ++i) buffer[i] = total = combine(total, buffer[i]);
    convert(dtype_of<T>, buffer, 1, a.out_type,
            at(a.out_type, a.out, out + sign * first * lines.step[1]), sign * lines.step[1], n);
  }
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
    parallel_for(0, lines.count, std::max<int64_t>(1, kTaskElements / lines.length),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const auto [in, out] = lines.start(i);
                     scan_line<T>(a, lines, in, out, identity, combine);
                   }
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
