// Operators. Integers are int64 and never wrap: what does not fit is an error that says so.
#include "cli/machine/operators.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "pellucid/creation.h"
#include "pellucid/op.h"
#include "pellucid/operators.h"

namespace pellucid::cli {

using expr::BinaryOp;
using expr::CompareOp;
using expr::UnaryOp;

namespace {

// A list longer than this is a slip of the pen.
constexpr int64_t kMaxListLength = 10'000'000;

[[noreturn]] void overflow(std::string_view what) {
  detail::raise<ValueError>(
      "the result of {} does not fit into 64 bits. Write a float, as in 2.0 for 2, if that is near "
      "enough.",
      what);
}

[[noreturn]] void unsupported(std::string_view symbol, const Object& left, const Object& right) {
  detail::raise<TypeError>("operator {} is not defined between {} and {}.", symbol,
                           left.type_name(), right.type_name());
}

// ---- integers

int64_t power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  const int64_t whole_base = base, whole_exponent = exponent;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      overflow(fmt::format("{}**{}", whole_base, whole_exponent));
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base))
      overflow(fmt::format("{}**{}", whole_base, whole_exponent));
  }
}

int64_t shift_left(int64_t a, int64_t count) {
  if (a == 0) return 0;
  const int64_t result = count > 62 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << count);
  if (count > 62 || (result >> count) != a) overflow(fmt::format("{} << {}", a, count));
  return result;
}

// Python's // and % round towards minus infinity.
int64_t floor_divide(int64_t a, int64_t b) {
  PELLUCID_CHECK(b != 0, ValueError, "division by zero.");
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) overflow(fmt::format("{} // -1", a));
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t remainder(int64_t a, int64_t b) {
  PELLUCID_CHECK(b != 0, ValueError, "division by zero.");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double divide(double a, double b) {
  PELLUCID_CHECK(b != 0, ValueError, "division by zero. Use a tensor, as in tensor({}), for inf.",
                 a);
  return a / b;
}

double remainder(double a, double b) {
  PELLUCID_CHECK(b != 0, ValueError, "division by zero.");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  const double whole = (a - remainder(a, b)) / b;
  return std::round(whole);  // (a - a % b) / b is a whole number but for its last bits
}

double power(double a, double b) {
  PELLUCID_CHECK(a != 0 || !(b < 0), ValueError, "0 cannot be raised to a negative power ({}).", b);
  PELLUCID_CHECK(!(a < 0) || std::isinf(a) || std::isinf(b) || b == std::floor(b), ValueError,
                 "a negative number ({}) raised to a fraction ({}) is complex.", a, b);
  return std::pow(a, b);
}

Value integer_binary(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::Add:
      if (__builtin_add_overflow(a, b, &result)) overflow(fmt::format("{} + {}", a, b));
      return result;
    case BinaryOp::Subtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow(fmt::format("{} - {}", a, b));
      return result;
    case BinaryOp::Multiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow(fmt::format("{} * {}", a, b));
      return result;
    case BinaryOp::TrueDivide:
      return divide(static_cast<double>(a), static_cast<double>(b));
    case BinaryOp::FloorDivide:
      return floor_divide(a, b);
    case BinaryOp::Remainder:
      return remainder(a, b);
    case BinaryOp::Power:
      if (b < 0) return power(static_cast<double>(a), static_cast<double>(b));
      return power(a, b);
    case BinaryOp::LeftShift:
    case BinaryOp::RightShift:
      PELLUCID_CHECK(b >= 0, ValueError, "a shift must not be negative, found {}.", b);
      if (op == BinaryOp::LeftShift) return shift_left(a, b);
      return a >> std::min<int64_t>(b, 63);
    case BinaryOp::And:
      return a & b;
    case BinaryOp::Or:
      return a | b;
    case BinaryOp::Xor:
      return a ^ b;
    case BinaryOp::MatMul:
      break;
  }
  detail::raise<TypeError>("matmul: both sides of @ must be tensors, found numbers. Use *.");
}

Value float_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Subtract:
      return a - b;
    case BinaryOp::Multiply:
      return a * b;
    case BinaryOp::TrueDivide:
      return divide(a, b);
    case BinaryOp::FloorDivide:
      return floor_divide(a, b);
    case BinaryOp::Remainder:
      return remainder(a, b);
    case BinaryOp::Power:
      return power(a, b);
    case BinaryOp::MatMul:
      detail::raise<TypeError>("matmul: both sides of @ must be tensors, found numbers. Use *.");
    default:
      detail::raise<TypeError>("operator {} is for ints and bools, not for floats.", symbol(op));
  }
}

