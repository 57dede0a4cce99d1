// The operators of Tensor: each slot of the type calls its op directly, found once.
#include <algorithm>

#include "arguments.h"
#include "core/generated_support.h"
#include "op_function.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

// The op of a slot, found when the slot is first used: slot_binary<"add">.
template <size_t N> struct Name {
  char text[N];
  consteval Name(const char (&name)[N]) { std::copy_n(name, N, text); }
};

template <Name name> const OpDef& op_named() {
  static const OpDef& op = *[] {
    const std::vector<const OpDef*> found = find_ops(name.text);
    PELLUCID_ASSERT(!found.empty());
    return found[0];
  }();
  return op;
}

// An operand as a tensor: itself, or a number wrapped in `made`; null where it is neither.
const Tensor* operand(PyObject* o, Tensor& made) {
  if (is_tensor(o)) return &tensor_of(o);
  if (!is_number(o)) return nullptr;
  made = wrapped_number(to_scalar(o));
  return &made;
}

// The attribute of add and sub.
Attrs attributes_of(const OpDef& op) {
  static constexpr Attr alpha[1] = {Attr(Scalar(int64_t{1}))};
  return op.info->args.size() > 2 ? Attrs(alpha) : Attrs();
}

PyObject* binary(const OpDef& op, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor made;
    const Tensor* left = operand(a, made);
    const Tensor* right = left ? operand(b, made) : nullptr;
    // A number stands for a tensor only where the op takes one: not in a matrix product.
    if (!right || (made.defined() && !op.info->args[1].scalar_too)) Py_RETURN_NOTIMPLEMENTED;
    const Tensor* inputs[2] = {left, right};
    return call_one(op, inputs, attributes_of(op));
  });
}

PyObject* in_place(const OpDef& op, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor made;
    const Tensor* right = operand(b, made);
    if (!right) Py_RETURN_NOTIMPLEMENTED;
    const Tensor* inputs[2] = {&tensor_of(a), right};
    {
      const MayRelease unlocked(worth_releasing(inputs, op.kind));
      call_in_place(op, inputs, attributes_of(op));
    }
    return Py_NewRef(a);
  });
}

template <Name name> PyObject* slot_binary(PyObject* a, PyObject* b) {
  return binary(op_named<name>(), a, b);
}
template <Name name> PyObject* slot_in_place(PyObject* a, PyObject* b) {
  return in_place(op_named<name>(), a, b);
}
PyObject* slot_power(PyObject* a, PyObject* b, PyObject*) { return slot_binary<"pow">(a, b); }
PyObject* slot_in_place_power(PyObject* a, PyObject* b, PyObject*) {
  return slot_in_place<"pow">(a, b);
}

template <Name name> PyObject* slot_unary(PyObject* a) {
  return guarded([&] {
    const Tensor* inputs[1] = {&tensor_of(a)};
    return call_one(op_named<name>(), inputs, {});
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

PyObject* tensor_richcompare(PyObject* a, PyObject* b, int op) {
  switch (op) {
    case Py_LT:
      return slot_binary<"lt">(a, b);
    case Py_LE:
      return slot_binary<"le">(a, b);
    case Py_EQ:
      return slot_binary<"eq">(a, b);
    case Py_NE:
      return slot_binary<"ne">(a, b);
    case Py_GT:
      return slot_binary<"gt">(a, b);
    default:
      return slot_binary<"ge">(a, b);
  }
}

void add_number_slots(PyType_Slot* slots, size_t& count) {
  const auto add = [&](int id, auto* f) { slots[count++] = {id, reinterpret_cast<void*>(f)}; };
  add(Py_nb_add, slot_binary<"add">);
  add(Py_nb_subtract, slot_binary<"sub">);
  add(Py_nb_multiply, slot_binary<"mul">);
  add(Py_nb_true_divide, slot_binary<"div">);
  add(Py_nb_floor_divide, slot_binary<"floor_divide">);
  add(Py_nb_remainder, slot_binary<"remainder">);
  add(Py_nb_matrix_multiply, slot_binary<"matmul">);
  add(Py_nb_and, slot_binary<"bitwise_and">);
  add(Py_nb_or, slot_binary<"bitwise_or">);
  add(Py_nb_xor, slot_binary<"bitwise_xor">);
  add(Py_nb_lshift, slot_binary<"bitwise_left_shift">);
  add(Py_nb_rshift, slot_binary<"bitwise_right_shift">);
  add(Py_nb_power, slot_power);
  add(Py_nb_inplace_add, slot_in_place<"add">);
  add(Py_nb_inplace_subtract, slot_in_place<"sub">);
  add(Py_nb_inplace_multiply, slot_in_place<"mul">);
  add(Py_nb_inplace_true_divide, slot_in_place<"div">);
  add(Py_nb_inplace_floor_divide, slot_in_place<"floor_divide">);
  add(Py_nb_inplace_remainder, slot_in_place<"remainder">);
  add(Py_nb_inplace_power, slot_in_place_power);
  add(Py_nb_inplace_and, slot_in_place<"bitwise_and">);
  add(Py_nb_inplace_or, slot_in_place<"bitwise_or">);
  add(Py_nb_inplace_xor, slot_in_place<"bitwise_xor">);
  add(Py_nb_inplace_lshift, slot_in_place<"bitwise_left_shift">);
  add(Py_nb_inplace_rshift, slot_in_place<"bitwise_right_shift">);
  add(Py_nb_negative, slot_unary<"neg">);
  add(Py_nb_positive, slot_unary<"positive">);
  add(Py_nb_absolute, slot_unary<"abs">);
  add(Py_nb_invert, slot_unary<"bitwise_not">);
  add(Py_nb_bool, slot_bool);
  add(Py_nb_float, slot_float);
  add(Py_nb_int, slot_int);
  add(Py_nb_index, slot_index);
}

}  // namespace pellucid::python
