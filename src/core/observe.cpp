#include "core/observe.h"

#include <utility>

namespace pellucid {
namespace {

constinit thread_local OpObserver* current = nullptr;

}  // namespace

constinit std::atomic<int> OpObserver::open{0};

OpObserver::OpObserver(Function function)
    : function_(std::move(function)), outer_(std::exchange(current, this)) {
  open.fetch_add(1, std::memory_order_relaxed);
}

OpObserver::~OpObserver() {
  open.fetch_sub(1, std::memory_order_relaxed);
  current = outer_;
}

void OpObserver::tell_innermost(const Call& call) {
  // Nobody observes the observer, whose own ops would call it without end.
  struct Pause {
    Pause() : observer(std::exchange(current, nullptr)) {}
    ~Pause() { current = observer; }
    OpObserver* observer;
  } const pause;
  if (pause.observer) pause.observer->function_(call);
}

}  // namespace pellucid
