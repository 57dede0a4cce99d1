// Windows of images as columns and back, over raw pointers: what unfold and fold do. Images are
// [N, C, H, W], columns [N, C KH KW, OH OW], both without gaps. Bits do not depend on threads.
#pragma once

#include "kernels/conv.h"

namespace pellucid::kernels {

/// columns[n, (c, kh, kw), (oh, ow)] = the pixel that tap (kh, kw) of window (oh, ow) sees, 0 in
/// the padding. Of the shape, O, groups and the depth are not read.
template <class T> void image_to_columns(const ConvShape& shape, const T* image, T* columns);

/// The transpose: every entry of columns is added to the pixel it was read from.
template <class T> void columns_to_image(const ConvShape& shape, const T* columns, T* image);

}  // namespace pellucid::kernels
