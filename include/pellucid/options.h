// TensorOptions and the small enums beside it. There is one device, the CPU; others are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pellucid/dtype.h"
#include "pellucid/error.h"

namespace pellucid {

/// How the elements of an image batch lie in memory; PyTorch's meaning.
enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast };
enum class Layout : uint8_t { Strided };
enum class DeviceType : uint8_t { CPU, CUDA };  // CUDA is a name for programs that ask for it
inline constexpr Layout kStrided = Layout::Strided;
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;

/// Where a tensor lives: always the CPU.
class Device {
 public:
  constexpr Device(DeviceType type = kCPU, int8_t index = -1) : index_(index) {
    if (type != kCPU) refuse("cuda");
  }
  Device(const std::string& name) : Device(std::string_view(name)) {}
  Device(const char* name) : Device(std::string_view(name)) {}
  Device(std::string_view name) {
    if (name != "cpu" && name != "cpu:0") refuse(name);
  }
  constexpr DeviceType type() const { return kCPU; }
  constexpr int8_t index() const { return index_; }
  constexpr bool is_cpu() const { return true; }
  constexpr bool is_cuda() const { return false; }
  std::string str() const { return "cpu"; }
  friend constexpr bool operator==(Device, Device) { return true; }

 private:
  [[noreturn]] static void refuse(std::string_view name) {
    detail::raise<ValueError>(
        "Device: '{}' is not available; pellucid runs on the CPU, so pass \"cpu\".", name);
  }
  int8_t index_ = -1;
};

/// The dtype that floating creation functions use when none is given; float32 unless set.
PELLUCID_API DType get_default_dtype();

/// dtype, layout, device and requires_grad for a new tensor, each optional.
class TensorOptions {
 public:
  constexpr TensorOptions() = default;
  constexpr TensorOptions(DType t) : dtype_(t) {}
  constexpr TensorOptions(Device) {}
  constexpr TensorOptions(DeviceType type) : TensorOptions(Device(type)) {}
  constexpr TensorOptions(Layout) {}
  constexpr TensorOptions(MemoryFormat f) : format_(f) {}
  constexpr TensorOptions dtype(std::optional<DType> t) const {
    auto o = *this;
    o.dtype_ = t;
    return o;
  }
  constexpr TensorOptions device(Device) const { return *this; }
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
  constexpr Device device() const { return {}; }
  constexpr Layout layout() const { return kStrided; }

 private:
  std::optional<DType> dtype_;
  std::optional<MemoryFormat> format_;
  bool requires_grad_ = false;
};

inline constexpr TensorOptions dtype(DType t) { return TensorOptions(t); }
inline constexpr TensorOptions device(Device d) { return TensorOptions(d); }
inline constexpr TensorOptions requires_grad(bool on = true) {
  return TensorOptions().requires_grad(on);
}

PELLUCID_API void set_default_dtype(DType t);

}  // namespace pellucid
