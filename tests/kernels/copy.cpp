// Copies, fills and conversions against naive loops, on every ISA level that the machine has.
#include "kernels/copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/convert.h"

using namespace pellucid;
using namespace pellucid::kernels;

namespace {

using Random = std::mt19937;

double get(const void* p, DType t, int64_t i) {
  return visit(t, [&](auto v) {
    std::memcpy(&v, static_cast<const char*>(p) + i * element_size(t), sizeof v);
    return static_cast<double>(v);
  });
}
void set(void* p, DType t, int64_t i, double x) {
  visit(t, [&](auto v) {
    v = static_cast<decltype(v)>(x);
    std::memcpy(static_cast<char*>(p) + i * element_size(t), &v, sizeof v);
  });
}

/// Strides for dimensions laid out in the given order, innermost first, with gaps here and there;
/// the extent in elements.
int64_t lay_out(Random& r, const std::vector<int64_t>& shape, const std::vector<size_t>& order,
                bool gaps, std::vector<int64_t>& strides) {
  int64_t next = gaps && r() % 5 == 0 ? 2 : 1;
  strides.assign(shape.size(), 0);
  for (size_t d : order) {
    strides[d] = next;
    next *= std::max<int64_t>(shape[d], 1) + (gaps && r() % 4 == 0 ? 1 : 0);
  }
  return next;
}

/// The linear offset of position `n` of the shape, in row-major counting.
int64_t offset_at(int64_t n, const std::vector<int64_t>& shape,
                  const std::vector<int64_t>& strides) {
  int64_t o = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    o += n % shape[d] * strides[d];
    n /= shape[d];
  }
  return o;
}

TEST_CASE("copy: random shapes, permutations, broadcasts and dtypes equal a naive loop") {
  Random r(1);
  for (int trial = 0; trial < 600; ++trial) {
    std::vector<int64_t> shape(r() % 5);
    int64_t numel = 1;
    for (int64_t& n : shape) {
      const int64_t sizes[] = {0, 1, 2, 3, 5, 16, 17, 33, 64, 100, 257};
      n = sizes[r() % 60 == 0 ? 0 : 1 + r() % 10];
      if (numel * n > 60000) n = 2;
      numel *= n;
    }
    const DType to = static_cast<DType>(r() % kDTypeCount),
                from = r() % 2 ? to : static_cast<DType>(r() % kDTypeCount);
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::reverse(order.begin(), order.end());
    std::vector<int64_t> dst_strides, src_strides;
    if (r() % 3 == 0) std::shuffle(order.begin(), order.end(), r);
    const int64_t dst_extent = lay_out(r, shape, order, r() % 2, dst_strides);
    if (r() % 2) std::shuffle(order.begin(), order.end(), r);
    const int64_t src_extent = lay_out(r, shape, order, r() % 2, src_strides);
    for (int64_t& s : src_strides)
      if (r() % 8 == 0) s = 0;

    std::vector<char> dst(static_cast<size_t>((dst_extent + 4) * element_size(to)), 1),
        src(static_cast<size_t>((src_extent + 4) * element_size(from)));
    for (int64_t i = 0; i < src_extent; ++i)
      set(src.data(), from, i, from == kBool ? r() % 2 : r() % 100);
    std::vector<char> want = dst;
    for (int64_t n = 0; n < numel; ++n)
      set(want.data(), to, offset_at(n, shape, dst_strides),
          get(src.data(), from, offset_at(n, shape, src_strides)));
    copy_strided(shape, dst.data(), to, dst_strides.data(), src.data(), from, src_strides.data());
    INFO("trial " << trial << " shape " << to_string(IntArrayRef(shape)) << " dst "
                  << to_string(IntArrayRef(dst_strides)) << " src "
                  << to_string(IntArrayRef(src_strides)) << " " << std::string(name_of(from))
                  << " to " << std::string(name_of(to)));
    CHECK(dst == want);
  }
}

