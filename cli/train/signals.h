// SIGINT and SIGTERM while training: the first asks the loop to finish its step and save, a second
// one ends the process at once.
#pragma once

#include <csignal>

namespace pellucid::cli::train {

/// Watches the two signals for a scope. A signal that was ignored before (nohup) stays ignored.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;

 private:
  struct sigaction before_int_ {
  }, before_term_{};
};

/// The signal that asked to stop, or 0.
int asked_to_stop();

/// Thrown by stop_if_asked.
struct Stopped {};
/// Leaves an evaluation that nobody waits for any more.
void stop_if_asked();

}  // namespace pellucid::cli::train