Value number_binary(BinaryOp op, const Scalar& a, const Scalar& b) {
  if (a.isFloatingPoint() || b.isFloatingPoint())
    return float_binary(op, a.toDouble(), b.toDouble());
  const bool logic = op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor;
  const Value result = integer_binary(op, a.toLong(), b.toLong());
  return logic && a.isBoolean() && b.isBoolean() ? Value(result.scalar().toBool()) : result;
}

// ---- tensors

// op list: the ops of Python's operators, in the order of BinaryOp.
constexpr auto kBinaryNames = std::to_array<std::string_view>(
    {"add", "bitwise_and", "floor_divide", "bitwise_left_shift", "matmul", "mul", "remainder",
     "bitwise_or", "pow", "bitwise_right_shift", "sub", "div", "bitwise_xor"});
// op list: the comparisons.
constexpr auto kCompareNames =
    std::to_array<std::string_view>({"lt", "le", "eq", "ne", "gt", "ge"});

// The tensor of a number on the left of an operator whose op wants a tensor there: the number takes
// the tensor's dtype unless it is of a higher kind, as PyTorch promotes numbers.
Tensor number_beside(const Scalar& number, const Tensor& tensor_operand) {
  const DType beside = tensor_operand.dtype();
  DType dtype = beside;
  if (number.isFloatingPoint() && !is_floating(beside)) dtype = get_default_dtype();
  if (number.kind() == Scalar::Kind::Int && beside == kBool) dtype = kInt64;
  return to_tensor(Value(number), dtype);
}

Object only(std::vector<Value> results) {
  PELLUCID_ASSERT(results.size() == 1);
  return Object(std::move(results[0]));
}

Object tensor_in_place(BinaryOp op, const Tensor& left, const Object& right) {
  PELLUCID_CHECK(op != BinaryOp::MatMul, TypeError,
                 "@= would change the sizes of a tensor in place. Write x = x @ y.");
  const std::array<Value, 2> args = {Value(left), to_value(right)};
  return only(invoke(fmt::format("{}_", op_name(op)), args));
}

// The operators of C++ are the quick way; `a` and `b` are a tensor and a tensor or number.
template <class A, class B>
Object tensor_binary(BinaryOp op, const A& a, const B& b, const Object& left, const Object& right) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Subtract:
      return a - b;
    case BinaryOp::Multiply:
      return a * b;
    case BinaryOp::TrueDivide:
      return a / b;
    case BinaryOp::Remainder:
      return a % b;
    case BinaryOp::And:
      return a & b;
    case BinaryOp::Or:
      return a | b;
    case BinaryOp::Xor:
      return a ^ b;
    default:
      break;
  }
  std::array<Value, 2> args = {to_value(left), to_value(right)};
  if constexpr (std::is_same_v<A, Scalar>) args[0] = number_beside(a, b);
  return only(invoke(op_name(op), args));
}

template <class A, class B> Object tensor_compare(CompareOp op, const A& a, const B& b) {
  switch (op) {
    case CompareOp::Less:
      return a < b;
    case CompareOp::LessEqual:
      return a <= b;
    case CompareOp::Equal:
      return a == b;
    case CompareOp::NotEqual:
      return a != b;
    case CompareOp::Greater:
      return a > b;
    case CompareOp::GreaterEqual:
      return a >= b;
  }
  return {};
}

// ---- lists

template <class List> List repeated(const List& list, int64_t times) {
  List out;
  if (times <= 0 || list.empty()) return out;
  PELLUCID_CHECK(times <= kMaxListLength / static_cast<int64_t>(list.size()), ValueError,
                 "a list of {} elements, {} times, is too long. Use full() for a tensor.",
                 list.size(), times);
  out.reserve(list.size() * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) out.insert(out.end(), list.begin(), list.end());
  return out;
}

template <class List>
Object list_binary(BinaryOp op, const List* a, const List* b, const Object& left,
                   const Object& right) {
  if (op == BinaryOp::Add && a != nullptr && b != nullptr) {
    List out = *a;
    out.insert(out.end(), b->begin(), b->end());
    return out;
  }
  if (op == BinaryOp::Multiply && a != nullptr && right.as<int64_t>() != nullptr)
    return repeated(*a, *right.as<int64_t>());
  if (op == BinaryOp::Multiply && b != nullptr && left.as<int64_t>() != nullptr)
    return repeated(*b, *left.as<int64_t>());
  unsupported(symbol(op), left, right);
}

bool same_number(const Scalar& a, const Scalar& b) { return a.equal(b); }

