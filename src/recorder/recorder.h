// The recorder: what the dispatcher, the engine, modules and the allocator tell while a recording
// runs. When none runs, all of this is one load and a branch that is never taken.
//
// A scope is begun and ended with an owner, any address that is unique while the scope lives;
// an end that does not match the innermost begin is ignored, so a recording may start and stop at
// any moment. Nothing here throws, and nothing here is reported by itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "pellucid/recorder.h"

namespace pellucid::profile {

/// A fast mixing of numbers into a hash.
inline uint64_t mix(uint64_t hash, uint64_t value) noexcept {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}
/// The same for two numbers at once, as fast as for one.
inline uint64_t mix(uint64_t hash, uint64_t a, uint64_t b) noexcept {
  const auto product = static_cast<unsigned __int128>(hash ^ a) * (b ^ 0xd6e8feb86659fd93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// What an op does with a block of memory.
enum class BlockRole : uint8_t { Read, Write, Saved };

/// Starts to record, from all threads; throws IoError where the folder cannot be written, and
/// ValueError if a recording runs already.
PELLUCID_API void start_recording(const RecorderOptions& options);
/// Ends the recording: every number that is still needed is on disk when it returns.
PELLUCID_API void stop_recording();
PELLUCID_API Mode recording_mode() noexcept;
/// "trace", "count" or "sample"; throws ValueError.
PELLUCID_API Mode mode_from_name(std::string_view name);
/// Removes the raw files of a recording, and their folder if nothing else is in it.
PELLUCID_API void remove_folder(const std::string& folder);
/// The folder of the recording that runs, or of the last one.
PELLUCID_API std::string recording_folder();

/// A number for a call of this kind, found by a hash of all that makes it different from others; 0:
/// not known yet, define it.
PELLUCID_API uint32_t find_signature(uint64_t hash) noexcept;
/// Adds a signature; `json` holds the members of its definition ("\"name\":\"add\",…").
PELLUCID_API uint32_t define_signature(uint64_t hash, EventKind kind,
                                       std::string_view json) noexcept;
/// What a signature costs, known after its first call.
PELLUCID_API void define_cost(uint32_t signature, std::string_view json) noexcept;
/// The signature of a scope that has only a name, and the hash that finds it.
PELLUCID_API uint32_t scope_signature(EventKind kind, std::string_view name) noexcept;
uint64_t scope_hash(EventKind kind, std::string_view name) noexcept;

/// A module, found by a hash of its address, type and parent; 0: not known yet.
PELLUCID_API uint32_t find_module(uint64_t hash) noexcept;
PELLUCID_API uint32_t define_module(uint64_t hash, uint32_t parent, std::string_view json) noexcept;

/// The module whose forward runs on this thread, by its number; 0 for none.
PELLUCID_API uint32_t innermost_module() noexcept;

/// Python tells where it is: a key that is unique to a line (0: no Python code runs), and the JSON
/// members of its definition.
struct PythonSites {
  uint64_t (*key)() noexcept = nullptr;
  std::string (*describe)(uint64_t key) = nullptr;
  /// The same for the whole stack: a list of such objects, innermost first.
  uint64_t (*stack_key)() noexcept = nullptr;
  std::string (*describe_stack)(uint64_t key) = nullptr;
};
/// Whether whole stacks are recorded.
PELLUCID_API bool recording_stacks() noexcept;
PELLUCID_API void set_python_sites(PythonSites sites) noexcept;

/// Begins and ends a scope on this thread, at the line of the program that runs now. `what` is a
/// signature, of Module a module; `link` a number of the tape.
PELLUCID_API void begin_scope(const void* owner, EventKind kind, uint32_t what,
                              uint64_t link = 0) noexcept;
/// The program's line now, for a call that runs later, in the recording that runs now.
struct LaterPlace {
  uint64_t place = 0;
  uint32_t recording = 0;  ///< its number; 0: nothing was recorded
};
/// `node`: of the tape, that the call leaves; 0 for none.
LaterPlace place_for_later(uint64_t node) noexcept;
/// Scopes that begin while it lives count for a line from before, if the same recording still runs.
class FromPlace {
 public:
  explicit FromPlace(LaterPlace from) noexcept;
  ~FromPlace();
  FromPlace(const FromPlace&) = delete;

 private:
  uint64_t outer_;
};

PELLUCID_API void end_scope(const void* owner, uint64_t link = 0, bool threw = false) noexcept;

/// Begins a scope by a hash of what it is, with one look-up; false, and nothing begun, where it is
/// the first of its kind from this line: then begin_new_call does it, with the signature or, for
/// Module, the module. `inputs` tells the values that a call reads from others, 0 where nothing can
/// be said.
bool begin_call(const void* owner, EventKind kind, uint64_t hash, uint32_t inputs = 0,
                uint64_t link = 0) noexcept;
void begin_new_call(const void* owner, EventKind kind, uint64_t hash, uint32_t inputs,
                    uint32_t what, uint64_t link = 0) noexcept;
/// The scope that was begun last is one that is worth asking the system about (usage.h), where the
/// kernel does not tell by itself.
void count_usage(const void* owner) noexcept;

/// Of the chosen step: the op that runs on this thread reads, writes or keeps a block. `name` is a
/// number of define_name, of a saved one.
PELLUCID_API void record_use(const void* block, BlockRole role, uint32_t name = 0) noexcept;
/// A number for a text that uses refer to.
PELLUCID_API uint32_t define_name(std::string_view text) noexcept;

namespace detail {
/// Whether the chosen step runs now.
extern constinit std::atomic<bool> uses_recorded;
/// Counts how often a block was taken at an address while blocks are recorded, for many addresses
/// together: where the count is the same, the block still is.
inline constexpr size_t kGenerations = 4096;
extern constinit std::array<std::atomic<uint32_t>, kGenerations> generations;
inline std::atomic<uint32_t>& generation_of(const void* block) noexcept {
  return generations[mix(0, reinterpret_cast<uint64_t>(block)) % kGenerations];
}
extern constinit std::atomic<bool> blocks_recorded;
}  // namespace detail

/// The executable of this process; "" where the system does not say.
PELLUCID_API std::string own_program();
/// A text as JSON writes it, with its quotes.
PELLUCID_API std::string json_text(std::string_view text);

}  // namespace pellucid::profile
