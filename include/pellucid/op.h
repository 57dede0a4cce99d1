// The op definition and the dispatcher. An operator is described once, in an OpDef; eager
// execution, autograd, cost, pictures, tests and the command line are derived from it. A program
// registers its own op definitions with register_op and gets all of that too.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pellucid/tensor.h"
#include "pellucid/value.h"

namespace pellucid::kernels {
struct TileStep;
}

namespace pellucid {

struct OpDef;
class Call;
class Samples;
struct Vjp;

/// What an op does to its elements; drives fusion.
enum class OpKind : uint8_t {
  Pointwise,
  Reduction,
  Contraction,
  View,
  Index,
  Random,
  Creation,
  Opaque
};

/// FLOPs and the least bytes that must move.
struct Cost {
  double flops = 0;
  double bytes = 0;
  double added = 0;    ///< of a contraction's FLOPs those beside its products: a bias, a softmax
  double skipped = 0;  ///< FLOPs of products that the kernel leaves out, such as masked ones
};

/// What the vjp may read. Nothing else is kept alive until backward.
struct Saved {
  uint32_t inputs = 0;  ///< bit i: input i (a list input counts as one run of bits; see all_inputs)
  uint32_t outputs = 0;  ///< bit i: output i
  uint32_t crossed = 0;  ///< bit i: input i is kept only if another kept input needs a gradient
  static constexpr uint32_t kAll = 0xffffffffu;
  static const Saved None, Inputs, Crossed, Output, InputsAndOutputs;
  static constexpr Saved input(int i) { return {1u << i, 0, 0}; }
  /// An input that only the gradients of the others read.
  static constexpr Saved crossed_input(int i) { return {1u << i, 0, 1u << i}; }
  static constexpr Saved output(int i) { return {0, 1u << i, 0}; }
  friend constexpr Saved operator|(Saved a, Saved b) {
    return {a.inputs | b.inputs, a.outputs | b.outputs, a.crossed | b.crossed};
  }
};
inline constexpr Saved Saved::None{}, Saved::Inputs{kAll, 0, 0}, Saved::Crossed{kAll, 0, kAll},
    Saved::Output{0, 1, 0}, Saved::InputsAndOutputs{kAll, kAll, 0};

/// The ONNX operator with the same meaning, if there is one.
struct Onnx {
  std::string_view name;
  int since = 0;
};

/// A non-tensor argument of a call: borrowed, no heap.
class Attr {
 public:
  enum class Kind : uint8_t { None, Bool, Int, Float, Scalar, Ints, Text, DType, Format };
  constexpr Attr() : int_(0) {}
  constexpr Attr(std::nullopt_t) : int_(0) {}
  constexpr Attr(bool v) : kind_(Kind::Bool), int_(v) {}
  constexpr Attr(int64_t v) : kind_(Kind::Int), int_(v) {}
  constexpr Attr(double v) : kind_(Kind::Float), float_(v) {}
  constexpr Attr(const pellucid::Scalar& v) : kind_(Kind::Scalar), scalar_(v) {}
  constexpr Attr(IntArrayRef v)
      : kind_(Kind::Ints), size_(static_cast<uint32_t>(v.size())), ints_(v.data()) {}
  constexpr Attr(std::string_view v)
      : kind_(Kind::Text), size_(static_cast<uint32_t>(v.size())), text_(v.data()) {}
  constexpr Attr(pellucid::DType v) : kind_(Kind::DType), int_(static_cast<int64_t>(v)) {}
  constexpr Attr(MemoryFormat v) : kind_(Kind::Format), int_(static_cast<int64_t>(v)) {}
  template <class T> constexpr Attr(const std::optional<T>& v) : int_(0) {
    if (v) *this = Attr(*v);
  }
  constexpr Attr(OptionalIntArrayRef v) : int_(0) {
    if (v) *this = Attr(*v);
  }

  Kind kind() const { return kind_; }
  bool has_value() const { return kind_ != Kind::None; }
  bool flag() const { return int_ != 0; }
  int64_t integer() const { return int_; }
  double number() const { return kind_ == Kind::Float ? float_ : scalar_.toDouble(); }
  pellucid::Scalar scalar() const {
    return kind_ == Kind::Float ? pellucid::Scalar(float_) : scalar_;
  }
  IntArrayRef ints() const { return {ints_, size_}; }
  std::string_view text() const { return {text_, size_}; }
  pellucid::DType dtype() const { return static_cast<pellucid::DType>(int_); }
  MemoryFormat format() const { return static_cast<MemoryFormat>(int_); }

