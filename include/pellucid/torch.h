// For programs written for libtorch: include this instead of <torch/torch.h>. The names torch, at
// and c10 are aliases of pellucid, and libtorch's user macros are here. An alias cannot be
// reopened: a program that writes `namespace torch { … }` must say `namespace pellucid { … }`.
#pragma once

#include <sstream>

#include "pellucid/pellucid.h"

namespace pellucid {

/// The arguments written one after another, as torch::str.
template <class... Args> std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

namespace detail {
template <class... Args> std::string check_words(const char* condition, const Args&... args) {
  if constexpr (sizeof...(args) == 0)
    return str("Expected ", condition, " to be true, but got false.");
  else
    return str(args...);
}
}  // namespace detail

template <class T> using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;
using string_view = std::string_view;

inline constexpr DType kU8 = kUInt8, kI8 = kInt8, kI16 = kInt16, kI32 = kInt32, kI64 = kInt64,
                       kF16 = kFloat16, kF32 = kFloat32, kF64 = kFloat64;

namespace cuda {
/// False: pellucid runs on the CPU.
inline bool is_available() { return false; }
inline int64_t device_count() { return 0; }
}  // namespace cuda

}  // namespace pellucid

namespace torch = pellucid;
namespace at = pellucid;
namespace c10 = pellucid;

/// Throws pellucid::Error with the given words, or with the condition's text where there are none.
#define TORCH_CHECK(condition, ...)                                                \
  do {                                                                             \
    if (!(condition)) [[unlikely]]                                                 \
      throw ::pellucid::Error(                                                     \
          ::pellucid::detail::check_words(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_INTERNAL_ASSERT(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...)                                         \
  do {                                                                            \
    if (!(condition)) throw ::pellucid::ValueError(::pellucid::str(__VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_INDEX(condition, ...)                                         \
  do {                                                                            \
    if (!(condition)) throw ::pellucid::IndexError(::pellucid::str(__VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK_TYPE(condition, ...)                                         \
  do {                                                                           \
    if (!(condition)) throw ::pellucid::TypeError(::pellucid::str(__VA_ARGS__)); \
  } while (false)
#define AT_ASSERT(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define AT_ASSERTM(condition, ...) TORCH_CHECK(condition, __VA_ARGS__)
#define AT_ERROR(...) throw ::pellucid::Error(::pellucid::str(__VA_ARGS__))

/// An option with a getter and a setter that returns the options, as libtorch's.
#define TORCH_ARG(T, name)                                        \
 public:                                                          \
  inline auto name(const T& new_##name)->decltype(*this) {        \
    this->name##_ = new_##name;                                   \
    return *this;                                                 \
  }                                                               \
  inline auto name(T&& new_##name)->decltype(*this) {             \
    this->name##_ = std::move(new_##name);                        \
    return *this;                                                 \
  }                                                               \
  inline const T& name() const noexcept { return this->name##_; } \
  inline T& name() noexcept { return this->name##_; }             \
                                                                  \
 private:                                                         \
  T name##_
