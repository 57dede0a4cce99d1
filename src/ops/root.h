// For kernels that compute their result in blocks, so that other ops can follow on each block while
// it is in a cache: products, convolutions and batch norm (kernels/tiles.h, core/fuse.h).
#pragma once

#include "kernels/tiles.h"
#include "pellucid/op.h"

namespace pellucid {

/// Whether the kernel was only asked what it would run: then it has told. `whole_rows`: no block
/// ends within a row.
inline bool tell_root(const Call& c, bool whole_rows = false) {
  kernels::TileStep* const step = c.described();
  if (!step || step->epilogue) return false;
  const DType type = c.out().dtype();
  step->root = (type == kFloat32 || type == kFloat64) && !c.in_place();
  step->whole_rows = whole_rows;
  return true;
}

/// What follows on each block of the result; null in a plain call.
inline const kernels::Epilogue* epilogue_of(const Call& c) {
  return c.described() ? c.described()->epilogue : nullptr;
}

}  // namespace pellucid
