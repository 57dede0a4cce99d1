// TensorOptions and the small enums beside it. There is one device, the CPU; others can be named
// and compared, and are refused where a tensor should live on them.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "pellucid/dtype.h"
#include "pellucid/error.h"

namespace pellucid {

/// How the elements of an image batch lie in memory; PyTorch's meaning.
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast };
enum class Layout : uint8_t { Strided };
enum class DeviceType : uint8_t { CPU, CUDA };  // CUDA is a name for programs that ask for it
inline constexpr Layout kStrided = Layout::Strided;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

/// Names a device, "cpu", "cuda" or "cuda:1". Tensors live on the CPU.
class PELLUCID_API Device {
 public:
  constexpr Device(DeviceType type = kCPU, int8_t index = -1) : type_(type), index_(index) {}
  template <class T>
  requires(std::convertible_to<const T&, std::string_view> && !std::is_null_pointer_v<T>)
      Device(const T& name)
      : Device(from_name(name)) {}
  constexpr DeviceType type() const { return type_; }
  constexpr int8_t index() const { return index_; }
  constexpr bool has_index() const { return index_ != -1; }
  constexpr void set_index(int8_t index) { index_ = index; }
  constexpr bool is_cpu() const { return type_ == kCPU; }
  constexpr bool is_cuda() const { return type_ == kCUDA; }
  /// Whether tensors can live there.
  constexpr bool is_available() const { return is_cpu(); }
  std::string str() const {
    const std::string name = is_cpu() ? "cpu" : "cuda";
    return has_index() ? name + ":" + std::to_string(index_) : name;
  }
  /// Throws ValueError, which begins with `who`, unless tensors can live there.
  constexpr void require_available(std::string_view who) const {
    if (!is_available()) refuse(who);
  }
  friend constexpr bool operator==(Device a, Device b) = default;

 private:
  static Device from_name(std::string_view name);
  [[noreturn]] void refuse(std::string_view who) const;
  DeviceType type_ = kCPU;
  int8_t index_ = -1;
};

/// The dtype that floating creation functions use when none is given; float32 unless set.
PELLUCID_API DType get_default_dtype();

/// dtype, layout, device and requires_grad for a new tensor, each optional.
class TensorOptions {
 public:
  constexpr TensorOptions() = default;
  constexpr TensorOptions(DType t) : dtype_(t) {}
  constexpr TensorOptions(Device d) : device_(d) {}
  constexpr TensorOptions(DeviceType type) : TensorOptions(Device(type)) {}
  constexpr TensorOptions(Layout) {}
  constexpr TensorOptions(MemoryFormat f) : format_(f) {}
  constexpr TensorOptions dtype(std::optional<DType> t) const {
    auto o = *this;
    o.dtype_ = t;
    return o;
  }
  constexpr TensorOptions device(Device d) const {
    auto o = *this;
    o.device_ = d;
    return o;
  }
  constexpr TensorOptions device(DeviceType type, int8_t index = -1) const {
    return device(Device(type, index));
  }
  constexpr TensorOptions layout(Layout) const { return *this; }
  constexpr TensorOptions pinned_memory(bool) const { return *this; }
  constexpr TensorOptions requires_grad(bool on) const {
    auto o = *this;
    o.requires_grad_ = on;
    return o;
  }
  constexpr TensorOptions memory_format(MemoryFormat f) const {
    auto o = *this;
    o.format_ = f;
    return o;
  }
  DType dtype() const { return dtype_.value_or(get_default_dtype()); }
  constexpr bool has_dtype() const { return dtype_.has_value(); }
  constexpr std::optional<DType> dtype_opt() const { return dtype_; }
  constexpr bool requires_grad() const { return requires_grad_; }
  constexpr std::optional<MemoryFormat> memory_format_opt() const { return format_; }
  constexpr Device device() const { return device_; }
  constexpr Layout layout() const { return kStrided; }

 private:
  std::optional<DType> dtype_;
  std::optional<MemoryFormat> format_;
  bool requires_grad_ = false;
  Device device_;
};

inline constexpr TensorOptions dtype(DType t) { return TensorOptions(t); }
inline constexpr TensorOptions device(Device d) { return TensorOptions(d); }
inline constexpr TensorOptions requires_grad(bool on = true) {
  return TensorOptions().requires_grad(on);
}

PELLUCID_API void set_default_dtype(DType t);

}  // namespace pellucid
