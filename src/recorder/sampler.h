// The sampler: a timer for each thread that runs on the processor time it uses; its signal copies
// the registers, the top of the stack, the innermost scope and the frames of a Python program into
// a mapped file. Nothing is unwound or looked up in the handler: that is done after the run
// (unwind.cpp).
#pragma once

#include <cstdint>
#include <string>

namespace pellucid::profile {

/// Registers in DWARF's order: rax rdx rcx rbx rsi rdi rbp rsp r8…r15 rip.
inline constexpr int kSampleRegisters = 17;

/// One sample in the file samples-PID-TAG, followed by `stack_bytes` bytes from the stack pointer
/// up, then by `python_frames` RawPythonFrames. Between samples lie RawCodes (python_frames.h).
struct RawSample {
  uint64_t magic;  // kSampleMagic, written last
  uint64_t at;     // ticks
  uint64_t took;   // ticks that the handler needed for it
  int32_t thread;
  uint32_t stack_bytes;  // a multiple of 8
  uint32_t call;         // the innermost scope, 0 for none; of a thread of the pool that of the
                         // region it works for, kIdleCall between regions
  uint32_t python_frames;
  uint64_t registers[kSampleRegisters];
};
inline constexpr uint64_t kSampleMagic = 0x324c504d4153504c;
inline constexpr uint32_t kIdleCall = 0xffffffff;

/// Starts and stops the timers of all threads of the process, and of those that come later.
void start_sampler(const std::string& folder, const std::string& tag, double rate);
/// Returns the nanoseconds of processor time that the watching thread took.
int64_t stop_sampler() noexcept;
/// In the child of a fork: its one thread gets a timer, and the samples a file of their own.
void restart_sampler(const std::string& folder, const std::string& tag);
/// Gives this thread a stack for its handler, because our kernels may move the stack pointer away.
void prepare_thread_for_samples() noexcept;
/// Takes that stack away again; the thread ends.
void release_thread_after_samples() noexcept;
/// Tells which call runs on this thread.
void note_innermost(uint32_t call) noexcept;
/// The nanoseconds that the system takes to interrupt a thread by a signal and to let it go on,
/// beside what the handler does; measured with a handler that does nothing. Not while the sampler
/// runs: the signal is its own.
double measure_interruption() noexcept;

}  // namespace pellucid::profile