 private:
  Kind kind_ = Kind::None;
  uint32_t size_ = 0;
  union {
    int64_t int_;
    double float_;
    pellucid::Scalar scalar_;
    const int64_t* ints_;
    const char* text_;
  };
};
using Attrs = std::span<const Attr>;
using Inputs = std::span<const Tensor* const>;

/// Reads a call's non-tensor arguments by their position among the non-tensor arguments of the
/// schema.
class AttrReader {
 public:
  explicit AttrReader(Attrs attrs) : attrs_(attrs) {}
  Attrs attrs() const { return attrs_; }
  const Attr& attr(size_t i) const { return attrs_[i]; }
  bool has_attr(size_t i) const { return i < attrs_.size() && attrs_[i].has_value(); }
  bool flag(size_t i) const { return attrs_[i].flag(); }
  int64_t integer(size_t i) const { return attrs_[i].integer(); }
  double number(size_t i) const { return attrs_[i].number(); }
  Scalar scalar(size_t i) const { return attrs_[i].scalar(); }
  IntArrayRef ints(size_t i) const { return attrs_[i].ints(); }
  std::string_view text(size_t i) const { return attrs_[i].text(); }
  DType dtype(size_t i) const { return attrs_[i].dtype(); }
  std::optional<DType> dtype_if(size_t i) const {
    return has_attr(i) ? std::optional(dtype(i)) : std::nullopt;
  }

 protected:
  Attrs attrs_;
};

/// One call of an op on its way through the dispatcher: borrowed inputs and attributes, outputs
/// made by infer.
class PELLUCID_API Call : public AttrReader {
 public:
  static constexpr size_t kMaxOutputs = 4;
  Call(const OpDef& op, Inputs inputs, Attrs attrs) : AttrReader(attrs), op_(op), inputs_(inputs) {}
  Call(const Call&) = delete;

  const OpDef& op() const { return op_; }
  std::string_view name() const;
  size_t input_count() const { return inputs_.size(); }
  Inputs inputs() const { return inputs_; }
  const Tensor& in(size_t i) const { return *inputs_[i]; }
  bool has_in(size_t i) const { return i < inputs_.size() && inputs_[i]->defined(); }

  // For infer
  /// Adds output k: fresh memory, row-major unless strides are given.
  void make_output(IntArrayRef sizes, DType dtype);
  void make_output(IntArrayRef sizes, IntArrayRef strides, DType dtype, bool hidden_layout = false);
  /// Adds an output that looks at the storage of input 0.
  void make_view(IntArrayRef sizes, IntArrayRef strides, int64_t offset);
  /// Adds an output whose size is known after running: the kernel calls set_output.
  void make_unknown_output(DType dtype);
  /// Adds the place of a hidden output that nobody needs.
  void skip_output() { ++output_count_; }

  // For cost and kernel
  size_t output_count() const { return output_count_; }
  const Tensor& out(size_t k = 0) const { return outputs_[k]; }
  /// Whether output k will be read: hidden outputs (named with a leading underscore) only if a
  /// gradient may be asked for.
  bool wants(size_t k) const;
  void set_output(size_t k, Tensor t) { outputs_[k] = std::move(t); }
  /// Whether output 0 is input 0 (the in-place form).
  bool in_place() const { return in_place_; }
  /// The random numbers reserved by the dispatcher, for OpKind::Random: how many each call takes is
  /// fixed by shape.
  uint64_t seed() const { return seed_; }
  uint64_t random_offset() const { return random_offset_; }
  /// Where the kernel of an op that `describes` itself is to say what it would run, in place of
  /// running it; null for a call that runs.
  kernels::TileStep* described() const { return described_; }

 private:
  friend struct Dispatcher;
  const OpDef& op_;
  Inputs inputs_;
  kernels::TileStep* described_ = nullptr;
  std::array<Tensor, kMaxOutputs> outputs_;
  uint8_t output_count_ = 0;
  uint8_t view_mask_ = 0;
  uint8_t unknown_mask_ = 0;
  bool in_place_ = false;
  bool tracked_ = false;
  uint64_t seed_ = 0;
  uint64_t random_offset_ = 0;
};

/// What a vjp reads: the gradients of the outputs and what was saved of the call.
struct PELLUCID_API Vjp : AttrReader {
  struct Source;
  Vjp(const Source& source, Attrs attrs, std::span<const Tensor> grads);
  const Tensor& grad;  ///< the gradient of output 0 (defined unless the op has several outputs)
  std::span<const Tensor> grads;  ///< of every output; undefined where none arrived
  size_t input_count() const;
  bool needs(size_t i) const;  ///< whether input i wants a gradient
  const Tensor& in(size_t i) const;
  bool has_in(size_t i) const;
  const Tensor& out(size_t k = 0) const;
  IntArrayRef in_sizes(size_t i) const;
  DType in_dtype(size_t i) const;
  /// The gradient of output k, zeros where none arrived.
  Tensor grad_or_zeros(size_t k) const;
  uint64_t seed() const;
  uint64_t random_offset() const;

