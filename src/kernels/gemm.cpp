// The matrix product of float and double: which path a product takes, and how it is cut into tasks,
// each of which runs on one thread. Bits must not depend on the threads:
// - our own kernels sum an element in the same order whatever task it is in, so that the cut may
//   follow the threads;
// - oneDNN's sgemm, which runs most float products, does not (2.6.3, one thread: other bits in a
//   task of other sizes, for most large shapes; with several threads it also splits k), so that its
//   cut depends on the sizes alone.
#include "kernels/gemm.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm_gemv.h"
#include "kernels/gemm_scratch.h"
#include "kernels/gemm_stream.h"
#include "kernels/gemm_tile.h"
#include "kernels/gemm_weight.h"
#include "kernels/isa.h"
#include "kernels/onednn.h"
#include "kernels/reduce_lanes.h"
#include "kernels/tiles.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {
namespace {

using tile::divide_up;

/// How C is cut into tasks of equal size (but for the last ones).
struct Cut {
  int64_t rows, columns, row_tasks, col_tasks;
};

/// The time of a task in multiply-adds: kernels work on 8 rows by 48 columns, packing an element of
/// A or B costs about 40 multiply-adds, a call 20,000.
double task_cost(int64_t m, int64_t n, int64_t k) {
  const auto rows = static_cast<double>(divide_up(m, 8) * 8),
             columns = static_cast<double>(divide_up(n, 48) * 48);
  return (rows * columns + 40 * static_cast<double>(m + n)) * static_cast<double>(k) + 20e3;
}

/// The cut with the least time over 1, 2, 4 and 8 threads together, because it may depend on none
/// of them.
Cut choose_cut(int64_t m, int64_t n, int64_t k) {
  constexpr double kFork = 150e3;  // a parallel region costs 1-2 us
  // With t threads, c tasks take the time of ceil(c / t). 1 and 2 threads count for most.
  const auto rounds = [](int64_t c) {
    return static_cast<double>(2 * c + 4 * divide_up(c, 2) + 3 * divide_up(c, 4) +
                               2 * divide_up(c, 8));
  };
  Cut best{m, n, 1, 1};
  double best_time = task_cost(m, n, k) * rounds(1);
  for (int64_t row_cuts = 1; row_cuts <= 8; row_cuts *= 2)
    for (int64_t col_cuts = row_cuts == 1 ? 2 : 1; col_cuts <= 16; col_cuts *= 2) {
      const int64_t rows = divide_up(divide_up(m, row_cuts), 8) * 8;
      const int64_t columns = divide_up(divide_up(n, col_cuts), 16) * 16;
      const int64_t row_tasks = divide_up(m, rows), col_tasks = divide_up(n, columns);
      if (row_tasks != row_cuts || col_tasks != col_cuts) continue;
      const double time = rounds(row_tasks * col_tasks) * task_cost(rows, columns, k) + 9 * kFork;
      if (time < best_time) best_time = time, best = {rows, columns, row_tasks, col_tasks};
    }
  return best;
}

/// The cut for our own kernels: as many tasks as threads, with the least to multiply and to pack.
Cut cut_for_threads(int64_t m, int64_t n) {
  const int64_t threads = in_parallel_region() ? 1 : get_num_threads();
  Cut best{};
  double best_time = 0;
  for (int64_t row_tasks = 1; row_tasks <= threads; ++row_tasks) {
    if (threads % row_tasks != 0) continue;
    const int64_t rows = divide_up(m, row_tasks),
                  columns = divide_up(divide_up(n, threads / row_tasks), 32) * 32;
    // For each of k: packing an element of A costs 12 multiply-adds, of B 6.
    const auto time = static_cast<double>(rows) * static_cast<double>(columns) +
                      static_cast<double>(12 * rows + 6 * columns);
    if (best.rows != 0 && time >= best_time) continue;
    best_time = time, best = {rows, columns, divide_up(m, rows), divide_up(n, columns)};
  }
  return best;
}

/// Whether our own kernels beat oneDNN's in a large product of floats: for much of C, where the
/// free cut counts, and for long rows of a weight with few of an input (measured; by 3 to 40 %).
bool own_is_faster(int64_t m, int64_t n, int64_t k, bool b_in_columns) {
  if (isa() != Isa::V4) return false;
  return (m >= 768 && n >= 768 && static_cast<double>(m) * static_cast<double>(n) >= 2e6) ||
         (b_in_columns && m >= 28 && m <= 192 && n >= 64 && k >= 2048);
}

/// The cut for the kernel of a linear layer, by threads as well. Rows of the input are packed by
/// each task that reads them, and those of a task shall fit into its L2.
Cut cut_for_weight(int64_t m, int64_t n) {
  const int64_t threads = in_parallel_region() ? 1 : get_num_threads();
  Cut best{};
  double best_time = 0;
  for (int64_t row_tasks = 1; row_tasks <= threads; ++row_tasks) {
    if (threads % row_tasks != 0) continue;
    const int64_t rows = divide_up(divide_up(m, row_tasks), 32) * 32,
                  columns = divide_up(n, threads / row_tasks);
    const auto time = static_cast<double>(std::min(rows, m)) * static_cast<double>(columns) +
                      static_cast<double>(30 * rows + 2 * columns);
    if (best.rows != 0 && time >= best_time) continue;
    best_time = time, best = {rows, columns, divide_up(m, rows), divide_up(n, columns)};
  }
  return best;
}

/// Whether that kernel beats the others (measured: by 5 to 90 %, most for few rows).
bool weight_is_faster(int64_t m, int64_t n, int64_t k) {
  return weight::available() && m >= 8 && m <= 512 && n >= 32 && k >= 256;
}

/// The kernels in which the large operand streams past, where they beat the others: they do when it
/// comes from main memory (measured on GPT-2's gradients: by 3 to 14 %; in a cache it is sgemm that
/// wins by as much).
enum class Stream { No, FewRows, Short };
Stream stream_for(int64_t m, int64_t n, int64_t k, bool a_in_rows) {
  if (!stream::available()) return Stream::No;
  const double b_size = static_cast<double>(n) * static_cast<double>(k),
               c_size = static_cast<double>(m) * static_cast<double>(n);
  if (a_in_rows && m >= 96 && m <= 512 && b_size >= (n > 1024 ? 2e6 : 16e6)) return Stream::FewRows;
  if (!a_in_rows && m >= 2048 && n >= 512 && c_size >= 2e6 && k >= 128 && k <= 256)
    return Stream::Short;
  return Stream::No;
}

/// Whether BLAS can read the matrix as it is.
template <class T>
bool is_blas_layout(const MatrixView<const T>& x, int64_t rows, int64_t columns) {
  return (x.col_stride == 1 && x.row_stride >= std::max<int64_t>(columns, 1)) ||
         (x.row_stride == 1 && x.col_stride >= std::max<int64_t>(rows, 1));
}

/// c[i, j] += bias[j], by the thread that has just written c.
template <class T> struct BiasRows {
  template <Isa level>
  [[gnu::always_inline]] static void run(int64_t m, int64_t n, const T* bias, T* c,
                                         int64_t row_stride) {
    for (int64_t i = 0; i < m; ++i, c += row_stride) {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) c[j] = AddCombine()(c[j], bias[j]);
    }
  }
};

