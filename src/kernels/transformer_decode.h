// One token through one pre-norm Transformer layer with a cache of keys and values, in a single
// parallel region: what decoding does between two reads of a weight is too short for a region, or
// an op, each. Float and double. The bits are those of the ops one by one, and do not depend on the
// number of threads.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/gemm_gemv.h"
#include "kernels/pointwise_loops.h"

namespace pellucid::kernels {

/// A layer's parameters, its cache and where the token stands. Arrays have no gaps.
template <class T> struct DecodeLayer {
  /// y = weight x + bias; the bias is optional.
  struct Linear {
    RowsView<T> weight;
    const T* bias = nullptr;
  };
  /// Layer norm; weight and bias are optional.
  struct Norm {
    const T* weight = nullptr;
    const T* bias = nullptr;
    double eps = 1e-5;
  };
  int64_t width = 0;  ///< of the token
  int64_t heads = 1;
  int64_t position = 0;  ///< of the token: so many are cached before it
  Norm norm1, norm2;
  Linear qkv;                  ///< [3 width, width]: query, key and value, each head by head
  Linear out;                  ///< [width, width]
  Linear fc;                   ///< [hidden, width]
  Linear proj;                 ///< [width, hidden]
  HeadTensor<T> keys, values;  ///< the cache; position `position` is written
  InnerLoop activation = nullptr;
  const void* formula = nullptr;  ///< what `activation` takes first
};

/// y = x + out(attention(qkv(norm1(x)))), and out = y + proj(activation(fc(norm2(y)))); x and out
/// have `width` elements and may not overlap.
template <class T> void decode_layer(const DecodeLayer<T>& layer, const T* x, T* out);

}  // namespace pellucid::kernels
