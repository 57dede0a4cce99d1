// Matrix products of the dtypes without own micro-kernels: 16-bit floats through copies in float,
// integers by a loop that wraps around, bool as "any of ands".
#include <algorithm>
#include <type_traits>

#include "base/parallel.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/isa.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {
namespace {

/// out[0..n) += x b[0..n), in arithmetic modulo 2^bits; for bool: or of ands.
template <class T> struct IntegerRow {
  template <Isa level>
  [[gnu::always_inline]] static void run(const T* a, int64_t a_step, const T* b, int64_t b_step,
                                         int64_t k, T* out, int64_t n) {
    for (int64_t p = 0; p < k; ++p, b += b_step) {
      if constexpr (std::is_same_v<T, bool>) {
        if (!a[p * a_step]) continue;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) out[j] |= b[j];
      } else {
        // 8- and 16-bit values go through unsigned, whose products do not overflow as int's would.
        using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
        const U x = static_cast<U>(a[p * a_step]);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j)
          out[j] = static_cast<T>(static_cast<U>(out[j]) + x * static_cast<U>(b[j]));
      }
    }
  }
};

template <class T>
void gemm_integer(int64_t m, int64_t n, int64_t k, T alpha, const MatrixView<const T>& a,
                  MatrixView<const T> b, T beta, const MatrixView<T>& c) {
  if (m == 0 || n == 0) return;
  const Scratch b_copy(b.col_stride == 1 ? 0 : k * n * static_cast<int64_t>(sizeof(T)));
  if (b.col_stride != 1) {
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        b_copy.as<T>()[p * n + j] = b.data[p * b.row_stride + j * b.col_stride];
    b = {b_copy.as<T>(), n, 1};
  }
  using U = std::conditional_t<(sizeof(T) < 8), uint32_t, uint64_t>;
  const auto loop =
      IsaLoops<IntegerRow<T>, const T*, int64_t, const T*, int64_t, int64_t, T*, int64_t>::at(
          isa());
  const int64_t grain =
      std::max<int64_t>(1, 32768 / std::max<int64_t>(1, n * std::max<int64_t>(k, 1)));
  parallel_for(0, m, grain, [&](int64_t i0, int64_t i1) {
    constexpr int64_t kWidth = 512;  // a piece of the row of C that stays in L1
    T row[kWidth];
    for (int64_t i = i0; i < i1; ++i)
      for (int64_t j0 = 0; j0 < n; j0 += kWidth) {
        const int64_t width = std::min(kWidth, n - j0);
        std::fill_n(row, width, T(0));
        loop(a.data + i * a.row_stride, a.col_stride, b.data + j0, b.row_stride, k, row, width);
        for (int64_t j = 0; j < width; ++j) {
          T& to = c.data[i * c.row_stride + (j0 + j) * c.col_stride];
          if constexpr (std::is_same_v<T, bool>) {
            to = (alpha && row[j]) || (beta && to);
          } else {
            const U kept = beta == T(0) ? U(0) : static_cast<U>(beta) * static_cast<U>(to);
            to = static_cast<T>(static_cast<U>(alpha) * static_cast<U>(row[j]) + kept);
          }
        }
      }
  });
}

/// out[i] = in[i * stride], converted.
template <class From, class To> struct Convert {
  template <Isa level>
  [[gnu::always_inline]] static void run(const From* in, int64_t stride, To* out, int64_t n) {
    if (stride == 1) {
      for (int64_t i = 0; i < n; ++i) out[i] = To(static_cast<float>(in[i]));
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = To(static_cast<float>(in[i * stride]));
    }
  }
};

/// Copies to float, keeping a transposed layout as it is.
template <class T>
MatrixView<const float> to_float(const MatrixView<const T>& from, int64_t rows, int64_t columns,
                                 float* to) {
  const bool transposed = from.row_stride == 1 && from.col_stride != 1;
  const int64_t outer = transposed ? columns : rows, inner = transposed ? rows : columns;
  const int64_t outer_step = transposed ? from.col_stride : from.row_stride;
  const int64_t inner_step = transposed ? from.row_stride : from.col_stride;
  const auto loop = IsaLoops<Convert<T, float>, const T*, int64_t, float*, int64_t>::at(isa());
  parallel_for(0, outer, std::max<int64_t>(1, 32768 / std::max<int64_t>(inner, 1)),
               [&](int64_t i0, int64_t i1) {
                 for (int64_t i = i0; i < i1; ++i)
                   loop(from.data + i * outer_step, inner_step, to + i * inner, inner);
               });
  return transposed ? MatrixView<const float>{to, 1, inner} : MatrixView<const float>{to, inner, 1};
}

template <class T>
void gemm_half(int64_t m, int64_t n, int64_t k, T alpha, const MatrixView<const T>& a,
               const MatrixView<const T>& b, T beta, const MatrixView<T>& c) {
  const Scratch a_float(m * k * 4), b_float(k * n * 4), c_float(m * n * 4);
  if (static_cast<float>(beta) != 0) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c_float.as<float>()[i * n + j] =
            static_cast<float>(c.data[i * c.row_stride + j * c.col_stride]);
  }
  gemm<float>(m, n, k, static_cast<float>(alpha), to_float(a, m, k, a_float.as<float>()),
              to_float(b, k, n, b_float.as<float>()), static_cast<float>(beta),
              {c_float.as<float>(), n, 1});
  const auto loop = IsaLoops<Convert<float, T>, const float*, int64_t, T*, int64_t>::at(isa());
  parallel_for(0, m, std::max<int64_t>(1, 32768 / std::max<int64_t>(n, 1)),
               [&](int64_t i0, int64_t i1) {
                 for (int64_t i = i0; i < i1; ++i) {
                   const float* const from = c_float.as<float>() + i * n;
                   if (c.col_stride == 1) {
                     loop(from, 1, c.data + i * c.row_stride, n);
                   } else {
                     for (int64_t j = 0; j < n; ++j)
                       c.data[i * c.row_stride + j * c.col_stride] = T(from[j]);
                   }
                 }
               });
}

}  // namespace

#define PELLUCID_GEMM(T, function)                                              \
  template <>                                                                   \
  void gemm<T>(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a, \
               MatrixView<const T> b, T beta, MatrixView<T> c) {                \
    function(m, n, k, alpha, a, b, beta, c);                                    \
  }
PELLUCID_GEMM(Half, gemm_half)
PELLUCID_GEMM(BFloat16, gemm_half)
PELLUCID_GEMM(int64_t, gemm_integer)
PELLUCID_GEMM(int32_t, gemm_integer)
PELLUCID_GEMM(int16_t, gemm_integer)
PELLUCID_GEMM(int8_t, gemm_integer)
PELLUCID_GEMM(uint8_t, gemm_integer)
PELLUCID_GEMM(bool, gemm_integer)
#undef PELLUCID_GEMM

}  // namespace pellucid::kernels
