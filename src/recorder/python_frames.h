// The frames of a Python program, as the sampler's handler finds them: the interpreter's own frames
// are read while they stand still, for the thread that they belong to is the one that was
// interrupted. Everything is read through a system call that fails where nothing is, because the
// interrupted moment may lie between the steps by which the interpreter makes or drops a frame. How
// frames look in memory is known to the Python package (python/src/python_frames.cpp); how code
// objects are numbered, and what is kept of them, is here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pellucid/api.h"

namespace pellucid::profile {

/// One frame: which code object runs, and where in it.
struct PythonFrame {
  uint64_t code;         ///< its address
  uint64_t key;          ///< tells it from others that had the same address before
  uint32_t instruction;  ///< code units from the beginning of the code
  bool entry;  ///< its caller is no Python frame of the same run of the interpreter's loop
};

/// What is known of a code object.
struct PythonCode {
  char file[1024], name[256];  ///< UTF-8, cut where too long
  size_t file_bytes, name_bytes;
  uint64_t lines;  ///< where its line table lies (co_linetable)
  size_t lines_bytes;
  int32_t first_line;
};

/// Both are called in a signal handler.
struct PythonFrameReader {
  /// The frames of this thread, innermost first; how many.
  size_t (*walk)(PythonFrame* out, size_t most) noexcept = nullptr;
  bool (*describe)(const PythonFrame& frame, PythonCode& out) noexcept = nullptr;
};
/// Set once, when the package for Python is imported; without a reader, `missing` says why.
PELLUCID_API void set_python_frames(PythonFrameReader reader, const char* missing) noexcept;
/// Copies memory of this process that may not be there; false then. Safe in a handler.
PELLUCID_API bool read_memory(uint64_t from, void* to, size_t bytes) noexcept;

/// In the file of samples: a code object, before or after the samples that name it. Followed by the
/// bytes of its file's name, its own name and its line table, padded to a multiple of 8.
struct RawCode {
  uint64_t magic;   // kCodeMagic, written last
  uint32_t number;  // in samples: counts from 1
  int32_t first_line;
  uint32_t file_bytes, name_bytes, lines_bytes, reserved;
  size_t bytes() const { return (size_t{file_bytes} + name_bytes + lines_bytes + 7) / 8 * 8; }
};
inline constexpr uint64_t kCodeMagic = 0x45444f4343505950;

/// A frame in a sample.
struct RawPythonFrame {
  uint32_t code;         // RawCode::number, 0 where there was no room for another one
  uint32_t instruction;  // kEntry set where PythonFrame::entry is
  static constexpr uint32_t kEntry = 0x80000000u;
};

inline constexpr size_t kMostPythonFrames = 128;
/// In the handler: the Python frames of this thread, with `reserve` giving room in the file for
/// code objects that are new. Returns how many there are.
size_t read_python_frames(RawPythonFrame* out, char* (*reserve)(size_t bytes) noexcept) noexcept;
/// Before a recording, and in the child of a fork: no code object has a number.
void forget_python_code() noexcept;
/// Why samples have no Python frames; null where they have, or no Python runs.
const char* python_frames_missing() noexcept;

/// The line of an instruction, from a line table of CPython 3.11 or later (its
/// Objects/locations.md); `first_line` where the table does not tell.
int python_line(const unsigned char* table, size_t bytes, int first_line, uint32_t instruction);

}  // namespace pellucid::profile
