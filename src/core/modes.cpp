// Thread-local modes: gradients, inference, anomaly detection.
#include "core/engine.h"
#include "pellucid/autograd.h"

namespace pellucid::autograd {

namespace {
constinit thread_local bool grad_enabled = true;
constinit thread_local bool inference = false;
std::atomic<bool> anomaly{false}, anomaly_checks_nan{true};
}  // namespace

bool GradMode::is_enabled() { return grad_enabled; }
void GradMode::set_enabled(bool on) { grad_enabled = on; }
bool tracks() { return grad_enabled && !inference; }

InferenceMode::InferenceMode(bool enabled) : grad_before_(grad_enabled), mode_before_(inference) {
  grad_enabled = !enabled;
  inference = enabled;
}
InferenceMode::~InferenceMode() {
  grad_enabled = grad_before_;
  inference = mode_before_;
}
bool InferenceMode::is_enabled() { return inference; }

bool AnomalyMode::is_enabled() { return anomaly.load(std::memory_order_relaxed); }
bool AnomalyMode::should_check_nan() { return anomaly_checks_nan.load(std::memory_order_relaxed); }
void AnomalyMode::set_enabled(bool enabled, bool check_nan) {
  anomaly = enabled;
  anomaly_checks_nan = check_nan;
}

DetectAnomalyGuard::DetectAnomalyGuard(bool check_nan)
    : before_(AnomalyMode::is_enabled()), check_before_(AnomalyMode::should_check_nan()) {
  AnomalyMode::set_enabled(true, check_nan);
}
DetectAnomalyGuard::~DetectAnomalyGuard() { AnomalyMode::set_enabled(before_, check_before_); }

}  // namespace pellucid::autograd
