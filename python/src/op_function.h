// The callables that Python sees for ops: functions and Tensor methods, in-place forms too.
#pragma once

#include <Python.h>

#include "pellucid/op.h"
#include "profiler.h"

namespace pellucid::python {

struct Signature;
/// An inspect.Signature of one overload.
PyObject* make_signature(const Signature& s, bool method);

/// Puts a function for every op into `functions` (a dict by name), and methods into the Tensor
/// type; throws PythonErrorSet.
void bind_ops(PyObject* module, PyObject* functions);

/// Runs f without the GIL where the inputs are so large that other threads gain from it.
bool worth_releasing(Inputs inputs, OpKind kind);

/// Lets other Python threads run while it lives, if `on`.
class MayRelease {
 public:
  explicit MayRelease(bool on) {
    if (!on) return;
    remember_place();
    state_ = PyEval_SaveThread();
  }
  ~MayRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }
  MayRelease(const MayRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

/// One visible result, as the dispatcher returns it.
PyObject* call_one(const OpDef& op, Inputs inputs, Attrs attrs);

}  // namespace pellucid::python
