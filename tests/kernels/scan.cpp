// Cumulative sums and products along any dim, forwards and backwards.
#include "kernels/scan.h"

#include "reduce_support.h"

using namespace pellucid;
using namespace pellucid::kernels;
using namespace pellucid::test;

namespace {

template <class In, class Out>
void check(ScanOp op, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t dim,
           bool reverse, double tolerance) {
  INFO("op " << static_cast<int>(op) << " sizes " << to_string(sizes) << " strides "
             << to_string(strides) << " dim " << dim << " reverse " << reverse);
  int64_t extent = 1, count = 1;
  std::vector<int64_t> out_strides(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    extent += (sizes[i] - 1) * strides[i];
    out_strides[i] = count;
    count *= sizes[i];
  }
  const auto x = random_vector<In>(extent, 1, -3, 4);
  const auto y = at_every_level([&] {
    std::vector<Out> out(static_cast<size_t>(count));
    scan({.op = op,
          .in_type = dtype_of<In>,
          .in = x.data(),
          .out_type = dtype_of<Out>,
          .out = out.data(),
          .sizes = sizes,
          .in_strides = strides,
          .out_strides = out_strides,
          .dim = dim,
          .reverse = reverse});
    return out;
  });
  const int64_t n = sizes.empty() ? 1 : sizes[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < count; ++i) {
    int64_t base = 0, rest = i, position = 0;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
      if (static_cast<int64_t>(d) == dim)
        position = rest % sizes[d];
      else
        base += rest % sizes[d] * strides[d];
    }
    long double want = op == ScanOp::Sum ? 0 : 1;
    for (int64_t k = reverse ? position : 0; k < (reverse ? n : position + 1); ++k) {
      const auto v = static_cast<long double>(x[static_cast<size_t>(
          base + k * (sizes.empty() ? 0 : strides[static_cast<size_t>(dim)]))]);
      want = op == ScanOp::Sum ? want + v : want * v;
    }
    INFO("element " << i);
    REQUIRE(close(static_cast<double>(y[static_cast<size_t>(i)]), want, tolerance));
  }
}

}  // namespace

TEST_CASE("scan: sums and products along every dim") {
  for (const bool reverse : {false, true}) {
    check<float, float>(ScanOp::Sum, {1300}, {1}, 0, reverse, 1e-6);
    check<float, float>(ScanOp::Sum, {}, {}, 0, reverse, 0);
    for (int64_t dim = 0; dim < 3; ++dim) {
      check<double, double>(ScanOp::Sum, {4, 30, 20}, {600, 20, 1}, dim, reverse, 1e-13);
      check<float, float>(ScanOp::Prod, {4, 5, 20}, {1, 4, 20}, dim, reverse, 1e-5);
      check<int32_t, int64_t>(ScanOp::Sum, {6, 7, 8}, {56, 8, 1}, dim, reverse, 0);
      check<BFloat16, float>(ScanOp::Sum, {6, 7, 8}, {112, 16, 2}, dim, reverse, 1e-6);
    }
    check<float, float>(ScanOp::Sum, {60, 1200}, {1200, 1}, 0, reverse, 1e-6);
    check<float, float>(ScanOp::Sum, {19, 1200}, {1200, 1}, 1, reverse, 1e-6);  // lines abreast
  }
}

TEST_CASE("scan: a long float32 sum is accurate, int64 wraps, nothing is fine") {
  std::vector<float> x(1 << 20, 0.1f), y(x.size());
  const int64_t n = 1 << 20, one = 1;
  scan({.op = ScanOp::Sum,
        .in_type = kFloat32,
        .in = x.data(),
        .out_type = kFloat32,
        .out = y.data(),
        .sizes = n,
        .in_strides = one,
        .out_strides = one});
  CHECK(close(y.back(), static_cast<long double>(0.1f) * n, 1e-7));
  const std::vector<int64_t> big = {INT64_MAX, 1};
  std::vector<int64_t> sums(2);
  const int64_t two = 2, zero = 0;
  scan({.op = ScanOp::Sum,
        .in_type = kInt64,
        .in = big.data(),
        .out_type = kInt64,
        .out = sums.data(),
        .sizes = two,
        .in_strides = one,
        .out_strides = one});
  CHECK(sums[1] == INT64_MIN);
  scan({.op = ScanOp::Sum,
        .in_type = kInt64,
        .in = nullptr,
        .out_type = kInt64,
        .out = nullptr,
        .sizes = zero,
        .in_strides = one,
        .out_strides = one});
}
