// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011): random bits as a pure function of (seed, counter), and their mapping to uniform and normal
// numbers. Nothing here has state; reserving counters is the Generator's task (random.h). All is
// inline and branch-free, so a loop over counters is vectorised by the compiler.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace pellucid {

using PhiloxBlock = std::array<uint32_t, 4>;  ///< a counter, or the 128 random bits made from it
using PhiloxKey = std::array<uint32_t, 2>;

/// The bijection of the paper: ten rounds of `counter` under `key`.
constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, PhiloxKey key) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;  // the golden ratio and sqrt(3) - 1, as Weyl sequences
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// The 128 random bits number `counter` of the stream `seed`.
constexpr PhiloxBlock philox4x32(uint64_t seed, uint64_t counter) {
  return philox4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

/// Uniform in [0, 1), a multiple of 2^-24: the upper bits, through int32, which vectorises
/// everywhere.
constexpr float uniform_float(uint32_t bits) {
  return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;
}

/// Uniform in [0, 1), a multiple of 2^-53, from two words.
constexpr double uniform_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-53;
}

/// The maths of normal_pair from std::; a kernel passes its own, vectorised.
struct StandardMath {
  template <class T> static T log(T x) { return std::log(x); }
  template <class T> static T sqrt(T x) { return std::sqrt(x); }
  template <class T> static T cos(T x) { return std::cos(x); }
  template <class T> static T sin(T x) { return std::sin(x); }
};

/// Two independent standard normals from two uniforms in [0, 1), by Box and Muller. 1 - u1 is exact
/// and above 0, so the logarithm is finite: |z| <= 5.8 in float, 8.6 in double.
template <class Math = StandardMath, class T> inline std::array<T, 2> normal_pair(T u1, T u2) {
  const T radius = Math::sqrt(T(-2) * Math::log(T(1) - u1));
  const T angle = T(2) * std::numbers::pi_v<T> * u2;
  return {radius * Math::cos(angle), radius * Math::sin(angle)};
}

/// Four standard normals from one block.
template <class Math = StandardMath>
inline std::array<float, 4> normal_floats(const PhiloxBlock& b) {
  const auto first = normal_pair<Math>(uniform_float(b[0]), uniform_float(b[1]));
  const auto second = normal_pair<Math>(uniform_float(b[2]), uniform_float(b[3]));
  return {first[0], first[1], second[0], second[1]};
}

/// Two standard normals from one block.
template <class Math = StandardMath>
inline std::array<double, 2> normal_doubles(const PhiloxBlock& b) {
  return normal_pair<Math>(uniform_double(b[0], b[1]), uniform_double(b[2], b[3]));
}

}  // namespace pellucid
