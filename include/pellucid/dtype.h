// The element types, with PyTorch's names and promotion rules. 16-bit floats are storage only:
// arithmetic on them happens in float32.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "pellucid/api.h"
#include "pellucid/error.h"

namespace pellucid {

/// An element type. The order is PyTorch's, so that a saved number means the same.
enum class DType : uint8_t {
  UInt8,
  Int8,
  Int16,
  Int32,
  Int64,
  Float16,
  Float32,
  Float64,
  Bool,
  BFloat16
};
using ScalarType = DType;
inline constexpr int kDTypeCount = 10;

inline constexpr DType kUInt8 = DType::UInt8, kByte = kUInt8, kInt8 = DType::Int8, kChar = kInt8,
                       kInt16 = DType::Int16, kShort = kInt16, kInt32 = DType::Int32, kInt = kInt32,
                       kInt64 = DType::Int64, kLong = kInt64, kFloat16 = DType::Float16,
                       kHalf = kFloat16, kFloat32 = DType::Float32, kFloat = kFloat32,
                       kFloat64 = DType::Float64, kDouble = kFloat64, kBool = DType::Bool,
                       kBFloat16 = DType::BFloat16;

/// IEEE binary16, for storage.
struct Half {
  uint16_t bits = 0;
  constexpr Half() = default;
  Half(float v) {
    const _Float16 h = static_cast<_Float16>(v);
    bits = std::bit_cast<uint16_t>(h);
  }
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

/// The upper half of a float32, rounded to nearest even, for storage.
struct BFloat16 {
  uint16_t bits = 0;
  constexpr BFloat16() = default;
  constexpr BFloat16(float v) {
    const uint32_t u = std::bit_cast<uint32_t>(v);
    bits = (u & 0x7fffffffu) > 0x7f800000u
               ? static_cast<uint16_t>((u >> 16) | 0x40u)
               : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Bytes of one element.
constexpr int64_t element_size(DType t) {
  constexpr int64_t sizes[kDTypeCount] = {1, 1, 2, 4, 8, 2, 4, 8, 1, 2};
  return sizes[static_cast<int>(t)];
}
inline constexpr int64_t elementSize(DType t) { return element_size(t); }

constexpr bool is_floating(DType t) {
  return t == kFloat16 || t == kFloat32 || t == kFloat64 || t == kBFloat16;
}
constexpr bool isFloatingType(DType t) { return is_floating(t); }
/// Integers, and bool too when `with_bool`.
constexpr bool is_integral(DType t, bool with_bool) {
  return !is_floating(t) && (with_bool || t != kBool);
}
constexpr bool isIntegralType(DType t, bool with_bool) { return is_integral(t, with_bool); }
constexpr bool is_reduced_float(DType t) { return t == kFloat16 || t == kBFloat16; }

/// "float32", PyTorch's name without "torch.".
PELLUCID_API std::string_view name_of(DType t);
/// "Float", libtorch's name of the enumerator.
PELLUCID_API std::string_view toString(DType t);
/// The dtype named "float32", "float", "long"…; throws TypeError for an unknown name.
PELLUCID_API DType dtype_from_name(std::string_view name);
/// The type that holds both, by PyTorch's table; categories of 0-dim tensors are handled by
/// result_type.
PELLUCID_API DType promote_types(DType a, DType b);
/// Whether a result of type `from` may be written into a tensor of type `to` by an in-place op.
constexpr bool can_cast(DType from, DType to) {
  if (is_floating(from) && !is_floating(to)) return false;
  return !(from != kBool && to == kBool);
}

template <class T> struct DTypeOf;
template <> struct DTypeOf<uint8_t> { static constexpr DType value = kUInt8; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = kInt8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = kInt16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = kInt32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = kInt64; };
template <> struct DTypeOf<long long> { static constexpr DType value = kInt64; };
template <> struct DTypeOf<Half> { static constexpr DType value = kFloat16; };
template <> struct DTypeOf<float> { static constexpr DType value = kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = kFloat64; };
template <> struct DTypeOf<bool> { static constexpr DType value = kBool; };
template <> struct DTypeOf<BFloat16> { static constexpr DType value = kBFloat16; };
/// The DType of a C++ type.
template <class T> inline constexpr DType dtype_of = DTypeOf<std::remove_cv_t<T>>::value;

/// Calls f with a value-initialised object of the C++ type behind t: visit(t, [&](auto v) { using T
/// = decltype(v); … }).
template <class F> decltype(auto) visit(DType t, F&& f) {
  switch (t) {
    case kUInt8:
      return f(uint8_t{});
    case kInt8:
      return f(int8_t{});
    case kInt16:
      return f(int16_t{});
    case kInt32:
      return f(int32_t{});
    case kInt64:
      return f(int64_t{});
    case kFloat16:
      return f(Half{});
    case kFloat32:
      return f(float{});
    case kFloat64:
      return f(double{});
    case kBool:
      return f(bool{});
    case kBFloat16:
      return f(BFloat16{});
  }
  __builtin_unreachable();
}

}  // namespace pellucid

template <> struct fmt::formatter<pellucid::DType> : pellucid::detail::TextFormatter {
  auto format(pellucid::DType t, format_context& ctx) const {
    return write(pellucid::name_of(t), ctx);
  }
};