bool same(const Value& a, const Value& b) {
  PELLUCID_CHECK(a.as<Tensor>() == nullptr && b.as<Tensor>() == nullptr, TypeError,
                 "lists of tensors cannot be compared. Compare the tensors, or use equal(a, b).");
  if (a.is_number() && b.is_number()) return same_number(a.scalar(), b.scalar());
  const Values *x = a.as<Values>(), *y = b.as<Values>();
  if (x == nullptr || y == nullptr)
    return a.get().index() == b.get().index() && a.repr() == b.repr();
  if (x->size() != y->size()) return false;
  for (size_t i = 0; i < x->size(); ++i)
    if (!same((*x)[i], (*y)[i])) return false;
  return true;
}

bool compare_numbers(CompareOp op, const Scalar& a, const Scalar& b) {
  const bool floats = a.isFloatingPoint() || b.isFloatingPoint();
  const double x = a.toDouble(), y = b.toDouble();
  const int64_t i = floats ? 0 : a.toLong(), j = floats ? 0 : b.toLong();
  switch (op) {
    case CompareOp::Less:
      return floats ? x < y : i < j;
    case CompareOp::LessEqual:
      return floats ? x <= y : i <= j;
    case CompareOp::Equal:
      return floats ? x == y : i == j;
    case CompareOp::NotEqual:
      return floats ? x != y : i != j;
    case CompareOp::Greater:
      return floats ? x > y : i > j;
    case CompareOp::GreaterEqual:
      return floats ? x >= y : i >= j;
  }
  return false;
}

}  // namespace

std::string_view op_name(BinaryOp op) { return kBinaryNames[static_cast<size_t>(op)]; }
std::string_view op_name(CompareOp op) { return kCompareNames[static_cast<size_t>(op)]; }

Object binary(BinaryOp op, bool in_place, const Object& left, const Object& right) {
  const Tensor *a = left.tensor(), *b = right.tensor();
  if (a != nullptr && in_place && (b != nullptr || right.is_number()))
    return tensor_in_place(op, *a, right);
  if (a != nullptr && b != nullptr) return tensor_binary(op, *a, *b, left, right);
  const bool numbers = left.is_number() || right.is_number();
  if ((a != nullptr || b != nullptr) && numbers) {
    PELLUCID_CHECK(op != BinaryOp::MatMul, TypeError,
                   "matmul: both sides of @ must be tensors, found {} and {}. Use * with a number.",
                   left.type_name(), right.type_name());
    if (a != nullptr) return tensor_binary(op, *a, right.scalar(), left, right);
    return tensor_binary(op, left.scalar(), *b, left, right);
  }
  if (left.is_number() && right.is_number())
    return number_binary(op, left.scalar(), right.scalar());
  if (left.list() != nullptr || right.list() != nullptr)
    return list_binary(op, left.list(), right.list(), left, right);
  if (left.tuple() != nullptr || right.tuple() != nullptr)
    return list_binary(op, left.tuple(), right.tuple(), left, right);
  unsupported(symbol(op), left, right);
}

Object unary(UnaryOp op, const Object& operand) {
  if (const Tensor* t = operand.tensor()) {
    if (op == UnaryOp::Negative) return -*t;
    if (op == UnaryOp::Invert) return ~*t;
    return *t;
  }
  PELLUCID_CHECK(operand.is_number(), TypeError, "unary {} is not defined for {}.", symbol(op),
                 operand.type_name());
  const Scalar number = operand.scalar();
  if (number.isFloatingPoint()) {
    PELLUCID_CHECK(op != UnaryOp::Invert, TypeError, "~ is for ints and bools, not for floats.");
    return op == UnaryOp::Negative ? -number.toDouble() : number.toDouble();
  }
  const int64_t value = number.toLong();
  if (op == UnaryOp::Positive) return value;
  if (op == UnaryOp::Invert) return ~value;
  if (value == std::numeric_limits<int64_t>::min()) overflow(fmt::format("-({})", value));
  return -value;
}

Object compare(CompareOp op, const Object& left, const Object& right) {
  const Tensor *a = left.tensor(), *b = right.tensor();
  if (a != nullptr && b != nullptr) return tensor_compare(op, *a, *b);
  if (a != nullptr && right.is_number()) return tensor_compare(op, *a, right.scalar());
  if (b != nullptr && left.is_number()) return tensor_compare(op, left.scalar(), *b);
  if (left.is_number() && right.is_number())
    return compare_numbers(op, left.scalar(), right.scalar());
  const bool equality = op == CompareOp::Equal || op == CompareOp::NotEqual;
  const bool plain = a == nullptr && b == nullptr && !left.is_module() && !right.is_module();
  if (!equality || !plain) unsupported(symbol(op), left, right);
  const bool equal =
      left.get().index() == right.get().index() &&
      (left.value() != nullptr || left.tuple() != nullptr ? same(to_value(left), to_value(right))
                                                          : left.repr() == right.repr());
  return equal == (op == CompareOp::Equal);
}

}  // namespace pellucid::cli