/// Runs an epilogue, which may be null, on a result that is complete.
template <class T>
void finish(const Epilogue* then, const T* c, int64_t m, int64_t n, int64_t ldc) {
  if (then == nullptr) return;
  parallel_for(0, m, std::max<int64_t>(1, 16384 / std::max<int64_t>(n, 1)),
               [&](int64_t i0, int64_t i1) {
                 (*then)({c + i0 * ldc, i1 - i0, n, ldc});
               });
}

/// A product of matrices with unit column stride in C; `bias`, which may be null, is added at last,
/// and `then`, which may be null, runs on each block that is complete.
template <class T> struct Product {
  int64_t m, n, k;
  T alpha;
  MatrixView<const T> a, b;
  T beta;
  const T* bias;
  T* c;
  int64_t ldc;
  const Epilogue* then = nullptr;

  Product part(int64_t row, int64_t column, int64_t rows, int64_t columns) const {
    return {std::min(rows, m - row),
            std::min(columns, n - column),
            k,
            alpha,
            a.at(row * a.row_stride),
            b.at(column * b.col_stride),
            beta,
            bias == nullptr ? nullptr : bias + column,
            c + row * ldc + column,
            ldc,
            then};
  }
  void finish_block() const {
    if (then != nullptr) (*then)({c, m, n, ldc});
  }
  double work() const {
    return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

template <class T> void run_own(const Product<T>& p) {
  tile::multiply_task(tile::current_tile<T>(), p.m, p.n, p.k, p.alpha, p.a, p.b, p.beta, p.bias,
                      p.c, p.ldc, p.then);
}

/// Whether a task is oneDNN's.
template <class T> bool is_sgemm(const Product<T>& p) {
  // Below this the own kernels win, because oneDNN takes 0.4 us for the least product.
  constexpr double kOwnWork = 40.0 * 40 * 40;
  return std::is_same_v<T, float> && p.work() > kOwnWork && is_blas_layout(p.a, p.m, p.k) &&
         is_blas_layout(p.b, p.k, p.n);
}

template <class T> void run_task(const Product<T>& p) {
  if constexpr (std::is_same_v<T, float>) {
    const MatrixView<const T>&a = p.a, &b = p.b;
    if (is_sgemm(p)) {
      const bool ta = a.col_stride != 1, tb = b.col_stride != 1;
      const onednn::OneThread one;
      dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, p.alpha, a.data,
                 ta ? a.col_stride : a.row_stride, b.data, tb ? b.col_stride : b.row_stride, p.beta,
                 p.c, p.ldc);
      if (p.bias != nullptr)
        IsaLoops<BiasRows<T>, int64_t, int64_t, const T*, T*, int64_t>::at(isa())(p.m, p.n, p.bias,
                                                                                  p.c, p.ldc);
      return p.finish_block();
    }
  }
  run_own(p);
}

template <class T> void scale(int64_t m, int64_t n, T beta, const MatrixView<T>& c) {
  if (beta == T(1)) return;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T& x = c.data[i * c.row_stride + j * c.col_stride];
      x = beta == T(0) ? T(0) : beta * x;
    }
}

