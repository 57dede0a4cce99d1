// Weights that a kernel reads in an order of its own: packed for a library, or transformed. Whoever
// owns the weights may keep what a kernel made of them, until they change.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace pellucid::kernels {

/// Weights in another order.
class PackedForm {
 public:
  virtual ~PackedForm() = default;
  virtual int64_t bytes() const = 0;
};

/// The weights of one call. These keep nothing; the owner's (tensor/weights.h) do.
class Weights {
 public:
  Weights(const void* values) : values_(values) {}
  virtual ~Weights() = default;
  /// Row-major, without gaps. To be asked for on the thread that makes the call.
  template <class T> const T* as() const { return static_cast<const T*>(values()); }
  /// What was made of these weights before and `fits`; null where there is none.
  template <class Form, class Fits> std::shared_ptr<const Form> find(const Fits& fits) const {
    return std::static_pointer_cast<const Form>(find_form([&](const PackedForm& f) {
      const auto* const form = dynamic_cast<const Form*>(&f);
      return form != nullptr && fits(*form);
    }));
  }
  /// Whether a form that is made now is to be kept: the weights were the same in an earlier call.
  virtual bool keeps() const { return false; }
  /// To be called with a form that is complete.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who keeps it moves it
  virtual void keep(std::shared_ptr<const PackedForm>) const {}

 protected:
  using Fits = std::function<bool(const PackedForm&)>;
  virtual const void* values() const { return values_; }
  virtual std::shared_ptr<const PackedForm> find_form(const Fits&) const { return nullptr; }

 private:
  const void* values_;
};

}  // namespace pellucid::kernels
