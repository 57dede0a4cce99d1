// The steps of a layer for one token, and where the threads meet. A thread computes the query, key
// and value of its own heads and their attention, so that it need not wait in between; norms are
// computed by each thread for itself. Rows of a product do not depend on each other, so it does not
// matter for the bits who computes which. While a thread ends one product, it asks for the first
// lines of its next weights.
#include "kernels/transformer_decode.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "kernels/gemm.h"
#include "kernels/gemm_scratch.h"
#include "kernels/norm.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {
namespace {

/// What the threads of a token share, each array [width] but where it says so.
template <class T> struct Shared {
  const T* x;
  T* out;
  T* qkv;       ///< [3 width]
  T* attended;  ///< the heads' results
  T* middle;    ///< x + attention
  T* hidden;    ///< [hidden], before the activation
  T* active;    ///< [hidden], after it
};

/// One thread's share of a layer.
template <class T> class Share {
 public:
  Share(const DecodeLayer<T>& layer, const Shared<T>& shared, TeamMember& team)
      : layer_(layer),
        shared_(shared),
        team_(team),
        size_(layer.width / layer.heads),
        first_head_(team.begin(layer.heads)),
        heads_(team.end(layer.heads) - first_head_),
        memory_((layer.width + heads_) * static_cast<int64_t>(sizeof(T))),
        normed_(memory_.as<T>()) {}

  void run() {
    normalize(layer_.norm1, shared_.x);
    project_heads();
    attend();
    team_.meet();
    product(layer_.out, shared_.attended, shared_.middle, layer_.fc);
    add_residual(layer_.out, shared_.x, shared_.middle);
    team_.meet();
    normalize(layer_.norm2, shared_.middle);
    product(layer_.fc, normed_, shared_.hidden, layer_.proj);
    activate();
    team_.meet();
    product(layer_.proj, shared_.active, shared_.out, {});
    add_residual(layer_.proj, shared_.middle, shared_.out);
  }

 private:
  using Linear = typename DecodeLayer<T>::Linear;
  using Norm = typename DecodeLayer<T>::Norm;

  RowsView<T> rows_of(const RowsView<T>& all) const {
    const int64_t first = team_.begin(all.rows);
    return {all.data + first * all.k, team_.end(all.rows) - first, all.k};
  }

  void normalize(const Norm& norm, const T* x) {
    layer_norm({.type = dtype_of<T>,
                .rows = 1,
                .n = layer_.width,
                .x = x,
                .weight = norm.weight,
                .bias = norm.bias,
                .eps = norm.eps},
               normed_, nullptr, nullptr);
  }

  /// The rows of this thread's heads among the queries (0), keys (1) or values (2).
  RowsView<T> head_rows(int64_t which) const {
    const int64_t row = which * layer_.width + first_head_ * size_;
    return {layer_.qkv.weight.data + row * layer_.width, heads_ * size_, layer_.width};
  }

  void project_heads() {
    for (int64_t which = 0; which < 3; ++which) {
      const int64_t row = which * layer_.width + first_head_ * size_;
      gemv_one_thread<T>(head_rows(which), normed_, shared_.qkv + row,
                         which < 2 ? head_rows(which + 1) : rows_of(layer_.out.weight));
      if (layer_.qkv.bias != nullptr)
        add_bias<T>(1, heads_ * size_, layer_.qkv.bias + row, 1, shared_.qkv + row, 0);
    }
  }

  void attend() {
    if (heads_ == 0) return;
    const T* const query = shared_.qkv + first_head_ * size_;
    for (int64_t h = 0; h < heads_; ++h) {
      const T* const key = query + layer_.width + h * size_;
      std::copy_n(key, size_, layer_.keys.at(0, first_head_ + h, layer_.position));
      std::copy_n(key + layer_.width, size_, layer_.values.at(0, first_head_ + h, layer_.position));
    }
    const auto own = [&](const HeadTensor<T>& all) {
      return HeadTensor<const T>{all.at(0, first_head_, 0), all.strides};
    };
    const HeadStrides row{0, size_, 0};
    attention_forward<T>(
        {.H = heads_, .Hkv = heads_, .S = layer_.position + 1, .D = size_, .Dv = size_},
        {.scale = 1 / std::sqrt(static_cast<double>(size_))}, {query, row}, own(layer_.keys),
        own(layer_.values), {shared_.attended + first_head_ * size_, row}, normed_ + layer_.width);
  }

  void product(const Linear& linear, const T* x, T* y, const Linear& next) const {
    const int64_t first = team_.begin(linear.weight.rows);
    const RowsView<T> rows = rows_of(linear.weight);
    gemv_one_thread<T>(rows, x, y + first, rows_of(next.weight));
    if (linear.bias != nullptr) add_bias<T>(1, rows.rows, linear.bias + first, 1, y + first, 0);
  }

  void add_residual(const Linear& linear, const T* x, T* y) const {
    for (int64_t i = team_.begin(linear.weight.rows); i < team_.end(linear.weight.rows); ++i)
      y[i] = x[i] + y[i];
  }

  void activate() const {
    const int64_t rows = layer_.fc.weight.rows, first = team_.begin(rows);
    const void* const from = shared_.hidden + first;
    layer_.activation(layer_.formula, shared_.active + first, &from, team_.end(rows) - first);
  }

  const DecodeLayer<T>& layer_;
  const Shared<T>& shared_;
  TeamMember& team_;
  int64_t size_, first_head_, heads_;  // size_: of a head
  Scratch memory_;
  T* normed_;  // [width], then one number for each of the heads
};

}  // namespace

template <class T> void decode_layer(const DecodeLayer<T>& layer, const T* x, T* out) {
  const int64_t width = layer.width, hidden = layer.fc.weight.rows;
  const Scratch memory((5 * width + 2 * hidden) * static_cast<int64_t>(sizeof(T)));
  T* const qkv = memory.as<T>();
  T *const attended = qkv + 3 * width, *const middle = attended + width;
  const Shared<T> shared{x, out, qkv, attended, middle, middle + width, middle + width + hidden};
  // A layer of fewer weights is done before a second thread has begun.
  constexpr int64_t kParallel = 32768;
  const int most = layer.qkv.weight.rows * width < kParallel ? 1 : std::numeric_limits<int>::max();
  parallel_team(most, [&](TeamMember& team) { Share<T>(layer, shared, team).run(); });
}

template void decode_layer<float>(const DecodeLayer<float>&, const float*, float*);
template void decode_layer<double>(const DecodeLayer<double>&, const double*, double*);

}  // namespace pellucid::kernels