/// A row-major copy in memory that `to` holds.
template <class T>
MatrixView<const T> copy_rows(const MatrixView<const T>& from, int64_t rows, int64_t columns,
                              T* to) {
  parallel_for(0, rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(columns, 1)),
               [&](int64_t i0, int64_t i1) {
                 for (int64_t i = i0; i < i1; ++i)
                   for (int64_t j = 0; j < columns; ++j)
                     to[i * columns + j] = from.data[i * from.row_stride + j * from.col_stride];
               });
  return {to, columns, 1};
}

/// A linear layer: B is a weight in rows, [n, k].
void run_weight(const Product<float>& p) {
  const Cut cut = cut_for_weight(p.m, p.n);
  parallel_chunks(cut.row_tasks * cut.col_tasks, [&](int64_t i) {
    const int64_t row = i / cut.col_tasks * cut.rows, column = i % cut.col_tasks * cut.columns;
    const Product<float> part = p.part(row, column, cut.rows, cut.columns);
    weight::multiply_task(part.m, part.n, part.k, part.a, part.b.data, part.b.col_stride, part.bias,
                          part.c, part.ldc, part.then);
  });
}

template <class T> bool is_for_weight(const Product<T>& p) {
  return std::is_same_v<T, float> && p.b.row_stride == 1 && p.alpha == 1 && p.beta == 0 &&
         weight_is_faster(p.m, p.n, p.k);
}

/// B is in rows.
void run_stream(const Product<float>& p, Stream kind) {
  (kind == Stream::FewRows ? stream::multiply_few_rows : stream::multiply_short)(
      {p.m, p.n, p.k, p.alpha, p.a, p.b.data, p.b.row_stride, p.beta, p.c, p.ldc,
       p.bias == nullptr ? p.then : nullptr});
  if (p.bias == nullptr) return;
  add_bias(p.m, p.n, p.bias, 1, p.c, p.ldc);
  finish(p.then, p.c, p.m, p.n, p.ldc);
}

/// m, n and k are positive.
template <class T> void run_product(const Product<T>& p) {
  if (p.work() < kTaskWork) return run_task(p);
  bool own = true;
  if constexpr (std::is_same_v<T, float>) {
    if (is_for_weight(p)) return run_weight(p);
    if (p.b.col_stride == 1)
      if (const Stream kind = stream_for(p.m, p.n, p.k, p.a.col_stride == 1); kind != Stream::No)
        return run_stream(p, kind);
    own = own_is_faster(p.m, p.n, p.k, p.b.col_stride != 1);
  }
  const Cut cut = own ? cut_for_threads(p.m, p.n) : choose_cut(p.m, p.n, p.k);
  parallel_chunks(cut.row_tasks * cut.col_tasks, [&](int64_t i) {
    const int64_t row = i / cut.col_tasks * cut.rows, column = i % cut.col_tasks * cut.columns;
    const Product<T> part = p.part(row, column, cut.rows, cut.columns);
    own ? run_own(part) : run_task(part);
  });
}

