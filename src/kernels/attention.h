// Scaled dot product attention over raw pointers, in tiles: out = softmax(scale q kᵀ + mask) v
// without ever holding the T x S matrix, and its gradient by recomputation. Float and double. Bits
// do not depend on the number of threads. The gradient of the mask is not computed here.
#pragma once

#include <array>
#include <cstdint>

namespace pellucid::kernels {

/// Sizes: q is [B, H, T, D], k [B, Hkv, S, D], v [B, Hkv, S, Dv], out [B, H, T, Dv]; Hkv divides H.
struct AttentionShape {
  int64_t B = 1, H = 1, Hkv = 1, T = 1, S = 1, D = 1, Dv = 1;
};

/// Elements between neighbours along batch, head and position; the last dimension has stride 1.
using HeadStrides = std::array<int64_t, 3>;

template <class T> struct HeadTensor {
  T* data = nullptr;
  HeadStrides strides{};
  T* at(int64_t b, int64_t h, int64_t t) const {
    return data + b * strides[0] + h * strides[1] + t * strides[2];
  }
};

/// What forward and backward share.
template <class T> struct AttentionOptions {
  double scale = 1;
  bool is_causal =
      false;  ///< position i sees positions j <= i, counted from the top left as in PyTorch
  const T* mask = nullptr;                ///< added to the scores, or
  const bool* bool_mask = nullptr;        ///< false hides a position; at most one of the two
  std::array<int64_t, 4> mask_strides{};  ///< along B, H, T, S; 0 where it is broadcast
  double dropout = 0;                     ///< the probability that a weight is dropped
  uint64_t seed = 0, offset = 0;  ///< the Philox stream of the dropout, and its first counter
};

/// How many Philox counters a call with dropout uses, from `offset` on.
inline int64_t attention_dropout_counters(const AttentionShape& s) {
  return s.B * s.H * s.T * ((s.S + 3) / 4);
}

/// Writes out, and logsumexp [B, H, T] (contiguous) of the scaled and masked scores. A row that
/// sees nothing gives 0 as in PyTorch 2.13, and a logsumexp of +infinity, from which backward finds
/// weights of 0.
template <class T>
void attention_forward(const AttentionShape& shape, const AttentionOptions<T>& options,
                       HeadTensor<const T> q, HeadTensor<const T> k, HeadTensor<const T> v,
                       HeadTensor<T> out, T* logsumexp);

/// The most bytes that attention_forward and attention_backward take for themselves, without what
/// their small products pack.
template <class T> int64_t attention_scratch(const AttentionShape& shape);
template <class T> int64_t attention_backward_scratch(const AttentionShape& shape, bool dropout);

/// Writes dq, dk and dv.
template <class T>
void attention_backward(const AttentionShape& shape, const AttentionOptions<T>& options,
                        HeadTensor<const T> q, HeadTensor<const T> k, HeadTensor<const T> v,
                        HeadTensor<const T> out, const T* logsumexp, HeadTensor<const T> dout,
                        HeadTensor<T> dq, HeadTensor<T> dk, HeadTensor<T> dv);

}  // namespace pellucid::kernels
