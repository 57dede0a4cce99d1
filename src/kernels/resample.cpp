// Resampling along one dimension by a table of weights.
#include "kernels/resample.h"

#include <algorithm>

#include "base/parallel.h"

namespace pellucid::kernels {

ResampleTable transposed_table(const ResampleTable& table, int64_t inputs) {
  ResampleTable t;
  t.begin.assign(static_cast<size_t>(inputs) + 1, 0);
  for (const int64_t i : table.index) ++t.begin[static_cast<size_t>(i) + 1];
  for (size_t i = 1; i < t.begin.size(); ++i) t.begin[i] += t.begin[i - 1];
  t.index.resize(table.index.size());
  t.weight.resize(table.weight.size());
  std::vector<int64_t> next(t.begin.begin(), t.begin.end() - 1);
  for (size_t o = 0; o + 1 < table.begin.size(); ++o)
    for (int64_t k = table.begin[o]; k < table.begin[o + 1]; ++k) {
      const auto from = static_cast<size_t>(k);
      const auto to = static_cast<size_t>(next[static_cast<size_t>(table.index[from])]++);
      t.index[to] = static_cast<int64_t>(o);
      t.weight[to] = table.weight[from];
    }
  return t;
}

template <class T>
void resample(const ResampleTable& table, int64_t outer, int64_t inputs, int64_t inner, const T* x,
              T* y) {
  const auto outputs = static_cast<int64_t>(table.begin.size()) - 1;
  const int64_t taps = std::max<int64_t>(
      1, static_cast<int64_t>(table.index.size()) / std::max<int64_t>(outputs, 1));
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(inner * taps, 1));
  parallel_for(0, outer * outputs, grain, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t o = r % outputs;
      const T* line = x + r / outputs * inputs * inner;
      T* const to = y + r * inner;
      const auto begin = static_cast<size_t>(table.begin[static_cast<size_t>(o)]),
                 end = static_cast<size_t>(table.begin[static_cast<size_t>(o) + 1]);
      if (begin == end) std::fill_n(to, inner, T(0));
      for (size_t k = begin; k < end; ++k) {
        const T* const from = line + table.index[k] * inner;
        const T w = static_cast<T>(table.weight[k]);
        if (k == begin)
          for (int64_t i = 0; i < inner; ++i) to[i] = w * from[i];
        else
          for (int64_t i = 0; i < inner; ++i) to[i] += w * from[i];
      }
    }
  });
}

template void resample<float>(const ResampleTable&, int64_t, int64_t, int64_t, const float*,
                              float*);
template void resample<double>(const ResampleTable&, int64_t, int64_t, int64_t, const double*,
                               double*);

}  // namespace pellucid::kernels