/// Bytes that a task of run_task or run_own takes for itself.
template <class T> int64_t task_scratch(const Product<T>& p, bool own) {
  return !own && is_sgemm(p) ? 0
                             : tile::task_scratch(tile::current_tile<T>(), p.m, p.n, p.k, p.a, p.b);
}

/// Bytes that the tasks of run_product take for themselves at a time.
template <class T> int64_t product_scratch(const Product<T>& p) {
  if (p.work() < kTaskWork) return task_scratch(p, false);
  const auto at_a_time = [](const Cut& cut) {
    return std::min<int64_t>(cut.row_tasks * cut.col_tasks, get_num_threads());
  };
  if (is_for_weight(p)) {
    const Cut cut = cut_for_weight(p.m, p.n);
    return at_a_time(cut) * weight::task_scratch(std::min(cut.rows, p.m), p.k);
  }
  if (std::is_same_v<T, float> && p.b.col_stride == 1)
    if (const Stream kind = stream_for(p.m, p.n, p.k, p.a.col_stride == 1); kind != Stream::No)
      return (kind == Stream::FewRows ? stream::few_rows_scratch : stream::short_scratch)(p.m, p.n,
                                                                                          p.k);
  const bool own = !std::is_same_v<T, float> || own_is_faster(p.m, p.n, p.k, p.b.col_stride != 1);
  const Cut cut = own ? cut_for_threads(p.m, p.n) : choose_cut(p.m, p.n, p.k);
  return at_a_time(cut) * task_scratch(p.part(0, 0, cut.rows, cut.columns), own);
}

/// `bias`, which may be null, goes with C in rows and m, n > 1 and k > 0 alone; `then` with C in
/// rows.
template <class T>
void gemm_real(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a,
               MatrixView<const T> b, T beta, MatrixView<T> c, const T* bias = nullptr,
               const Epilogue* then = nullptr) {
  if (m == 0 || n == 0) return;
  if (then != nullptr && (k == 0 || alpha == T(0) || m == 1 || n == 1)) {
    gemm_real(m, n, k, alpha, a, b, beta, c, bias);
    return finish(then, c.data, m, n, n);
  }
  if (k == 0 || alpha == T(0)) return scale(m, n, beta, c);
  // The stride of a dimension of size 1 means nothing: give it the value that BLAS wants.
  if (m == 1) a.row_stride = std::max(k, a.col_stride), c.row_stride = std::max(n, c.col_stride);
  if (k == 1) a.col_stride = a.row_stride == 1 ? m : 1, b.row_stride = std::max(n, b.col_stride);
  if (n == 1) b.col_stride = b.row_stride == 1 ? k : 1, c.col_stride = 1;
  if (n == 1) return gemv(m, k, alpha, a, b.data, b.row_stride, beta, c.data, c.row_stride);
  if (m == 1)
    return gemv(n, k, alpha, b.transposed(), a.data, a.col_stride, beta, c.data, c.col_stride);
  if (c.col_stride != 1) {
    if (c.row_stride == 1)
      return gemm_real(n, m, k, alpha, b.transposed(), a.transposed(), beta, c.transposed());
    const Scratch copy(m * n * static_cast<int64_t>(sizeof(T)));
    if (beta != T(0)) copy_rows<T>({c.data, c.row_stride, c.col_stride}, m, n, copy.as<T>());
    gemm_real(m, n, k, alpha, a, b, beta, MatrixView<T>{copy.as<T>(), n, 1});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        c.data[i * c.row_stride + j * c.col_stride] = copy.as<T>()[i * n + j];
    return;
  }
  const bool copy_a = !is_blas_layout(a, m, k), copy_b = !is_blas_layout(b, k, n);
  const Scratch a_copy(copy_a ? m * k * static_cast<int64_t>(sizeof(T)) : 0);
  const Scratch b_copy(copy_b ? k * n * static_cast<int64_t>(sizeof(T)) : 0);
  if (copy_a) a = copy_rows(a, m, k, a_copy.as<T>());
  if (copy_b) b = copy_rows(b, k, n, b_copy.as<T>());
  run_product<T>({m, n, k, alpha, a, b, beta, bias, c.data, c.row_stride, then});
}

