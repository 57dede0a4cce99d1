// What module options are written with beside PELLUCID_ARG: arrays that expand from one number, and
// the named choices (kMean, kReLU…) that libtorch passes as types in a variant.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pellucid/arg.h"
#include "pellucid/array_ref.h"
#include "pellucid/error.h"

namespace pellucid {

/// D numbers, written as one number for all or as a list of D.
template <size_t D, class T = int64_t> class ExpandingArray {
 public:
  ExpandingArray(std::initializer_list<T> list) : ExpandingArray(ArrayRef<T>(list)) {}
  ExpandingArray(const std::vector<T>& list) : ExpandingArray(ArrayRef<T>(list)) {}
  ExpandingArray(ArrayRef<T> list) {
    PELLUCID_CHECK(list.size() == D, ValueError, "Expected {} values, but got {}.", D, list.size());
    std::copy(list.begin(), list.end(), values_.begin());
  }
  template <std::convertible_to<T> U>
  requires(!detail::Mistaken<U, T>) ExpandingArray(U one) : from_one_(true) {
    values_.fill(static_cast<T>(one));
  }
  ExpandingArray(const std::array<T, D>& values) : values_(values) {}
  std::array<T, D>& operator*() { return values_; }
  const std::array<T, D>& operator*() const { return values_; }
  std::array<T, D>* operator->() { return &values_; }
  const std::array<T, D>* operator->() const { return &values_; }
  operator ArrayRef<T>() const { return values_; }
  size_t size() const noexcept { return D; }
  const T& operator[](size_t i) const { return values_[i]; }
  /// Whether it was written as one number; printed modules show it that way.
  bool from_one() const noexcept { return from_one_; }

 private:
  std::array<T, D> values_;
  bool from_one_ = false;
};

/// D numbers of which each may be absent (nullopt: keep the input's size).
template <size_t D, class T = int64_t> class ExpandingArrayWithOptionalElem {
 public:
  using Element = std::optional<T>;
  ExpandingArrayWithOptionalElem(std::initializer_list<T> list) { assign(list); }
  ExpandingArrayWithOptionalElem(std::initializer_list<Element> list) { assign(list); }
  ExpandingArrayWithOptionalElem(const std::vector<T>& list) { assign(list); }
  ExpandingArrayWithOptionalElem(const std::vector<Element>& list) { assign(list); }
  template <std::convertible_to<T> U>
  requires(!detail::Mistaken<U, T>) ExpandingArrayWithOptionalElem(U one) : from_one_(true) {
    values_.fill(static_cast<T>(one));
  }
  ExpandingArrayWithOptionalElem(Element one) : from_one_(true) { values_.fill(one); }
  const std::array<Element, D>& operator*() const { return values_; }
  const std::array<Element, D>* operator->() const { return &values_; }
  const Element& operator[](size_t i) const { return values_[i]; }
  bool from_one() const noexcept { return from_one_; }

 private:
  template <class List> void assign(const List& list) {
    PELLUCID_CHECK(list.size() == D, ValueError, "Expected {} values, but got {}.", D, list.size());
    std::copy(list.begin(), list.end(), values_.begin());
  }
  std::array<Element, D> values_;
  bool from_one_ = false;
};

// Each choice is a type, so that an option takes only the choices it knows.
namespace enumtype {
struct kLinear {};
struct kConv1D {};
struct kConv2D {};
struct kConv3D {};
struct kConvTranspose1D {};
struct kConvTranspose2D {};
struct kConvTranspose3D {};
struct kSigmoid {};
struct kTanh {};
struct kReLU {};
struct kGELU {};
struct kSiLU {};
struct kMish {};
struct kLeakyReLU {};
struct kFanIn {};
struct kFanOut {};
struct kConstant {};
struct kReflect {};
struct kReplicate {};
struct kCircular {};
struct kSum {};
struct kMean {};
struct kMax {};
struct kNone {};
struct kBatchMean {};
struct kZeros {};
struct kRNN_TANH {};
struct kRNN_RELU {};
struct kLSTM {};
struct kGRU {};
struct kValid {};
struct kSame {};
struct kNearest {};
struct kNearestExact {};
struct kBilinear {};
struct kBicubic {};
struct kTrilinear {};
struct kArea {};
struct kBorder {};
struct kReflection {};
}  // namespace enumtype

inline constexpr enumtype::kLinear kLinear{};
inline constexpr enumtype::kConv1D kConv1D{};
inline constexpr enumtype::kConv2D kConv2D{};
inline constexpr enumtype::kConv3D kConv3D{};
inline constexpr enumtype::kConvTranspose1D kConvTranspose1D{};
inline constexpr enumtype::kConvTranspose2D kConvTranspose2D{};
inline constexpr enumtype::kConvTranspose3D kConvTranspose3D{};
inline constexpr enumtype::kSigmoid kSigmoid{};
inline constexpr enumtype::kTanh kTanh{};
inline constexpr enumtype::kReLU kReLU{};
inline constexpr enumtype::kGELU kGELU{};
inline constexpr enumtype::kSiLU kSiLU{};
inline constexpr enumtype::kMish kMish{};
inline constexpr enumtype::kLeakyReLU kLeakyReLU{};
inline constexpr enumtype::kFanIn kFanIn{};
inline constexpr enumtype::kFanOut kFanOut{};
inline constexpr enumtype::kConstant kConstant{};
inline constexpr enumtype::kReflect kReflect{};
inline constexpr enumtype::kReplicate kReplicate{};
inline constexpr enumtype::kCircular kCircular{};
inline constexpr enumtype::kSum kSum{};
inline constexpr enumtype::kMean kMean{};
inline constexpr enumtype::kMax kMax{};
inline constexpr enumtype::kNone kNone{};
inline constexpr enumtype::kBatchMean kBatchMean{};
inline constexpr enumtype::kZeros kZeros{};
inline constexpr enumtype::kRNN_TANH kRNN_TANH{};
inline constexpr enumtype::kRNN_RELU kRNN_RELU{};
inline constexpr enumtype::kLSTM kLSTM{};
inline constexpr enumtype::kGRU kGRU{};
inline constexpr enumtype::kValid kValid{};
inline constexpr enumtype::kSame kSame{};
inline constexpr enumtype::kNearest kNearest{};
inline constexpr enumtype::kNearestExact kNearestExact{};
inline constexpr enumtype::kBilinear kBilinear{};
inline constexpr enumtype::kBicubic kBicubic{};
inline constexpr enumtype::kTrilinear kTrilinear{};
inline constexpr enumtype::kArea kArea{};
inline constexpr enumtype::kBorder kBorder{};
inline constexpr enumtype::kReflection kReflection{};

}  // namespace pellucid
