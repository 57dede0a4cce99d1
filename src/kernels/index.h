// Reading and writing by index: gather, scatter, index_select, index_add, embedding, advanced
// indexing, one_hot, tril. Indices are int64 and must have been checked with the functions at the
// top before anything is written. Where an index occurs more than once, writes and sums happen in
// the order of the indices, whatever the threads. Strides count elements; element_bytes is 1, 2, 4
// or 8.
#pragma once

#include <cstdint>
#include <span>

#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"

namespace pellucid::kernels {

/// The position (row-major) of the first index outside [0, limit), or outside [-limit, limit) if
/// negatives wrap; -1 if all are good.
int64_t first_bad_index(const int64_t* index, IntArrayRef sizes, IntArrayRef strides, int64_t limit,
                        bool wrap);

/// A gather or scatter along `dim`: sizes are those of the index.
struct GatherArgs {
  IntArrayRef sizes;
  int64_t dim = 0;
  const int64_t* index = nullptr;
  IntArrayRef index_strides;
  IntArrayRef self_strides;  ///< of the array that the index points into
  IntArrayRef
      other_strides;  ///< of the result of gather, or the source of scatter (zeros for one value)
  int64_t limit =
      0;  ///< indices must be below it, and are looked at on the way; 0: known to be good
  /// For scatters along dense lines: what self, laid out alike, is copied from first, line by line
  /// of `limit` elements, so that each line is in cache when it is written to; null: nothing.
  const void* initial = nullptr;
  bool zero_lines = false;  ///< instead of `initial`: each such line starts from zeros
};
// Each of the four returns whether all indices were good; lines with others are left out.
/// out[…i…] = self[…index[i]…].
bool gather(int64_t element_bytes, const GatherArgs& args, const void* self, void* out);
/// self[…index[i]…] = source[…i…]; the last one stays.
bool scatter(int64_t element_bytes, const GatherArgs& args, void* self, const void* source);
/// self[…index[i]…] += source[…i…].
bool scatter_add(DType type, const GatherArgs& args, void* self, const void* source);
/// self[…index[i]…] *= source[…i…].
bool scatter_multiply(DType type, const GatherArgs& args, void* self, const void* source);
/// self[…, index, …] = the greater (or the less) of it and source; NaN wins.
bool scatter_extreme(DType type, bool greatest, const GatherArgs& args, void* self,
                     const void* source);

/// out[o, i, :] = in[o, index[i], :] of contiguous in [outer, limit, inner]; embedding's forward
/// with outer 1.
void index_select(int64_t element_bytes, const void* in, int64_t outer, int64_t limit,
                  int64_t inner, const int64_t* index, int64_t n, void* out);
/// self[o, index[i], :] += alpha source[o, i, :], all contiguous.
void index_add(DType type, void* self, int64_t outer, int64_t limit, int64_t inner,
               const int64_t* index, int64_t n, const void* source, double alpha);
/// dweight [limit, inner] = 0, then dweight[index[i]] += dy[i]; rows of padding_index (negative:
/// none) stay 0. 16-bit floats sum in float32.
void embedding_backward(DType type, const void* dy, const int64_t* index, int64_t n, int64_t limit,
                        int64_t inner, int64_t padding_index, void* dweight);

/// Advanced indexing: one index tensor, broadcast to the common shape by its strides, and the dim
/// it indexes.
struct IndexTensor {
  const int64_t* index = nullptr;
  IntArrayRef strides;
  int64_t limit = 0;   ///< size of the indexed dim
  int64_t stride = 0;  ///< of the indexed dim
};
/// What was wrong: `tensor` is -1 if nothing was, else that tensor's element `value` at `position`
/// of the common shape.
struct BadIndex {
  int64_t tensor = -1, position = 0, value = 0;
};
/// offsets[p] = sum of wrapped index times stride over the tensors, for each position p of the
/// common shape.
BadIndex index_offsets(std::span<const IndexTensor> tensors, IntArrayRef sizes, int64_t* offsets);

/// self[o, p, i] with offset outer(o) + offsets[p] + inner(i); `other` (result or values) has its
/// own strides for outer, p and inner.
struct IndexArgs {
  IntArrayRef outer_sizes, outer_self, outer_other;
  const int64_t* offsets = nullptr;
  int64_t n = 0, other_stride = 1;
  IntArrayRef inner_sizes, inner_self, inner_other;
};
void index_get(int64_t element_bytes, const IndexArgs& args, const void* self, void* out);
void index_put(int64_t element_bytes, const IndexArgs& args, void* self, const void* values);
void index_put_add(DType type, const IndexArgs& args, void* self, const void* values);

/// out [n, classes] of int64, 1 at the index and 0 elsewhere.
void one_hot(const int64_t* index, int64_t n, int64_t classes, int64_t* out);
/// Copies contiguous [batch, rows, columns] keeping column <= row + diagonal (lower) or column >=
/// row + diagonal; else 0.
void tril_triu(int64_t element_bytes, const void* in, int64_t batch, int64_t rows, int64_t columns,
               int64_t diagonal, bool lower, void* out);

}  // namespace pellucid::kernels
