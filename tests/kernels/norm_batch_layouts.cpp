// Batch norm gives the same in both layouts, for numbers of channels below, at and above what its
// loops take at a time, and more pixels than one block of lines.
#include <doctest/doctest.h>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {

struct Result {
  Tensor y, dx, dw, db;
};

Result train(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& dy) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor w = weight.clone().requires_grad_(), b = bias.clone().requires_grad_();
  const Tensor y = batch_norm(leaf, w, b, {}, {}, true, 0.1, 1e-5, false);
  y.backward(dy);
  return {y.detach(), leaf.grad(), w.grad(), b.grad()};
}

void check_layouts(int64_t channels, int64_t size, DType type, double tolerance) {
  CAPTURE(channels);
  manual_seed(0);
  const Tensor x = (randn({3, channels, size, size}) * 2 + 1).to(type),
               dy = randn({3, channels, size, size}).to(type), weight = rand({channels}).to(type),
               bias = randn({channels}).to(type);
  const Result rows = train(x, weight, bias, dy);
  const Result last = train(x.contiguous(MemoryFormat::ChannelsLast), weight, bias,
                            dy.contiguous(MemoryFormat::ChannelsLast));
  CHECK(allclose(rows.y, last.y, tolerance, tolerance));
  CHECK(allclose(rows.dx, last.dx, tolerance, tolerance));
  CHECK(allclose(rows.dw, last.dw, tolerance, tolerance * static_cast<double>(size * size)));
  CHECK(allclose(rows.db, last.db, tolerance, tolerance * static_cast<double>(size * size)));
}

}  // namespace

TEST_CASE("batch norm: channels-last equals row-major") {
  for (int64_t channels : {1, 5, 32, 64, 70, 128, 200}) {
    check_layouts(channels, 7, kFloat64, 1e-11);
    check_layouts(channels, 7, kFloat32, 2e-5);
  }
  check_layouts(64, 40, kFloat32, 1e-4);
}