/// Few large products: the threads share each. Of others each is one thread's.
bool shares_each(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const double work = static_cast<double>(m) * static_cast<double>(n) *
                      static_cast<double>(std::max<int64_t>(k, 1));
  return work >= 16 * kTaskWork && batch < 8;
}

}  // namespace

bool bgemm_is_by_matrix(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return !shares_each(batch, m, n, k);
}

template <class T>
void gemm_one_thread(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha,
                     const T* a, int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  const MatrixView<const T> b_view =
      transpose_b ? MatrixView<const T>{b, 1, ldb} : MatrixView<const T>{b, ldb, 1};
  if (m == 1)
    return gemv<T>(n, k, alpha, b_view.transposed(), a, transpose_a ? lda : 1, beta, c, 1);
  const MatrixView<const T> a_view =
      transpose_a ? MatrixView<const T>{a, 1, lda} : MatrixView<const T>{a, lda, 1};
  run_task<T>({m, n, k, alpha, a_view, b_view, beta, nullptr, c, ldc});
}
template void gemm_one_thread<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*,
                                     int64_t, const float*, int64_t, float, float*, int64_t);
template void gemm_one_thread<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*,
                                      int64_t, const double*, int64_t, double, double*, int64_t);

template <>
void gemm<float>(int64_t m, int64_t n, int64_t k, float alpha, MatrixView<const float> a,
                 MatrixView<const float> b, float beta, MatrixView<float> c) {
  gemm_real(m, n, k, alpha, a, b, beta, c);
}
template <>
void gemm<double>(int64_t m, int64_t n, int64_t k, double alpha, MatrixView<const double> a,
                  MatrixView<const double> b, double beta, MatrixView<double> c) {
  gemm_real(m, n, k, alpha, a, b, beta, c);
}

template <class T>
void gemm_then(int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a,
               MatrixView<const T> b, T beta, MatrixView<T> c, const Epilogue* then) {
  gemm_real<T>(m, n, k, alpha, a, b, beta, c, nullptr, then);
}
template void gemm_then<float>(int64_t, int64_t, int64_t, float, MatrixView<const float>,
                               MatrixView<const float>, float, MatrixView<float>, const Epilogue*);
template void gemm_then<double>(int64_t, int64_t, int64_t, double, MatrixView<const double>,
                                MatrixView<const double>, double, MatrixView<double>,
                                const Epilogue*);

template <class T>
void bgemm(int64_t batch, int64_t m, int64_t n, int64_t k, T alpha, MatrixView<const T> a,
           int64_t a_step, MatrixView<const T> b, int64_t b_step, T beta, MatrixView<T> c,
           int64_t c_step, const Epilogue* then) {
  if (batch == 0 || m == 0 || n == 0) return;
  constexpr bool kReal = std::is_same_v<T, float> || std::is_same_v<T, double>;
  const bool shared = shares_each(batch, m, n, k);
  // One B for all, and A and C without gaps between the batches: a single taller product.
  if (batch > 1 && b_step == 0 && a_step == m * a.row_stride && c_step == m * c.row_stride) {
    if constexpr (kReal)
      return gemm_real<T>(batch * m, n, k, alpha, a, b, beta, c, nullptr, then);
    else
      return gemm<T>(batch * m, n, k, alpha, a, b, beta, c);
  }
  const auto one = [&](int64_t i) {
    const MatrixView<T> to = c.at(i * c_step);
    if constexpr (kReal) {
      gemm_real<T>(m, n, k, alpha, a.at(i * a_step), b.at(i * b_step), beta, to, nullptr,
                   shared ? then : nullptr);
      if (then != nullptr && !shared) (*then)({to.data, m, n, n});
    } else {
      gemm<T>(m, n, k, alpha, a.at(i * a_step), b.at(i * b_step), beta, to);
    }
  };
  if (shared) {
    for (int64_t i = 0; i < batch; ++i) one(i);
    return;
  }
  const double work = static_cast<double>(m) * static_cast<double>(n) *
                      static_cast<double>(std::max<int64_t>(k, 1));
  const auto grain = static_cast<int64_t>(std::max(1.0, kTaskWork / work));
  parallel_for(0, batch, grain, [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0; i < i1; ++i) one(i);
  });
}

