// PELLUCID_ARG: an option with a getter and a setter that returns the options, as libtorch's
// TORCH_ARG.
#pragma once

#include <utility>

#include "pellucid/detail/argument_kinds.h"

#define PELLUCID_ARG(T, name)                                                                  \
 public:                                                                                       \
  inline auto name(const T& new_##name)->decltype(*this) {                                     \
    this->name##_ = new_##name;                                                                \
    return *this;                                                                              \
  }                                                                                            \
  inline auto name(T&& new_##name)->decltype(*this) {                                          \
    this->name##_ = std::move(new_##name);                                                     \
    return *this;                                                                              \
  }                                                                                            \
  /* nesterov(0.9), num_layers(1.5) and eps(true) are mistakes. */                             \
  template <::pellucid::detail::Mistaken<T> Given> auto name(Given)->decltype(*this) = delete; \
  inline const T& name() const noexcept { return this->name##_; }                              \
  inline T& name() noexcept { return this->name##_; }                                          \
                                                                                               \
 private:                                                                                      \
  T name##_