 private:
  const Source& source_;
};

/// The vjp of an op through which no gradient flows (comparisons, indices, rounding to integers).
PELLUCID_API Tensors no_gradient(const Vjp&);

/// Parsed from the schema once, when the op definition is registered.
struct OpInfo;

/// One operator: the definition from which everything else is derived.
struct OpDef {
  std::string_view schema;  ///< "softmax(Tensor self, int dim) -> Tensor"
  std::string_view doc;     ///< one sentence with the formula
  OpKind kind = OpKind::Opaque;
  void (*infer)(Call&) = nullptr;  ///< makes the outputs; errors that need no data are thrown here
  Cost (*cost)(const Call&) = nullptr;
  int64_t (*scratch)(const Call&) =
      nullptr;  ///< the most bytes that the kernel takes for itself while it runs
  void (*kernel)(Call&) = nullptr;            ///< or compose, never both; views have neither
  Tensors (*compose)(const Call&) = nullptr;  ///< written with other ops
  void (*check)(const Call&) =
      nullptr;  ///< throws for values that the op refuses; the kernel checks in the same way, and a
                ///< lazy call does so before it is kept
  bool at_once = false;  ///< only the kernel can tell which values it refuses (factorisations): a
                         ///< lazy call runs at once
  Saved saved = Saved::None;
  Tensors (*vjp)(const Vjp&) =
      nullptr;  ///< written with ops, one result per input; no_gradient if there is none
  Onnx onnx = {};
  void (*samples)(Samples&) = nullptr;
  bool any_layout = false;   ///< the kernel takes channels-last inputs as they are
  uint32_t writes_over = 0;  ///< bit i: the kernel may write output 0 where input i is (pointwise
                             ///< ops always may)
  bool describes = false;  ///< the kernel can tell the loop it would run (Call::described), so that
                           ///< it may run fused with others
  bool activation = false;  ///< networks use it between layers; textbooks count 1 FLOP an element
  uint32_t run_time_attrs = 0;    ///< bit i: attribute i is an integer that chooses no sizes and no
                                  ///< code (a seed, a position); see attr_is_structural
  uint32_t structural_attrs = 0;  ///< bit i: attribute i is a number that chooses code
  uint32_t structural_numbers = 0;  ///< bit i: input i, where it is a number, chooses code
  uint64_t (*random_count)(const Call&) =
      nullptr;                ///< OpKind::Random: how many Philox blocks of four numbers
  OpDef* backward = nullptr;  ///< an op that a factory made for the vjp; registered with this one
  mutable const OpInfo* info = nullptr;  ///< set by registration
};

/// The dispatcher: infer, checks, tape, kernel, commit.
PELLUCID_API Tensors call(const OpDef& op, Inputs inputs, Attrs attrs);
/// The same for ops with one visible output.
PELLUCID_API Tensor call1(const OpDef& op, Inputs inputs, Attrs attrs);
/// The in-place form: writes the result into *inputs[0].
PELLUCID_API void call_in_place(const OpDef& op, Inputs inputs, Attrs attrs);

/// Registers an op definition of the program's own; it must live as long as the program.
PELLUCID_API void register_op(const OpDef& op);
/// Every op definition, in the order of names.
PELLUCID_API std::vector<const OpDef*> all_ops();
/// The op definitions that are called `name`, by their first name or another one: its overloads, in
/// the order of registration.
PELLUCID_API std::vector<const OpDef*> find_ops(std::string_view name);
/// What a call by name may mean: the op definitions of the name, or those whose in-place form it is
/// (`add_`).
struct NamedOps {
  std::vector<const OpDef*> ops;
  bool in_place = false;
};
PELLUCID_API NamedOps find_callable(std::string_view name);
/// Whether attribute i (counted among the non-tensor arguments) says what is computed, so that
/// calls which differ in it are different programs. Integers, flags, lists, texts and dtypes do;
/// floats and Scalars are parameters of a program. An op definition marks the exceptions.
PELLUCID_API bool attr_is_structural(const OpDef& op, size_t i);
/// The same for input i where it is a number: its value is a parameter, unless it is marked.
PELLUCID_API bool number_is_structural(const OpDef& op, size_t i);
/// Calls an op by name with arguments known at run time; resolves overloads and defaults as a
/// Python call does.
PELLUCID_API std::vector<Value> invoke(std::string_view name, std::span<const Value> args,
                                       std::span<const NamedValue> kwargs = {});
/// The same for one op definition; throws TypeError where the arguments do not fit its schema.
PELLUCID_API std::vector<Value> invoke(const OpDef& op, std::span<const Value> args,
                                       std::span<const NamedValue> kwargs = {},
                                       bool in_place = false);

/// One valid or failing call of an op.
struct Sample {
  const OpDef* op = nullptr;
  std::vector<Value> args;
  std::vector<NamedValue> kwargs = {};
  std::string error = {};  ///< for a failing call: text that the message contains
  bool gradients = true;   ///< gradcheck applies (the function is smooth at these inputs)
  bool large = false;      ///< the sample that benchmarks time
  double tolerance = 0;  ///< widens the parity tolerance where the op's maths differs legitimately
};

/// Collects an op's samples; the tests of the op are derived from them. Cold: what calls these is
/// compiled for size, which halves the compile time of many ops.
class PELLUCID_API Samples {
 public:
  explicit Samples(const OpDef& op) : op_(op) {}
  /// A valid call. Floating inputs take part in gradcheck.
  [[gnu::cold]] Sample& add(std::vector<Value> args, std::vector<NamedValue> kwargs = {});
  /// A valid call at which the function has a kink or its result is random: no gradcheck.
  [[gnu::cold]] Sample& add_no_grad(std::vector<Value> args, std::vector<NamedValue> kwargs = {});
  /// The float32 call that benchmarks time. Built only when asked for.
  [[gnu::cold]] void large(std::function<std::vector<Value>()> make,
                           std::vector<NamedValue> kwargs = {});
  /// A failing call: it throws a pellucid::Error whose message contains `message`.
  [[gnu::cold]] void error(std::vector<Value> args, std::string message,
                           std::vector<NamedValue> kwargs = {});
  std::vector<Sample> valid, failing;
  std::function<Sample()> make_large;

