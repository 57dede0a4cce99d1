// Resampling along one dimension: every output is a weighted sum of a few neighbouring inputs, so
// nearest, linear, cubic and area are tables of weights, and a backward is the transposed table.
#pragma once

#include <cstdint>
#include <vector>

namespace pellucid::kernels {

/// The weights of one dimension; output o is the sum of weight[k] * input[index[k]] for k from
/// begin[o] to begin[o + 1].
struct ResampleTable {
  std::vector<int64_t> begin;
  std::vector<int64_t> index;
  std::vector<double> weight;
};

/// The table that adds up gradients of outputs into inputs.
ResampleTable transposed_table(const ResampleTable& table, int64_t inputs);

/// y [outer, outputs, inner] from x [outer, inputs, inner].
template <class T>
void resample(const ResampleTable& table, int64_t outer, int64_t inputs, int64_t inner, const T* x,
              T* y);

/// The same of bytes, rounded to the nearest with weights of 16 bits, as PyTorch and Pillow do.
void resample_bytes(const ResampleTable& table, int64_t outer, int64_t inputs, int64_t inner,
                    const uint8_t* x, uint8_t* y);

}  // namespace pellucid::kernels