TEST_CASE("copy: large transposes and channel orders of every element size") {
  for (DType t : {kUInt8, kInt16, kFloat32, kFloat64}) {
    const std::vector<int64_t> shape = {2, 67, 1031};
    const std::vector<int64_t> nchw = {67 * 1031, 1031, 1}, nhwc = {67 * 1031, 1, 67};
    const int64_t numel = 2 * 67 * 1031;
    std::vector<char> src(static_cast<size_t>(numel * element_size(t))), there(src.size()),
        back(src.size());
    for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 7 + i / 251);
    copy_strided(shape, there.data(), t, nhwc.data(), src.data(), t, nchw.data());
    const size_t e = static_cast<size_t>(element_size(t));
    for (int64_t n = 0; n < numel; n += 13) {
      CHECK(std::memcmp(there.data() + offset_at(n, shape, nhwc) * element_size(t),
                        src.data() + offset_at(n, shape, nchw) * element_size(t), e) == 0);
    }
    copy_strided(shape, back.data(), t, nchw.data(), there.data(), t, nhwc.data());
    CHECK(back == src);
  }
}

TEST_CASE("copy: onto itself changes nothing") {
  std::vector<float> x(3000);
  std::iota(x.begin(), x.end(), 0.0f);
  const std::vector<float> want = x;
  const int64_t contiguous[] = {100, 1}, gaps[] = {100, 2}, shape[] = {30, 100}, half[] = {30, 50};
  copy_strided(shape, x.data(), kFloat32, contiguous, x.data(), kFloat32, contiguous);
  copy_strided(half, x.data(), kFloat32, gaps, x.data(), kFloat32, gaps);
  CHECK(x == want);
}

TEST_CASE("fill: dense, strided, zero-sized and 0-dimensional") {
  for (DType t : {kUInt8, kFloat16, kInt32, kFloat64}) {
    const std::vector<int64_t> shape = {5, 300, 40}, strides = {300 * 50, 50, 1};
    std::vector<char> memory(static_cast<size_t>(5 * 300 * 50 * element_size(t)), 0);
    std::vector<char> want = memory, value(8);
    set(value.data(), t, 0, 7);
    for (int64_t n = 0; n < 5 * 300 * 40; ++n) set(want.data(), t, offset_at(n, shape, strides), 7);
    fill_strided(shape, memory.data(), t, strides.data(), value.data());
    CHECK(memory == want);
    const int64_t none[] = {0, 4}, unit[] = {4, 1};
    fill_strided(none, nullptr, t, unit, value.data());
    set(value.data(), t, 0, 9);
    fill_strided({}, memory.data(), t, nullptr, value.data());
    CHECK(get(memory.data(), t, 0) == 9);
    CHECK(get(memory.data(), t, 1) == 7);
  }
}

