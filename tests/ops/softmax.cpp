// softmax and log_softmax against a plain loop in long double, over every dim and stride, and at
// the edges.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "pellucid/pellucid.h"

using namespace pellucid;

namespace {
/// The softmax of a float64 tensor along its last dim.
Tensor expected(const Tensor& x, bool log) {
  const Tensor in = x.contiguous(), out = empty(in.sizes(), kFloat64);
  const int64_t n = in.size(-1);
  for (int64_t row = 0; row < in.numel() / n; ++row) {
    const double* a = in.data_ptr<double>() + row * n;
    long double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<long double>(a[i]));
    for (int64_t i = 0; i < n; ++i)
      out.data_ptr<double>()[row * n + i] = static_cast<double>(
          log ? a[i] - std::log(sum) : std::exp(static_cast<long double>(a[i])) / sum);
  }
  return out;
}
}  // namespace

TEST_CASE("softmax over every dim of strided tensors") {
  const Tensor x = randn({3, 5, 17}, kFloat64);
  for (const Tensor& v : {x, x.permute({2, 0, 1}), x.slice(2, 1, 16, 3)})
    for (int64_t d = 0; d < 3; ++d) {
      const Tensor last = v.movedim(d, -1);
      CHECK(allclose(v.softmax(d).movedim(d, -1), expected(last, false), 1e-13, 1e-15));
      CHECK(allclose(v.log_softmax(d).movedim(d, -1), expected(last, true), 1e-13, 1e-13));
    }
}

TEST_CASE("softmax in 16-bit floats rounds the float32 result") {
  const Tensor x = randn({4, 100}).to(kBFloat16);
  CHECK(equal(x.softmax(1), x.to(kFloat32).softmax(1).to(kBFloat16)));
}

TEST_CASE("softmax: large values, -inf, and results that add up") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(equal(tensor({1e4, 0.0}).softmax(0), tensor({1.0, 0.0})));
  CHECK(equal(tensor({0.0, -inf}).softmax(0), tensor({1.0, 0.0})));
  CHECK(std::isnan(tensor({-inf, -inf}).softmax(0)[0].item<double>()));
  CHECK(allclose(randn({64, 1000}).softmax(1).sum(1), ones({64})));
  CHECK(tensor(2.0).softmax(0).item<double>() == 1);
  CHECK(tensor({1, 2}).softmax(0, kFloat64).dtype() == kFloat64);
  CHECK(equal(softmin(tensor({1.0, 2.0}), 0), tensor({2.0, 1.0}).softmax(0)));
}

TEST_CASE("softmax: higher derivatives follow from its result") {
  const Tensor x = randn({2, 4}, kFloat64).requires_grad_();
  // Squares make the incoming gradient depend on x as well.
  const auto f = [](const autograd::variable_list& in) {
    return autograd::variable_list{in[0].softmax(1).square(), in[0].log_softmax(0).square()};
  };
  CHECK(autograd::gradcheck(f, {x}));
  CHECK(autograd::gradgradcheck(f, {x}));
}

TEST_CASE("softmax gives the same bits with 1, 2 and 4 threads") {
  const Tensor x = randn({200, 700}), g = randn({200, 700});
  const int before = get_num_threads();
  std::vector<Tensor> first;
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    const std::vector<Tensor> now{x.softmax(1), x.softmax(0), x.log_softmax(1),
                                  softmax_backward(g, x.softmax(1), 1),
                                  log_softmax_backward(g, x.log_softmax(0), 0)};
    if (first.empty()) first = now;
    for (size_t i = 0; i < now.size(); ++i)
      CHECK(std::memcmp(now[i].const_data_ptr(), first[i].const_data_ptr(), now[i].nbytes()) == 0);
  }
  set_num_threads(before);
}
