// Tells the sampler how to find the frames of the Python program.
#pragma once

namespace pellucid::python {

void register_python_frames();

}  // namespace pellucid::python
