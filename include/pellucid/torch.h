// For programs written for libtorch: include this instead of <torch/torch.h>. The names torch, at
// and c10 are aliases of pellucid, and libtorch's user macros are here. An alias cannot be
// reopened: a program that writes `namespace torch { … }` must say `namespace pellucid { … }`.
#pragma once

#include <algorithm>  // what libtorch programs use without including it
#include <cassert>
#include <cmath>
#include <iostream>
#include <sstream>
#include <tuple>

#include "pellucid/data.h"
#include "pellucid/nn.h"
#include "pellucid/optim.h"
#include "pellucid/pellucid.h"
#include "pellucid/serialize.h"

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

/// The reductions of losses, as the loss ops number them.
namespace Reduction {  // NOLINT(readability-identifier-naming): libtorch's name
enum Reduction { None, Mean, Sum, END };
}  // namespace Reduction

using nn::utils::rnn::pad_sequence;

namespace autograd {
using tensor_list = variable_list;
}  // namespace autograd

namespace cuda {
/// False: pellucid runs on the CPU.
inline bool is_available() { return false; }
inline bool cudnn_is_available() { return false; }
inline size_t device_count() { return 0; }
/// Nothing to seed and nothing to wait for: these do nothing.
inline void manual_seed(uint64_t) {}
inline void manual_seed_all(uint64_t) {}
inline void synchronize(int64_t = -1) {}
}  // namespace cuda
inline bool hasCUDA() { return false; }

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

/// An option with a getter and a setter that returns the options, as libtorch's. Unlike
/// PELLUCID_ARG it has no template, so that a class inside a function can use it.
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

/// Defines the handle `Name` of the module class ImplType (NameImpl in TORCH_MODULE).
#define TORCH_MODULE_IMPL(Name, ImplType)                       \
  class Name : public ::pellucid::nn::ModuleHolder<ImplType> {  \
   public:                                                      \
    using ::pellucid::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl = ImplType;                                      \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)

/// The default values of forward's last parameters, {position, AnyValue(value)}…, for modules in a
/// Sequential.
#define FORWARD_HAS_DEFAULT_ARGS(...)                                                 \
  template <class M> friend struct ::pellucid::nn::detail::AnyModuleHolder;           \
  bool _forward_has_default_args() { return true; }                                   \
  unsigned int _forward_num_required_args() {                                         \
    const std::pair<unsigned int, ::pellucid::nn::AnyValue> values[] = {__VA_ARGS__}; \
    return values[0].first;                                                           \
  }                                                                                   \
  std::vector<::pellucid::nn::AnyValue> _forward_populate_default_args(               \
      std::vector<::pellucid::nn::AnyValue>&& given) {                                \
    const std::pair<unsigned int, ::pellucid::nn::AnyValue> values[] = {__VA_ARGS__}; \
    for (const auto& value : values)                                                  \
      if (value.first >= given.size()) given.push_back(value.second);                 \
    return std::move(given);                                                          \
  }
