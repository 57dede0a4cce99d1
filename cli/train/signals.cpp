// The handler of SIGINT and SIGTERM. It runs on a stack of its own: oneDNN's small matrix products
// point the stack pointer into a block of the heap, and what the kernel of the system pushes below
// it would destroy the block's neighbours.
#include "cli/train/signals.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <vector>

namespace pellucid::cli::train {
namespace {

volatile std::sig_atomic_t asked = 0;

std::vector<char> handler_stack;
stack_t former_stack{};

// The main thread's, which gets the signals of the process as long as it does not block them.
void use_own_stack() {
  constexpr size_t kForTheHandler = 64 << 10;
  handler_stack.resize(getauxval(AT_MINSIGSTKSZ) + kForTheHandler);
  stack_t own{};
  own.ss_sp = handler_stack.data();
  own.ss_size = handler_stack.size();
  sigaltstack(&own, &former_stack);
}

void on_signal(int number) {
  if (asked != 0) _exit(128 + number);
  asked = number;
}

void watch(int number, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(number, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

}  // namespace

SignalWatch::SignalWatch() {
  asked = 0;
  use_own_stack();
  watch(SIGINT, before_int_);
  watch(SIGTERM, before_term_);
}

SignalWatch::~SignalWatch() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  sigaltstack(&former_stack, nullptr);
}

int asked_to_stop() { return asked; }

void stop_if_asked() {
  if (asked != 0) throw Stopped{};
}

}  // namespace pellucid::cli::train
