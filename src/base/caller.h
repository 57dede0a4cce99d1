// Which line of the program called into the library. No unwinding: the library is built with frame
// pointers, so its own frames are walked to the first return address outside it. Functions of our
// headers that live in the program count as the library. Names and lines are looked up afterwards.
#pragma once

#include <string>

namespace pellucid {

/// The return address in the program's code, or null where the chain of frames ends first.
const void* caller_outside_library();
/// Whether an address lies in the library's own code.
bool is_library_code(const void* address);
/// "train.cpp:12" for a code address, "" where the debug information does not tell.
std::string source_line(const void* address);

}  // namespace pellucid
