// A layer for one token as one op: the bits of the ops one by one, for every thread count and ISA
// level; what it does to the caches; and where it refuses.
#include <doctest/doctest.h>

#include "base/cpu.h"
#include "base/parallel.h"
#include "pellucid/pellucid.h"
#include "threads.h"

using namespace pellucid;

namespace {

/// A layer with random parameters, and both ways through it.
struct Layer {
  Layer(int64_t heads, int64_t size, int64_t hidden, bool bias, DType type)
      : width(heads * size), keys(randn({1, heads, 40, size}, type)), values(randn_like(keys)) {
    const auto matrix = [&](int64_t rows, int64_t k) { return randn({rows, k}, type).mul(0.1); };
    const auto vector = [&](int64_t n) { return bias ? randn({n}, type) : Tensor(); };
    norm1 = randn({width}, type), norm1_bias = vector(width);
    norm2 = randn({width}, type), norm2_bias = vector(width);
    qkv = matrix(3 * width, width), qkv_bias = vector(3 * width);
    out = matrix(width, width), out_bias = vector(width);
    fc = matrix(hidden, width), fc_bias = vector(hidden);
    proj = matrix(width, hidden), proj_bias = vector(width);
  }

  Tensor at_once(const Tensor& x, int64_t position, const char* approximate) const {
    return _transformer_decode_layer(x, keys, values, norm1, norm1_bias, qkv, qkv_bias, out,
                                     out_bias, norm2, norm2_bias, fc, fc_bias, proj, proj_bias,
                                     position, 1e-5, 1e-6, approximate);
  }

  Tensor one_by_one(const Tensor& x, int64_t position, const char* approximate) const {
    const Tensor all = linear(layer_norm(x, {width}, norm1, norm1_bias, 1e-5), qkv, qkv_bias)
                           .view({1, 1, 3, keys.size(1), keys.size(3)});
    keys.narrow(2, position, 1).copy_(all.select(2, 1).transpose(1, 2));
    values.narrow(2, position, 1).copy_(all.select(2, 2).transpose(1, 2));
    const Tensor seen = scaled_dot_product_attention(all.select(2, 0).transpose(1, 2),
                                                     keys.narrow(2, 0, position + 1),
                                                     values.narrow(2, 0, position + 1));
    const Tensor y = x + linear(seen.transpose(1, 2).reshape({1, 1, width}), out, out_bias);
    const Tensor normed = layer_norm(y, {width}, norm2, norm2_bias, 1e-6);
    return y + linear(gelu(linear(normed, fc, fc_bias), approximate), proj, proj_bias);
  }

  int64_t width;
  Tensor keys, values, norm1, norm1_bias, norm2, norm2_bias, qkv, qkv_bias, out, out_bias, fc,
      fc_bias, proj, proj_bias;
};

}  // namespace

TEST_CASE("transformer decode: the bits of the ops one by one, whatever the threads") {
  manual_seed(3);
  const NoGradGuard off;
  struct Case {
    int64_t heads, size, hidden;
    bool bias;
    DType type;
  };
  // 5 heads do not divide among threads; 256 is wide enough for several threads and streams.
  for (const Case& c : {Case{4, 64, 1024, true, kFloat32}, Case{5, 51, 301, false, kFloat32},
                        Case{2, 8, 24, true, kFloat32}, Case{3, 40, 200, true, kFloat64}})
    for (const char* approximate : {"tanh", "none"}) {
      const Layer layer(c.heads, c.size, c.hidden, c.bias, c.type);
      for (const int64_t position : {0, 17, 39}) {
        const Tensor x = randn({1, 1, layer.width}, c.type);
        const Tensor keys = layer.keys.clone(), values = layer.values.clone();
        const Tensor expected = layer.one_by_one(x, position, approximate);
        const Tensor new_keys = layer.keys.clone(), new_values = layer.values.clone();
        for (const int threads : {1, 2, 3, 8}) {
          CAPTURE(c.heads);
          CAPTURE(position);
          CAPTURE(threads);
          layer.keys.copy_(keys);
          layer.values.copy_(values);
          const Threads guard(threads);
          CHECK(equal(layer.at_once(x, position, approximate), expected));
          CHECK(equal(layer.keys, new_keys));
          CHECK(equal(layer.values, new_values));
        }
      }
    }
}

TEST_CASE("transformer decode: on every ISA level, and serially inside a region") {
  manual_seed(3);
  const NoGradGuard off;
  const Layer layer(4, 64, 512, true, kFloat32);
  const Tensor x = randn({1, 1, 256});
  for (const Isa level : available_isas()) {
    const IsaGuard guard(level);
    const Tensor expected = layer.one_by_one(x, 5, "tanh");
    CHECK(equal(layer.at_once(x, 5, "tanh"), expected));
    Tensor inside;
    parallel_chunks(2, [&](int64_t i) {
      const NoGradGuard here;
      if (i == 1) inside = layer.at_once(x, 5, "tanh");
    });
    CHECK(equal(inside, expected));
  }
}

TEST_CASE("transformer decode: caches with gaps are written where the token stands, and marked") {
  manual_seed(3);
  const NoGradGuard off;
  Layer layer(2, 8, 32, true, kFloat32);
  const Tensor x = randn({1, 1, 16}), keys = layer.keys.clone();
  const Tensor expected = layer.at_once(x, 3, "tanh"), new_keys = layer.keys.clone();
  CHECK(!equal(new_keys, keys));
  CHECK(equal(new_keys.narrow(2, 4, 36), keys.narrow(2, 4, 36)));
  const Tensor wide = zeros({1, 2, 40, 16});
  const Tensor gaps = wide.slice(3, 0, std::nullopt, 2);
  gaps.copy_(keys);
  layer.keys = gaps;
  const uint32_t version = gaps._version();
  CHECK(equal(layer.at_once(x, 3, "tanh"), expected));
  CHECK(equal(gaps, new_keys));
  CHECK(gaps._version() > version);
}

TEST_CASE("transformer decode: no gradient is lost in silence") {
  Layer layer(2, 8, 32, true, kFloat32);
  const Tensor x = randn({1, 1, 16});
  layer.fc.requires_grad_();
  CHECK_THROWS_WITH_AS(layer.at_once(x, 0, "tanh"),
                       doctest::Contains("'fc_weight' requires a gradient"), AutogradError);
  const NoGradGuard off;
  CHECK(!layer.at_once(x, 0, "tanh").requires_grad());
  CHECK_THROWS_AS(layer.at_once(x, 40, "tanh"), IndexError);
  CHECK_THROWS_AS(layer.at_once(x.to(kFloat16), 0, "tanh"), TypeError);
}
