// Resampling along one dimension by a table of weights.
#include "kernels/resample.h"

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "kernels/isa.h"

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

namespace {

template <class T> struct Args {
  const ResampleTable& table;
  int64_t outputs, inputs, inner;
  const T* x;
  T* y;
};

/// Where the dim is not the last: an output is a sum of rows of `inner` elements.
template <class T> struct Rows {
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const auto o = static_cast<size_t>(r % a.outputs);
      const T* const line = a.x + r / a.outputs * a.inputs * a.inner;
      T* const to = a.y + r * a.inner;
      const auto begin = static_cast<size_t>(a.table.begin[o]),
                 end = static_cast<size_t>(a.table.begin[o + 1]);
      if (begin == end) std::fill_n(to, a.inner, T(0));
      for (size_t k = begin; k < end; ++k) {
        const T* const from = line + a.table.index[k] * a.inner;
        const T w = static_cast<T>(a.table.weight[k]);
        if (k == begin && k + 1 < end) {  // the first two at once: linear needs no more
          const T* const next = line + a.table.index[++k] * a.inner;
          const T v = static_cast<T>(a.table.weight[k]);
          for (int64_t i = 0; i < a.inner; ++i) to[i] = w * from[i] + v * next[i];
        } else if (k == begin) {
          for (int64_t i = 0; i < a.inner; ++i) to[i] = w * from[i];
        } else {
          for (int64_t i = 0; i < a.inner; ++i) to[i] += w * from[i];
        }
      }
    }
  }
};

/// The table of a run of outputs with equally many taps, tap by tap.
template <class T> struct EvenTaps {
  explicit EvenTaps(const ResampleTable& table) {
    const auto outputs = static_cast<int64_t>(table.begin.size()) - 1;
    const auto taps_of = [&](int64_t o) {
      return table.begin[static_cast<size_t>(o) + 1] - table.begin[static_cast<size_t>(o)];
    };
    // around the middle: fewer pixels are looked at near the borders
    first = last = outputs / 2;
    taps = outputs > 0 ? taps_of(first) : 0;
    if (taps == 0) return;  // an output that nothing goes to is a sum of its own: 0
    while (last < outputs && taps_of(last) == taps) ++last;
    while (first > 0 && taps_of(first - 1) == taps) --first;
    for (int64_t k = 0; k < taps; ++k)
      for (int64_t o = first; o < last; ++o) {
        const auto from = static_cast<size_t>(table.begin[static_cast<size_t>(o)] + k);
        index.push_back(static_cast<int32_t>(table.index[from]));
        weight.push_back(static_cast<T>(table.weight[from]));
      }
  }
  int64_t first = 0, last = 0, taps = 0;
  std::vector<int32_t> index;
  std::vector<T> weight;
};

/// Where the dim is the last: the outputs of a line side by side, whose inputs are gathered.
template <class T> struct Columns {
  template <Isa>
  __attribute__((always_inline)) static void run(const Args<T>& a, const EvenTaps<T>& even,
                                                 int64_t first, int64_t last) {
    const int64_t n = even.last - even.first;
    for (int64_t r = first; r < last; ++r) {
      const T* const line = a.x + r * a.inputs;
      T* const to = a.y + r * a.outputs;
      const auto one = [&](int64_t o) {
        T sum = 0;
        for (int64_t k = a.table.begin[static_cast<size_t>(o)];
             k < a.table.begin[static_cast<size_t>(o) + 1]; ++k)
          sum += static_cast<T>(a.table.weight[static_cast<size_t>(k)]) *
                 line[a.table.index[static_cast<size_t>(k)]];
        to[o] = sum;
      };
      for (int64_t o = 0; o < even.first; ++o) one(o);
      for (int64_t k = 0; k < even.taps; ++k) {
        const int32_t* const index = even.index.data() + k * n;
        const T* const weight = even.weight.data() + k * n;
        T* const y = to + even.first;
        if (k == 0)
#pragma GCC ivdep
          for (int64_t o = 0; o < n; ++o) y[o] = weight[o] * line[index[o]];
        else
#pragma GCC ivdep
          for (int64_t o = 0; o < n; ++o) y[o] += weight[o] * line[index[o]];
      }
      for (int64_t o = even.last; o < a.outputs; ++o) one(o);
    }
  }
};

}  // namespace

template <class T>
void resample(const ResampleTable& table, int64_t outer, int64_t inputs, int64_t inner, const T* x,
              T* y) {
  const auto outputs = static_cast<int64_t>(table.begin.size()) - 1;
  const int64_t taps = std::max<int64_t>(
      1, static_cast<int64_t>(table.index.size()) / std::max<int64_t>(outputs, 1));
  const Args<T> args{table, outputs, inputs, inner, x, y};
  const auto grain = [&](int64_t outputs_of_task) {
    return std::max<int64_t>(1, 16384 / std::max<int64_t>(outputs_of_task * taps, 1));
  };
  if (inner == 1 && inputs <= std::numeric_limits<int32_t>::max()) {
    const EvenTaps<T> even(table);
    const auto loop =
        IsaLoops<Columns<T>, const Args<T>&, const EvenTaps<T>&, int64_t, int64_t>::at(isa());
    parallel_for(0, outer, grain(outputs),
                 [&](int64_t first, int64_t last) { loop(args, even, first, last); });
    return;
  }
  const auto loop = IsaLoops<Rows<T>, const Args<T>&, int64_t, int64_t>::at(isa());
  parallel_for(0, outer * outputs, grain(inner),
               [&](int64_t first, int64_t last) { loop(args, first, last); });
}

namespace {

/// The weights as multiples of 2^-bits that fit into 16 bits, with as many bits as the greatest
/// allows.
struct ByteWeights {
  explicit ByteWeights(const ResampleTable& table) {
    double most = 0;
    for (const double w : table.weight) most = std::max(most, w);
    while (bits < 22 && 0.5 + most * static_cast<double>(int64_t{2} << bits) < 32768) ++bits;
    for (const double w : table.weight) {
      const double scaled = w * static_cast<double>(int64_t{1} << bits);
      weight.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  int bits = 0;
  std::vector<int32_t> weight;
};

}  // namespace

void resample_bytes(const ResampleTable& table, int64_t outer, int64_t inputs, int64_t inner,
                    const uint8_t* x, uint8_t* y) {
  const auto outputs = static_cast<int64_t>(table.begin.size()) - 1;
  const ByteWeights w(table);
  const int32_t half = w.bits > 0 ? int32_t{1} << (w.bits - 1) : 0;
  parallel_for(0, outer * outputs, std::max<int64_t>(1, 4096 / std::max<int64_t>(inner, 1)),
               [&](int64_t first, int64_t last) {
                 for (int64_t r = first; r < last; ++r) {
                   const auto o = static_cast<size_t>(r % outputs);
                   const uint8_t* const line = x + r / outputs * inputs * inner;
                   const auto begin = static_cast<size_t>(table.begin[o]),
                              end = static_cast<size_t>(table.begin[o + 1]);
                   for (int64_t i = 0; i < inner; ++i) {
                     int32_t sum = half;
                     for (size_t k = begin; k < end; ++k)
                       sum += w.weight[k] * line[table.index[k] * inner + i];
                     y[r * inner + i] = static_cast<uint8_t>(std::clamp(sum >> w.bits, 0, 255));
                   }
                 }
               });
}

template void resample<float>(const ResampleTable&, int64_t, int64_t, int64_t, const float*,
                              float*);
template void resample<double>(const ResampleTable&, int64_t, int64_t, int64_t, const double*,
                               double*);

}  // namespace pellucid::kernels