 private:
  const OpDef& op_;
};
/// The samples of one op, with inputs from a fixed seed.
PELLUCID_API Samples samples_of(const OpDef& op);
/// `Samples` inputs are float64 drawn from a fixed seed: sample_randn({2, 3}), with a minimum
/// distance from 0 if asked.
[[gnu::cold]] PELLUCID_API Tensor sample_randn(IntArrayRef sizes, double away_from_zero = 0);
/// Uniform in [low, high).
[[gnu::cold]] PELLUCID_API Tensor sample_uniform(IntArrayRef sizes, double low, double high);
/// Integers in [low, high), int64.
[[gnu::cold]] PELLUCID_API Tensor sample_ints(IntArrayRef sizes, int64_t low, int64_t high);

// What the parsed schema says, for tools and tests.
/// The type of one schema argument.
enum class ArgType : uint8_t {
  Tensor,
  TensorList,
  Bool,
  Int,
  Float,
  Scalar,
  Ints,
  Text,
  DType,
  Format,
  Device
};
/// One argument of a schema.
struct Arg {
  std::string name;
  ArgType type = ArgType::Tensor;
  bool optional = false;           ///< `?`: None is allowed
  bool scalar_too = false;         ///< `Tensor|Scalar`: a number is wrapped
  bool optional_elements = false;  ///< `Tensor?[]`
  bool keyword_only = false;
  bool mutated = false;  ///< `(a!)`
  int fixed_length = 0;  ///< `int[2]`: a single int stands for all
  bool has_default = false;
  Value default_value;
};
/// A parsed schema.
struct OpInfo {
  std::string name;                  ///< "add"
  std::vector<std::string> aliases;  ///< "acos|arccos(…)": the other names of the op
  std::string overload;              ///< "" or "dim"
  std::string node_name;             ///< "AddBackward0"
  std::vector<Arg> args;
  std::vector<std::string>
      output_names;  ///< "" where unnamed; a leading underscore marks a hidden output
  size_t visible_outputs = 1;
  bool output_list = false;    ///< "-> Tensor[]"
  bool has_in_place = false;   ///< "name[_](…)"
  bool in_place_only = false;  ///< "name[_!](…)": there is no plain form
  bool is_view = false;        ///< "Tensor(a)"
  bool mutates = false;        ///< some argument is `(a!)`
  uint32_t id = 0;
  int list_position = -1;  ///< which tensor argument is the list, or -1
  int tensor_args = 0;
};
/// Parses a schema; throws ValueError with the column of a mistake.
PELLUCID_API OpInfo parse_schema(std::string_view schema);

}  // namespace pellucid
