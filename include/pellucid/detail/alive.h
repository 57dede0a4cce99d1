// Whether an object still exists, for those who hold its address.
#pragma once

#include <memory>

namespace pellucid::detail {

/// A member of the object. A copy of the object is another one.
class Alive {
 public:
  Alive() = default;
  Alive(const Alive&) {}
  Alive& operator=(const Alive& o) {
    if (this != &o) token_.reset();
    return *this;
  }
  /// Expired when the object is destroyed or assigned to.
  std::weak_ptr<const char> watch() const {
    if (!token_) token_ = std::make_shared<const char>();
    return token_;
  }

 private:
  mutable std::shared_ptr<const char> token_;
};

}  // namespace pellucid::detail
