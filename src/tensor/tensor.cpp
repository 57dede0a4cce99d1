// The facts and the data of a Tensor: what needs neither ops nor gradients. Printing is in
// print.cpp, the gradient side in core/tensor_autograd.cpp, conversions and operators in
// ops/tensor_api.cpp.
#include "pellucid/tensor.h"

#include <atomic>
#include <charconv>
#include <mutex>
#include <optional>

#include "tensor/layout.h"
#include "tensor/mode.h"
#include "tensor/pending.h"
#include "tensor/phantom.h"

namespace pellucid {

namespace {

std::atomic<DType> default_dtype{kFloat32};
// While a captured call runs: the default when it was captured.
constinit thread_local std::optional<DType> default_of_call;

int64_t checked_dim(const char* what, int64_t d, int64_t dims, IntArrayRef sizes) {
  PELLUCID_CHECK(d >= -dims && d < dims, IndexError,
                 "{}: dim {} is out of range for a tensor of {} dimensions (sizes {}).", what, d,
                 dims, sizes);
  return d < 0 ? d + dims : d;
}

}  // namespace

Device Device::from_name(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view type = name.substr(0, colon);
  PELLUCID_CHECK(type == "cpu" || type == "cuda", ValueError,
                 "Device: '{}' is no device; pass \"cpu\", \"cuda\" or \"cuda:0\".", name);
  Device device(type == "cpu" ? kCPU : kCUDA);
  if (colon == std::string_view::npos) return device;
  const std::string_view digits = name.substr(colon + 1);
  int index = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  PELLUCID_CHECK(error == std::errc() && end == digits.data() + digits.size() && index >= 0 &&
                     index <= (device.is_cpu() ? 0 : 127) && digits.front() != '-',
                 ValueError, "Device: '{}' has no valid index; pass \"cpu\" or \"cuda:0\".", name);
  device.set_index(static_cast<int8_t>(index));
  return device;
}

void Device::refuse(std::string_view who) const {
  detail::raise<ValueError>(
      "{}: the device '{}' is not available; pellucid runs on the CPU, so pass \"cpu\".", who,
      str());
}

DType get_default_dtype() {
  return default_of_call ? *default_of_call : default_dtype.load(std::memory_order_relaxed);
}

detail::DefaultDTypeScope::DefaultDTypeScope(DType t) : before_(default_of_call) {
  default_of_call = t;
}
detail::DefaultDTypeScope::~DefaultDTypeScope() { default_of_call = before_; }

void set_default_dtype(DType t) {
  PELLUCID_CHECK(is_floating(t), TypeError,
                 "set_default_dtype: only floating dtypes can be the default, found {}. Pass "
                 "float32, float64, float16 or bfloat16.",
                 t);
  default_dtype.store(t, std::memory_order_relaxed);
}

int64_t Tensor::size(int64_t d) const {
  return impl().sizes[static_cast<size_t>(checked_dim("size", d, dim(), sizes()))];
}

int64_t Tensor::stride(int64_t d) const {
  return strides()[static_cast<size_t>(checked_dim("stride", d, dim(), sizes()))];
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  expose();
  PELLUCID_CHECK(format != MemoryFormat::Preserve, ValueError,
                 "is_contiguous: ask for MemoryFormat::Contiguous or MemoryFormat::ChannelsLast, "
                 "not Preserve.");
  return format == MemoryFormat::ChannelsLast ? impl().is_channels_last() : impl().is_contiguous();
}

void* Tensor::data_ptr() const {
  expose();
  const detail::TensorImpl& t = impl();
  if (!t.storage) return nullptr;
  detail::require_values(t, "data_ptr");
  detail::settle(*t.storage);  // what the program writes there must not reach calls from before
  t.storage->note_pointer_given_out();
  return t.data();
}

const void* Tensor::const_data_ptr() const {
  expose();
  if (!impl().storage) return nullptr;
  detail::require_values(impl(), "const_data_ptr");
  return impl().data();
}

Scalar Tensor::item() const {
  PELLUCID_CHECK(numel() == 1, ValueError,
                 "item: only a tensor of one element has one value, this one has {} (sizes {}). "
                 "Index it first.",
                 numel(), sizes());
  PELLUCID_CHECK(has_storage(), ValueError, "item: this tensor has sizes but no values ({}).",
                 describe(*this));
  detail::require_values(impl(), "item");
  return visit(dtype(), [this](auto v) { return Scalar(*raw<decltype(v)>()); });
}

void Tensor::fail_undefined() {
  detail::raise<ValueError>(
      "an undefined tensor was used where values are needed; assign it a tensor first.");
}

void Tensor::check_type(DType asked) const {
  PELLUCID_CHECK(dtype() == asked, TypeError,
                 "data_ptr: the tensor holds {} but {} was asked for. Convert it with .to({}) or "
                 "ask for its own type.",
                 dtype(), asked, asked);
  detail::require_values(impl(), "data_ptr");
}

void Tensor::make_exposed() const {
  detail::TensorImpl& t = impl();
  for (;;) {  // several threads may look for the first time
    const auto before = detail::alias_impl(t);
    if (!before->hidden_layout) return;
    // Another storage: a saved result may share this one, and its values stay where they are.
    const Tensor moved =
        before->storage && !before->is_contiguous() ? detail::row_major(Tensor(before)) : Tensor();
    detail::Ref<detail::Storage> former;  // ends behind the lock
    const std::lock_guard lock(detail::layout_mutex(t));
    if (!t.hidden_layout) return;
    if (t.storage != before->storage) continue;
    if (moved.defined()) {
      moved.impl().storage->version.store(t.storage->version.load(std::memory_order_relaxed),
                                          std::memory_order_relaxed);
      former = std::exchange(t.storage, moved.impl().storage);
      t.offset = 0;
    }
    t.strides = detail::contiguous_strides(t.sizes);
    std::atomic_ref<bool>(t.hidden_layout).store(false, std::memory_order_release);
    return;
  }
}

std::string describe(const Tensor& t) {
  return t.defined() ? fmt::format("{}{}", t.dtype(), t.sizes()) : "undefined";
}

}  // namespace pellucid
