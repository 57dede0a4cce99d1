// Checkpoints: all that training needs to go on, in one file with a checksum over every byte. The
// file is replaced whole or not at all, so whatever ends a save, the old or the new state loads.
#pragma once

#include <string>

#include "pellucid/io/safetensors.h"
#include "pellucid/named_values.h"

namespace pellucid::io {

/// Where the default generator stands.
struct RandomState {
  uint64_t seed = 0, offset = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};
PELLUCID_API RandomState random_state();
PELLUCID_API void set_random_state(RandomState state);

/// The parts of a checkpoint; each may be empty.
struct Checkpoint {
  NamedTensors model;       ///< parameters and buffers
  NamedValues optimizer;    ///< Optimizer::state_dict()
  NamedValues scheduler;    ///< LRScheduler::state_dict()
  NamedValues loader;       ///< DataLoader::state_dict()
  NamedValues progress;     ///< epoch, step, best loss… whatever the program counts
  RandomState random;       ///< of the default generator
  std::string user = "{}";  ///< JSON of the program's own, checked when saved
  std::string isa;          ///< the ISA level of the kernels that it was saved with; set by load
  /// Why a run that continues from here will not have the same bits, with the kernels of now; empty
  /// if it will.
  PELLUCID_API std::string warning() const;
};

/// Writes a checkpoint; throws IoError with path and errno, and leaves the former file, where
/// anything fails.
PELLUCID_API void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
/// Reads a checkpoint into memory of its own; throws IoError for any file that is not byte for byte
/// what was written. Tensors that were one tensor are one again.
PELLUCID_API Checkpoint load_checkpoint(const std::string& path);

/// The same format for any list of named values: numbers, texts, lists and tensors.
PELLUCID_API void save_values(const std::string& path, const NamedValues& values);
PELLUCID_API NamedValues load_values(const std::string& path);

}  // namespace pellucid::io
