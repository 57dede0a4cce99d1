// How the frames of the Python program look in memory, for the sampler
// (src/recorder/python_frames.h). They are the interpreter's own and change from version to
// version, so this file is compiled with the headers of the interpreter's inside, and knows
// CPython 3.11 to 3.13. All of it runs in a signal handler on the thread whose frames are read:
// nothing is counted, allocated or locked, and every read is one that may fail.
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030e0000 && !defined(Py_GIL_DISABLED) && \
    !defined(PYPY_VERSION)
#define PELLUCID_READS_FRAMES
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "python_frames.h"
#include "recorder/python_frames.h"
#include "recorder/recorder.h"

namespace pellucid::python {

#ifdef PELLUCID_READS_FRAMES
namespace {

using profile::PythonCode;
using profile::PythonFrame;
using profile::read_memory;

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

// Copies one value of another object; false where nothing is.
template <class T> bool read_at(const void* from, T& to) {
  return read_memory(address(from), &to, sizeof to);
}

const _PyInterpreterFrame* innermost(PyThreadState* state) {
  const _PyInterpreterFrame* frame = nullptr;
#if PY_VERSION_HEX < 0x030d0000
  _PyCFrame* run = nullptr;
  if (!read_at(&state->cframe, run) || !run || !read_at(&run->current_frame, frame)) return nullptr;
#else
  if (!read_at(&state->current_frame, frame)) return nullptr;
#endif
  return frame;
}

const void* code_of(const _PyInterpreterFrame& frame) {
#if PY_VERSION_HEX < 0x030d0000
  return frame.f_code;
#else
  return frame.f_executable;
#endif
}

const void* instruction_of(const _PyInterpreterFrame& frame) {
#if PY_VERSION_HEX < 0x030d0000
  return frame.prev_instr;
#else
  return frame.instr_ptr;
#endif
}

// Whether a frame stands for a run of the interpreter's loop and nothing else, and whether it is
// the first of a run.
bool is_shim([[maybe_unused]] const _PyInterpreterFrame& frame) {
#if PY_VERSION_HEX < 0x030c0000
  return false;
#else
  return frame.owner == FRAME_OWNED_BY_CSTACK;
#endif
}
bool is_entry([[maybe_unused]] const _PyInterpreterFrame& frame) {
#if PY_VERSION_HEX < 0x030c0000
  return frame.is_entry;
#else
  return false;
#endif
}

constexpr size_t kFrameBytes = offsetof(_PyInterpreterFrame, localsplus);
constexpr size_t kCodeBytes = offsetof(PyCodeObject, co_code_adaptive);

/// The fields of a code object that are needed, in a copy.
struct CodeCopy {
  alignas(PyCodeObject) char bytes[kCodeBytes];
  const PyCodeObject& operator*() const { return *reinterpret_cast<const PyCodeObject*>(bytes); }
  bool read(uint64_t from) {
    return read_memory(from, bytes, kCodeBytes) && (**this).ob_base.ob_base.ob_type == &PyCode_Type;
  }
};

bool read_frame(const _PyInterpreterFrame& frame, PythonFrame& out) {
  CodeCopy copy;
  out.code = address(code_of(frame));
  if (out.code == 0 || !copy.read(out.code)) return false;
  const PyCodeObject& code = *copy;
  uint64_t key = profile::mix(out.code, address(code.co_linetable), address(code.co_qualname));
  out.key = profile::mix(key, static_cast<uint64_t>(code.co_firstlineno));
  const int64_t offset = static_cast<int64_t>(address(instruction_of(frame))) -
                         static_cast<int64_t>(out.code + kCodeBytes);
  // Before its first instruction a frame has none yet.
  out.instruction = static_cast<uint32_t>(
      std::max<int64_t>(0, offset / static_cast<int64_t>(sizeof(_Py_CODEUNIT))));
  out.entry = is_entry(frame);
  return true;
}

size_t walk(PythonFrame* out, size_t most) noexcept {
  PyThreadState* state = PyGILState_GetThisThreadState();
  if (!state) return 0;
  size_t count = 0;
  const _PyInterpreterFrame* at = innermost(state);
  alignas(_PyInterpreterFrame) char bytes[sizeof(_PyInterpreterFrame)] = {};
  const auto& frame = *reinterpret_cast<const _PyInterpreterFrame*>(bytes);
  for (size_t seen = 0; at && count < most && seen < 4 * most; ++seen) {
    if (!read_memory(address(at), bytes, kFrameBytes)) break;
    if (is_shim(frame)) {
      if (count > 0) out[count - 1].entry = true;
    } else if (read_frame(frame, out[count])) {
      ++count;
    } else if (count > 0) {
      break;  // only the innermost one may be half made
    }
    at = frame.previous;
  }
  return count;
}

// One character as UTF-8; returns how many bytes.
size_t put_character(uint32_t c, char* out) {
  if (c < 0x80) return out[0] = static_cast<char>(c), 1;
  const int more = c < 0x800 ? 1 : (c < 0x10000 ? 2 : 3);
  const uint32_t mark = more == 1 ? 0xc0 : (more == 2 ? 0xe0 : 0xf0);
  out[0] = static_cast<char>(mark | c >> 6 * more);
  for (int i = 1; i <= more; ++i) out[i] = static_cast<char>(0x80 | (c >> 6 * (more - i) & 63));
  return static_cast<size_t>(more) + 1;
}

// A str as UTF-8, as much as fits; 0 bytes where it is none.
size_t read_text(const PyObject* object, char* out, size_t room) {
  PyCompactUnicodeObject text{};
  const auto& head = text._base;
  if (!read_memory(address(object), &text, sizeof head) ||
      head.ob_base.ob_type != &PyUnicode_Type || !head.state.compact)
    return 0;
  const size_t width = head.state.kind;  // 1, 2 or 4 bytes a character
  const uint64_t data =
      address(object) + (head.state.ascii ? sizeof(PyASCIIObject) : sizeof(PyCompactUnicodeObject));
  size_t written = 0;
  for (size_t i = 0; i < static_cast<size_t>(head.length);) {
    char part[256];
    const size_t characters = std::min(sizeof part / width, static_cast<size_t>(head.length) - i);
    if (!read_memory(data + i * width, part, characters * width)) break;
    for (size_t k = 0; k < characters; ++k) {
      if (written + 4 > room) return written;
      uint32_t c = 0;
      std::memcpy(&c, part + k * width, width);
      written += put_character(c, out + written);
    }
    i += characters;
  }
  return written;
}

bool describe(const PythonFrame& frame, PythonCode& out) noexcept {
  CodeCopy copy;
  if (!copy.read(frame.code)) return false;
  const PyCodeObject& code = *copy;
  out.first_line = code.co_firstlineno;
  out.file_bytes = read_text(code.co_filename, out.file, sizeof out.file);
  out.name_bytes = read_text(code.co_qualname, out.name, sizeof out.name);
  PyVarObject table{};
  out.lines_bytes = 0;
  out.lines = address(code.co_linetable) + offsetof(PyBytesObject, ob_sval);
  if (read_at(code.co_linetable, table) && table.ob_base.ob_type == &PyBytes_Type)
    out.lines_bytes = static_cast<size_t>(table.ob_size);
  return true;
}

}  // namespace

void register_python_frames() { profile::set_python_frames({walk, describe}, nullptr); }

#else

void register_python_frames() {
  profile::set_python_frames({}, "how this interpreter (" PY_VERSION
                                 ") keeps its frames is not known; CPython 3.11 to 3.13 are");
}

#endif

}  // namespace pellucid::python
