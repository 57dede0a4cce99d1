// Names of the dtypes and PyTorch's promotion table.
#include "pellucid/dtype.h"

#include <array>
#include <utility>

#include "pellucid/error.h"

namespace pellucid {

namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "uint8",   "int8",    "int16",   "int32", "int64",
    "float16", "float32", "float64", "bool",  "bfloat16"};

constexpr std::array<std::string_view, kDTypeCount> kEnumerators = {
    "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double", "Bool", "BFloat16"};

constexpr std::pair<std::string_view, DType> kAliases[] = {
    {"short", kInt16},  {"int", kInt32},     {"long", kInt64},
    {"half", kFloat16}, {"float", kFloat32}, {"double", kFloat64}};

// Short names, so that the table below reads as PyTorch's documentation prints it.
constexpr DType u1 = kUInt8, i1 = kInt8, i2 = kInt16, i4 = kInt32, i8 = kInt64, f2 = kFloat16,
                f4 = kFloat32, f8 = kFloat64, b1 = kBool, bf = kBFloat16;

constexpr DType kPromotion[kDTypeCount][kDTypeCount] = {
    /*        u1  i1  i2  i4  i8  f2  f4  f8  b1  bf */
    /* u1 */ {u1, i2, i2, i4, i8, f2, f4, f8, u1, bf},
    /* i1 */ {i2, i1, i2, i4, i8, f2, f4, f8, i1, bf},
    /* i2 */ {i2, i2, i2, i4, i8, f2, f4, f8, i2, bf},
    /* i4 */ {i4, i4, i4, i4, i8, f2, f4, f8, i4, bf},
    /* i8 */ {i8, i8, i8, i8, i8, f2, f4, f8, i8, bf},
    /* f2 */ {f2, f2, f2, f2, f2, f2, f4, f8, f2, f4},
    /* f4 */ {f4, f4, f4, f4, f4, f4, f4, f8, f4, f4},
    /* f8 */ {f8, f8, f8, f8, f8, f8, f8, f8, f8, f8},
    /* b1 */ {u1, i1, i2, i4, i8, f2, f4, f8, b1, bf},
    /* bf */ {bf, bf, bf, bf, bf, f4, f4, f8, bf, bf},
};

}  // namespace

std::string_view name_of(DType t) { return kNames[static_cast<size_t>(t)]; }

std::string_view toString(DType t) { return kEnumerators[static_cast<size_t>(t)]; }

DType dtype_from_name(std::string_view name) {
  std::string_view bare = name;
  if (bare.starts_with("torch.")) bare.remove_prefix(6);
  for (int i = 0; i < kDTypeCount; ++i) {
    if (bare == kNames[static_cast<size_t>(i)]) return static_cast<DType>(i);
  }
  for (const auto& [alias, dtype] : kAliases) {
    if (bare == alias) return dtype;
  }
  detail::raise<TypeError>(
      "dtype: '{}' is not a dtype. The dtypes are float64 (double), float32 (float), float16 "
      "(half), "
      "bfloat16, int64 (long), int32 (int), int16 (short), int8, uint8 and bool.",
      name);
}

DType promote_types(DType a, DType b) {
  return kPromotion[static_cast<size_t>(a)][static_cast<size_t>(b)];
}

}  // namespace pellucid
