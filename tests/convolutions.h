// Convolutions of every kind, one for each way that src/kernels/conv.cpp takes.
#pragma once

#include <functional>
#include <vector>

#include "pellucid/ops.h"

namespace pellucid::test {

struct Convolution {
  const char* name;
  std::vector<int64_t> input, weight;
  std::function<Tensor(const Tensor&, const Tensor&)> f;
  DType dtype = kFloat32;
};

inline std::vector<Convolution> convolutions() {
  using Ints = std::vector<int64_t>;
  const auto conv = [](const Ints& stride, const Ints& padding, const Ints& dilation = {1, 1},
                       int64_t groups = 1) {
    return [=](const Tensor& x, const Tensor& w) {
      return conv2d(x, w, {}, stride, padding, dilation, groups);
    };
  };
  const auto transposed = [](const Ints& stride, const Ints& padding) {
    return [=](const Tensor& x, const Tensor& w) {
      return conv_transpose2d(x, w, {}, stride, padding);
    };
  };
  return {{"Winograd, by tiles", {2, 32, 26, 26}, {64, 32, 3, 3}, conv({1, 1}, {1, 1})},
          {"Winograd, by panels", {2, 256, 16, 16}, {256, 256, 3, 3}, conv({1, 1}, {1, 1})},
          {"direct", {8, 16, 14, 14}, {32, 16, 5, 5}, conv({1, 1}, {0, 0})},
          {"strided", {2, 16, 9, 9}, {32, 16, 3, 3}, conv({2, 2}, {1, 1})},
          {"1x1", {2, 64, 8, 8}, {32, 64, 1, 1}, conv({2, 2}, {0, 0})},
          {"depthwise", {2, 32, 9, 9}, {32, 1, 3, 3}, conv({1, 1}, {1, 1}, {1, 1}, 32)},
          {"grouped", {2, 32, 9, 9}, {32, 8, 3, 3}, conv({1, 1}, {1, 1}, {1, 1}, 4)},
          {"odd", {2, 7, 9, 8}, {6, 7, 3, 2}, conv({1, 2}, {0, 1}, {2, 1})},
          {"transposed", {2, 16, 7, 7}, {16, 32, 3, 3}, transposed({2, 2}, {1, 1})},
          {"transposed, Winograd", {2, 64, 24, 24}, {64, 32, 3, 3}, transposed({1, 1}, {1, 1})},
          {"double", {2, 8, 9, 9}, {16, 8, 3, 3}, conv({1, 1}, {1, 1}), kFloat64},
          {"double, transposed", {2, 8, 5, 5}, {8, 4, 3, 3}, transposed({2, 2}, {1, 1}), kFloat64},
          {"bfloat16", {2, 16, 9, 9}, {32, 16, 3, 3}, conv({1, 1}, {1, 1}), kBFloat16},
          {"1-D",
           {2, 16, 30},
           {32, 16, 3},
           [](const Tensor& x, const Tensor& w) { return conv1d(x, w); }},
          {"3-D", {1, 16, 5, 6, 6}, {16, 16, 3, 3, 3}, [](const Tensor& x, const Tensor& w) {
             return conv3d(x, w);
           }}};
}

}  // namespace pellucid::test
