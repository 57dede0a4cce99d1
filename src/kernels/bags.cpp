// Sums and maxima of rows in bags.
#include "kernels/bags.h"

#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/isa.h"

namespace pellucid::kernels {
namespace {

/// The pairs in the order of their results: those of result r are order[begin[r]] up to
/// order[begin[r + 1]]. Pairs that are in order already need no list.
struct Groups {
  explicit Groups(const RowPairs& p) : begin(static_cast<size_t>(p.rows) + 1, 0) {
    for (int64_t i = 0; i < p.n; ++i) ++begin[static_cast<size_t>(p.to[i]) + 1];
    for (size_t r = 1; r < begin.size(); ++r) begin[r] += begin[r - 1];
    if (std::is_sorted(p.to, p.to + p.n)) return;
    order.resize(static_cast<size_t>(p.n));
    std::vector<int64_t> next(begin.begin(), begin.end() - 1);
    for (int64_t i = 0; i < p.n; ++i)
      order[static_cast<size_t>(next[static_cast<size_t>(p.to[i])]++)] = i;
  }
  std::vector<int64_t> begin, order;
};

template <class T> struct SumArgs {
  RowPairs pairs;
  const int64_t *begin, *order;  // order is null where pairs are in order
  const T *x, *scale;
  T* out;
};

/// Results [first, last).
template <class T> struct SumRows {
  template <Isa>
  __attribute__((always_inline)) static void run(const SumArgs<T>& a, int64_t first, int64_t last) {
    const int64_t width = a.pairs.width;
    for (int64_t r = first; r < last; ++r) {
      T* const to = a.out + r * width;
      std::fill_n(to, width, T(0));
      for (int64_t k = a.begin[r]; k < a.begin[r + 1]; ++k) {
        const int64_t i = a.order == nullptr ? k : a.order[k];
        const T* const from = a.x + a.pairs.from[i] * width;
        if (a.scale == nullptr) {
          for (int64_t c = 0; c < width; ++c) to[c] += from[c];
        } else {
          const T factor = a.scale[i];
          for (int64_t c = 0; c < width; ++c) to[c] += factor * from[c];
        }
      }
    }
  }
};

/// Results that one task takes, so that it has some 16,000 numbers to add.
int64_t grain(const RowPairs& p) {
  const int64_t each = p.width * (1 + p.n / std::max<int64_t>(p.rows, 1));
  return std::max<int64_t>(1, 16384 / std::max<int64_t>(each, 1));
}

}  // namespace

template <class T> void sum_rows(const RowPairs& p, const T* x, const T* scale, T* out) {
  const Groups groups(p);
  const SumArgs<T> args{
      p, groups.begin.data(), groups.order.empty() ? nullptr : groups.order.data(), x, scale, out};
  const auto loop = IsaLoops<SumRows<T>, const SumArgs<T>&, int64_t, int64_t>::at(isa());
  parallel_for(0, p.rows, grain(p), [&](int64_t first, int64_t last) { loop(args, first, last); });
}

template <class T> void argmax_rows(const RowPairs& p, const T* x, int64_t* out) {
  const Groups groups(p);
  parallel_for(0, p.rows, grain(p), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      int64_t* const best = out + r * p.width;
      std::fill_n(best, p.width, -1);
      for (int64_t k = groups.begin[static_cast<size_t>(r)];
           k < groups.begin[static_cast<size_t>(r) + 1]; ++k) {
        const int64_t row = p.from[groups.order.empty() ? k : groups.order[static_cast<size_t>(k)]];
        for (int64_t c = 0; c < p.width; ++c)
          if (best[c] < 0 || x[row * p.width + c] > x[best[c] * p.width + c]) best[c] = row;
      }
    }
  });
}

#define PELLUCID_INSTANTIATE(T)                                       \
  template void sum_rows<T>(const RowPairs&, const T*, const T*, T*); \
  template void argmax_rows<T>(const RowPairs&, const T*, int64_t*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
