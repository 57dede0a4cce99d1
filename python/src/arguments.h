// Argument parsers compiled from ops at import: which Python arguments fit a schema, and the
// dispatcher's borrowed inputs and attributes made from them. A call looks nothing up by name:
// keywords are interned strings that are compared by address first.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "pellucid/detail/inline_vec.h"
#include "pellucid/op.h"

namespace pellucid::python {

/// One argument of a schema, ready to be compared with Python objects.
struct ArgSpec {
  const Arg* arg = nullptr;
  PyObject* name = nullptr;   ///< interned; what Python calls it (input for self)
  PyObject* aliases[4] = {};  ///< interned; NumPy's names that PyTorch takes too
  Attr default_attr;          ///< for an attribute with a default
  Dims default_list;          ///< what default_attr points to
};

/// One overload.
struct Signature {
  explicit Signature(const OpDef& op);
  const OpDef* op;
  const OpInfo* info;
  std::vector<ArgSpec> args;  ///< without devices
  size_t positional = 0;      ///< how many may be given by position
  size_t list_count = 0;      ///< how many are lists of ints
  int self = -1;              ///< which argument is `self`, or -1
  int gathered = -1;          ///< which list of ints may be given as several ints, or -1
  bool creates = false;       ///< takes device, layout, pin_memory and requires_grad too
  /// "(Tensor input, int dim, bool keepdim=False)", for messages and docstrings.
  std::string text(bool method) const;
};

/// The inputs and attributes of one call; owns what was made for it.
struct Bound {
  detail::InlineVec<const Tensor*, 6> inputs;
  detail::InlineVec<Attr, 8> attrs;
  detail::InlineVec<Tensor, 4> made;  ///< numbers wrapped as tensors, and undefined tensors
  detail::InlineVec<Dims, 3> lists;
  PyObject* generator = nullptr;  ///< borrowed: whose random numbers to draw, or null
  bool requires_grad = false;
};

/// Why arguments do not fit.
struct Mismatch {
  std::string text;     ///< set only if asked for
  bool wanted = false;  ///< whether to write the text
};

/// Binds a call's arguments; false (with no Python error set) where they do not fit. The result
/// borrows from the Python objects. `receiver` is x in x.op(...), or null.
bool bind(const Signature& s, PyObject* receiver, PyObject* const* args, size_t count,
          PyObject* names, Bound& out, Mismatch& why);

/// "Tensor", "tuple of ints"…, for messages.
const char* type_text(const Arg& a);
/// The text of a str.
std::string utf8(PyObject* o);
/// Whether the object stands for a number: int, float, bool or NumPy's scalars.
bool is_number(PyObject* o);
/// The number; throws PythonErrorSet where it does not fit 64 bits.
Scalar to_scalar(PyObject* o);
/// A dtype object or one of Python's float, int, bool; false if it is neither.
bool to_dtype(PyObject* o, DType& out);
/// An int, an int-like object or a 0-dim tensor of integers; false if it is none.
bool to_int(PyObject* o, int64_t& out);

}  // namespace pellucid::python
