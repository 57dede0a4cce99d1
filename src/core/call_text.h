// Words about a call, for anomaly mode and messages.
#pragma once

#include <string>

#include "pellucid/op.h"

namespace pellucid {

/// "matmul(float32[2, 3], float32[3, 4])": the op and its inputs.
PELLUCID_API std::string call_text(const Call& c);
/// The program's line that runs on this thread, of Python or C++: "train.py:12"; "" if not known.
std::string line_now();
/// The same text and the program's line: "… at train.cpp:12".
std::string describe_call(const Call& c);

/// Which line of the program made a call. Names are looked up when somebody reads them.
struct ProgramLine {
  /// Takes that of this thread.
  void note();
  /// "train.py:12"; "" if not known.
  std::string text() const;

  const void* caller = nullptr;         ///< in the program's code, or
  const std::string* python = nullptr;  ///< a line of Python, kept for the process
};

}  // namespace pellucid