TEST_CASE("convert: float16 and bfloat16, all values and all roundings that matter") {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  std::vector<float> sources;
  for (uint32_t u = 0; u < 0xffff0000u; u += 16411) sources.push_back(std::bit_cast<float>(u));
  for (uint32_t h = 0; h < 0x7c00; ++h) {  // halves, and points half way between neighbours
    const float a = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h)));
    const float b = h + 1 == 0x7c00
                        ? 65536.0f
                        : static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h + 1)));
    const float middle = (a + b) / 2;
    for (float x : {a, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      sources.push_back(x);
      sources.push_back(-x);
    }
  }
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    std::vector<float> wide(65536);
    block_converter(kFloat32, kFloat16)(wide.data(), all.data(), 65536);
    int bad = 0;
    for (uint32_t h = 0; h < 65536; ++h) {
      const float want = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h)));
      bad +=
          !(std::isnan(want) ? std::isnan(wide[h])
                             : std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(wide[h]));
    }
    CHECK(bad == 0);
    std::vector<uint16_t> narrow(sources.size());
    block_converter(kFloat16, kFloat32)(narrow.data(), sources.data(),
                                        static_cast<int64_t>(sources.size()));
    for (size_t i = 0; i < sources.size(); ++i) {
      const uint16_t want = std::bit_cast<uint16_t>(static_cast<_Float16>(sources[i]));
      bad += std::isnan(sources[i]) ? (narrow[i] & 0x7fff) <= 0x7c00 : narrow[i] != want;
    }
    CHECK(bad == 0);
    block_converter(kBFloat16, kFloat32)(narrow.data(), sources.data(),
                                         static_cast<int64_t>(sources.size()));
    for (size_t i = 0; i < sources.size(); ++i) {
      if (std::isnan(sources[i])) {
        bad += (narrow[i] & 0x7fff) <= 0x7f80;
        continue;
      }
      const float down = std::bit_cast<float>(std::bit_cast<uint32_t>(sources[i]) & 0xffff0000u);
      const float up =
          std::bit_cast<float>((std::bit_cast<uint32_t>(sources[i]) & 0xffff0000u) + 0x10000u);
      const double low = std::fabs(double(sources[i]) - down),
                   high = std::fabs((std::isinf(up) ? std::copysign(0x1p128, up) : double(up)) -
                                    sources[i]);
      const bool take_up = high < low || (high == low && (std::bit_cast<uint32_t>(down) >> 16 & 1));
      bad += (std::bit_cast<uint32_t>(take_up && !std::isinf(sources[i]) ? up : down) >> 16) !=
             narrow[i];
    }
    CHECK(bad == 0);
  }
}

TEST_CASE("convert: floats to integers and bool, also out of range") {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const double x[] = {0,     -0.0, 0.5,          -0.5,         1.9,           -1.9,
                      300,   -1,   2147483647.0, 2147483648.0, -2147483648.0, 1e30,
                      -1e30, inf,  -inf,         nan};
  constexpr int n = 16;
  float xf[n];
  for (int i = 0; i < n; ++i) xf[i] = static_cast<float>(x[i]);
  const int32_t least = INT32_MIN,
                want32[n] = {0,         0,     0,     0,     1,     -1,    300,   -1,
                             INT32_MAX, least, least, least, least, least, least, least};
  const int64_t least64 = INT64_MIN,
                want64[n] = {0,       0,       0,          0,          1,           -1,
                             300,     -1,      2147483647, 2147483648, -2147483648, least64,
                             least64, least64, least64,    least64};
  const uint8_t want8[n] = {0, 0, 0, 0, 1, 255, 44, 255, 255, 0, 0, 0, 0, 0, 0, 0},
                want_bool[n] = {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  for (Isa level : available_isas()) {
    const IsaGuard guard(level);
    int32_t i32[n];
    int64_t i64[n];
    uint8_t u8[n];
    block_converter(kInt32, kFloat64)(i32, x, n);
    CHECK(std::equal(i32, i32 + n, want32));
    block_converter(kInt64, kFloat64)(i64, x, n);
    CHECK(std::equal(i64, i64 + n, want64));
    block_converter(kUInt8, kFloat64)(u8, x, n);
    CHECK(std::equal(u8, u8 + n, want8));
    block_converter(kBool, kFloat64)(u8, x, n);
    CHECK(std::equal(u8, u8 + n, want_bool));
    block_converter(kInt32, kFloat32)(i32, xf, n);
    for (int i = 0; i < n; ++i)
      CHECK(i32[i] == (i == 8 ? least : want32[i]));  // 2^31 - 1 rounds up in float
    const uint8_t odd_bools[] = {0, 1, 2, 255};
    float f[4];
    block_converter(kFloat32, kBool)(f, odd_bools, 4);
    CHECK(f[0] == 0.0f);
    for (int i = 1; i < 4; ++i) CHECK(f[i] == 1.0f);
  }
}

}  // namespace
