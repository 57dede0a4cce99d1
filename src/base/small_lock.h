// SmallLock: a mutex of one byte that costs one exchange and one store while nobody else wants it.
#pragma once

#include <atomic>

namespace pellucid {

class SmallLock {
 public:
  void lock() noexcept {
    while (held_.test_and_set(std::memory_order_acquire)) held_.wait(true);
  }
  void unlock() noexcept {
    held_.clear(std::memory_order_release);
    held_.notify_one();
  }

 private:
  std::atomic_flag held_;
};

}  // namespace pellucid
