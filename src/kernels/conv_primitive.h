// The oneDNN primitives of convolution, built on first use and kept in a bounded cache. How they
// are used is in conv.cpp.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <memory>

#include "kernels/conv.h"

namespace pellucid::kernels::conv_primitive {

enum class Kind : int { Forward, BackwardData, BackwardWeights };

struct Key {
  ConvShape shape;
  Kind kind;
  bool bias;
  int threads;
  bool operator==(const Key&) const = default;
};

/// A primitive with the descriptions of what it reads and writes.
struct Convolution {
  Key key;
  dnnl::primitive run;
  dnnl::primitive
      pack;  // between plain and the primitive's own weights; empty if they are the same
  dnnl::memory::desc x, y, plain_weights, weights, bias, scratchpad;
  bool by_products =
      false;  // oneDNN unfolds images and multiplies, in pieces that depend on threads
};

/// The primitive of a key, which must be asked for with as many OpenMP threads set as the key says.
std::shared_ptr<Convolution> get(const Key& key, PrimitiveSlot* slot = nullptr);

inline int64_t size_of(const dnnl::memory::desc& d) { return static_cast<int64_t>(d.get_size()); }

}  // namespace pellucid::kernels::conv_primitive
