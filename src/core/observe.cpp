#include "core/observe.h"

#include <utility>

#include "tensor/mode.h"

namespace pellucid {
namespace {

constinit thread_local OpObserver* current = nullptr;

}  // namespace

OpObserver::OpObserver(Function function)
    : function_(std::move(function)), outer_(std::exchange(current, this)) {
  detail::set_mode(detail::kObserve, true);
}

OpObserver::~OpObserver() {
  current = outer_;
  detail::set_mode(detail::kObserve, current != nullptr);
}

namespace detail {

void tell_observer(const Call& call) {
  // Nobody observes the observer, whose own ops would call it without end.
  struct Pause {
    Pause() : observer(std::exchange(current, nullptr)) {}
    ~Pause() { current = observer; }
    OpObserver* observer;
  } const pause;
  if (pause.observer) pause.observer->see(call);
}

}  // namespace detail

}  // namespace pellucid
