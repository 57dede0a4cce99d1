// The operators of Tensor: each slot calls its record directly. The records are found once, at
// import.
#include <array>

#include "arguments.h"
#include "core/faces.h"
#include "op_function.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

enum Binary {
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  MatMul,
  And,
  Or,
  Xor,
  LShift,
  RShift,
  Lt,
  Le,
  Eq,
  Ne,
  Gt,
  Ge,
  kBinaryCount
};
constexpr const char* kBinaryNames[kBinaryCount] = {"add",
                                                    "sub",
                                                    "mul",
                                                    "div",
                                                    "floor_divide",
                                                    "remainder",
                                                    "pow",
                                                    "matmul",
                                                    "bitwise_and",
                                                    "bitwise_or",
                                                    "bitwise_xor",
                                                    "bitwise_left_shift",
                                                    "bitwise_right_shift",
                                                    "lt",
                                                    "le",
                                                    "eq",
                                                    "ne",
                                                    "gt",
                                                    "ge"};
const OpDef* binary_ops[kBinaryCount];

enum Unary { Neg, Pos, Abs, Invert, kUnaryCount };
constexpr const char* kUnaryNames[kUnaryCount] = {"neg", "positive", "abs", "bitwise_not"};
const OpDef* unary_ops[kUnaryCount];

const OpDef* first_of(const char* name) {
  const std::vector<const OpDef*> found = find_ops(name);
  PELLUCID_ASSERT(!found.empty());
  return found[0];
}

// An operand as a tensor: itself, or a number wrapped in `made`; null where it is neither.
const Tensor* operand(PyObject* o, Tensor& made) {
  if (is_tensor(o)) return &tensor_of(o);
  if (!is_number(o)) return nullptr;
  made = wrapped_number(to_scalar(o));
  return &made;
}

Attrs attributes_of(int kind) {
  static constexpr Attr alpha[1] = {Attr(Scalar(int64_t{1}))};
  return kind == Add || kind == Sub ? Attrs(alpha) : Attrs();
}

PyObject* binary(int kind, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor made;
    const Tensor* left = operand(a, made);
    const Tensor* right = left ? operand(b, made) : nullptr;
    if (!right || (kind == MatMul && made.defined())) Py_RETURN_NOTIMPLEMENTED;
    const Tensor* inputs[2] = {left, right};
    return call_one(*binary_ops[kind], inputs, attributes_of(kind));
  });
}

PyObject* in_place(int kind, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor made;
    const Tensor* right = operand(b, made);
    if (!right) Py_RETURN_NOTIMPLEMENTED;
    const Tensor* inputs[2] = {&tensor_of(a), right};
    {
      const MayRelease unlocked(worth_releasing(inputs, binary_ops[kind]->kind));
      call_in_place(*binary_ops[kind], inputs, attributes_of(kind));
    }
    return Py_NewRef(a);
  });
}

template <int kind> PyObject* slot_binary(PyObject* a, PyObject* b) { return binary(kind, a, b); }
template <int kind> PyObject* slot_in_place(PyObject* a, PyObject* b) {
  return in_place(kind, a, b);
}
PyObject* slot_power(PyObject* a, PyObject* b, PyObject*) { return binary(Pow, a, b); }
PyObject* slot_in_place_power(PyObject* a, PyObject* b, PyObject*) { return in_place(Pow, a, b); }

template <int kind> PyObject* slot_unary(PyObject* a) {
  return guarded([&] {
    const Tensor* inputs[1] = {&tensor_of(a)};
    return call_one(*unary_ops[kind], inputs, {});
  });
}

int slot_bool(PyObject* self) {
  return guarded([&] {
    const Tensor& t = tensor_of(self);
    PELLUCID_CHECK(t.numel() == 1, ValueError, "Boolean value of Tensor with {} is ambiguous",
                   t.numel() == 0 ? "no values" : "more than one value");
    return static_cast<int>(t.item().toBool());
  });
}

PyObject* slot_float(PyObject* self) {
  return guarded([&] { return PyFloat_FromDouble(tensor_of(self).item().toDouble()); });
}

PyObject* slot_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Scalar value = tensor_of(self).item();
    return value.isFloatingPoint() ? PyLong_FromDouble(value.toDouble())
                                   : PyLong_FromLongLong(value.toLong());
  });
}

PyObject* slot_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (t.numel() != 1 || !is_integral(t.dtype(), true)) {
      PyErr_SetString(PyExc_TypeError,
                      "only integer tensors of a single element can be converted to an index");
      return nullptr;
    }
    return PyLong_FromLongLong(t.item().toLong());
  });
}

}  // namespace

void bind_operators() {
  for (int i = 0; i < kBinaryCount; ++i) binary_ops[i] = first_of(kBinaryNames[i]);
  for (int i = 0; i < kUnaryCount; ++i) unary_ops[i] = first_of(kUnaryNames[i]);
}

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op) {
  static constexpr int kinds[] = {Lt, Le, Eq, Ne, Gt, Ge};  // in the order of Py_LT…Py_GE
  return binary(kinds[op], a, b);
}

void add_number_slots(PyType_Slot* slots, size_t& count) {
  const auto add = [&](int id, auto* f) { slots[count++] = {id, reinterpret_cast<void*>(f)}; };
  add(Py_nb_add, slot_binary<Add>);
  add(Py_nb_subtract, slot_binary<Sub>);
  add(Py_nb_multiply, slot_binary<Mul>);
  add(Py_nb_true_divide, slot_binary<Div>);
  add(Py_nb_floor_divide, slot_binary<FloorDiv>);
  add(Py_nb_remainder, slot_binary<Mod>);
  add(Py_nb_matrix_multiply, slot_binary<MatMul>);
  add(Py_nb_and, slot_binary<And>);
  add(Py_nb_or, slot_binary<Or>);
  add(Py_nb_xor, slot_binary<Xor>);
  add(Py_nb_lshift, slot_binary<LShift>);
  add(Py_nb_rshift, slot_binary<RShift>);
  add(Py_nb_power, slot_power);
  add(Py_nb_inplace_add, slot_in_place<Add>);
  add(Py_nb_inplace_subtract, slot_in_place<Sub>);
  add(Py_nb_inplace_multiply, slot_in_place<Mul>);
  add(Py_nb_inplace_true_divide, slot_in_place<Div>);
  add(Py_nb_inplace_floor_divide, slot_in_place<FloorDiv>);
  add(Py_nb_inplace_remainder, slot_in_place<Mod>);
  add(Py_nb_inplace_power, slot_in_place_power);
  add(Py_nb_inplace_and, slot_in_place<And>);
  add(Py_nb_inplace_or, slot_in_place<Or>);
  add(Py_nb_inplace_xor, slot_in_place<Xor>);
  add(Py_nb_inplace_lshift, slot_in_place<LShift>);
  add(Py_nb_inplace_rshift, slot_in_place<RShift>);
  add(Py_nb_negative, slot_unary<Neg>);
  add(Py_nb_positive, slot_unary<Pos>);
  add(Py_nb_absolute, slot_unary<Abs>);
  add(Py_nb_invert, slot_unary<Invert>);
  add(Py_nb_bool, slot_bool);
  add(Py_nb_float, slot_float);
  add(Py_nb_int, slot_int);
  add(Py_nb_index, slot_index);
}

}  // namespace pellucid::python