template <class T>
void add_bias(int64_t m, int64_t n, const T* bias, int64_t bias_stride, T* c, int64_t row_stride) {
  parallel_for(
      0, m, std::max<int64_t>(1, 32768 / std::max<int64_t>(n, 1)), [&](int64_t i0, int64_t i1) {
        if (bias_stride == 1)
          return IsaLoops<BiasRows<T>, int64_t, int64_t, const T*, T*, int64_t>::at(isa())(
              i1 - i0, n, bias, c + i0 * row_stride, row_stride);
        for (int64_t i = i0; i < i1; ++i)
          for (int64_t j = 0; j < n; ++j)
            c[i * row_stride + j] = AddCombine()(c[i * row_stride + j], bias[j * bias_stride]);
      });
}

template <class T>
void gemm_bias(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b,
               const T* bias, int64_t bias_stride, T* c, int64_t row_stride, const Epilogue* then) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (m > 1 && n > 1 && k > 0 && bias_stride == 1)
      return gemm_real<T>(m, n, k, T(1), a, b, T(0), {c, row_stride, 1}, bias, then);
  }
  gemm<T>(m, n, k, T(1), a, b, T(0), {c, row_stride, 1});
  add_bias<T>(m, n, bias, bias_stride, c, row_stride);
  finish(then, c, m, n, row_stride);
}

template <class T>
int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, MatrixView<const T> a,
                     MatrixView<const T> b) {
  if (m == 0 || n == 0 || k == 0) return 0;
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    if (m == 1 || n == 1) return 0;  // sums of some rows at most
    const bool copy_a = !is_blas_layout(a, m, k), copy_b = !is_blas_layout(b, k, n);
    if (copy_a) a = {nullptr, k, 1};
    if (copy_b) b = {nullptr, n, 1};
    return ((copy_a ? m * k : 0) + (copy_b ? k * n : 0)) * kSize +
           product_scratch<T>({m, n, k, T(1), a, b, T(0), nullptr, nullptr, n});
  } else if constexpr (is_floating(dtype_of<T>)) {
    const auto as_float = [](const MatrixView<const T>& x, int64_t rows, int64_t columns) {
      const bool transposed = x.row_stride == 1 && x.col_stride != 1;
      return transposed ? MatrixView<const float>{nullptr, 1, rows}
                        : MatrixView<const float>{nullptr, columns, 1};
    };
    return (m * k + k * n + m * n) * 4 +
           gemm_scratch<float>(m, n, k, as_float(a, m, k), as_float(b, k, n));
  } else {
    return b.col_stride == 1 ? 0 : k * n * kSize;
  }
}

#define PELLUCID_INSTANTIATE(T)                                                                   \
  template int64_t gemm_scratch<T>(int64_t, int64_t, int64_t, MatrixView<const T>,                \
                                   MatrixView<const T>);                                          \
  template void bgemm<T>(int64_t, int64_t, int64_t, int64_t, T, MatrixView<const T>, int64_t,     \
                         MatrixView<const T>, int64_t, T, MatrixView<T>, int64_t,                 \
                         const Epilogue*);                                                        \
  template void add_bias<T>(int64_t, int64_t, const T*, int64_t, T*, int64_t);                    \
  template void gemm_bias<T>(int64_t, int64_t, int64_t, MatrixView<const T>, MatrixView<const T>, \
                             const T*, int64_t, T*, int64_t, const Epilogue*);
PELLUCID_INSTANTIATE(float)
PELLUCID_INSTANTIATE(double)
PELLUCID_INSTANTIATE(Half)
PELLUCID_INSTANTIATE(BFloat16)
PELLUCID_INSTANTIATE(int64_t)
PELLUCID_INSTANTIATE(int32_t)
PELLUCID_INSTANTIATE(int16_t)
PELLUCID_INSTANTIATE(int8_t)
PELLUCID_INSTANTIATE(uint8_t)
PELLUCID_INSTANTIATE(bool)
#undef PELLUCID_INSTANTIATE

}  // namespace pellucid::kernels
