// Binds Python arguments to a schema without exceptions on the way: overloads are tried one after
// another, and a message is written only when none fits.
#include "arguments.h"
#include "core/generated_support.h"
#include "tensor_object.h"

namespace pellucid::python {
namespace {

class Binder {
 public:
  Binder(const Signature& s, Bound& out, Mismatch& why) : s_(s), out_(out), why_(why) {}

  bool place(PyObject* receiver, PyObject* const* args, size_t count, PyObject* names) {
    size_t given = count;
    if (receiver) {
      chosen_[s_.self] = receiver;
      ++given;
    }
    size_t next = 0;
    for (size_t i = 0; i < count; ++i) {
      if (receiver && static_cast<int>(next) == s_.self) ++next;
      if (gathers(next, args, i, count)) {
        gathered_ = args + i;
        gathered_count_ = count - i;
        chosen_[next++] = args[i];
        break;
      }
      if (next >= s_.positional) return too_many(given, receiver != nullptr);
      chosen_[next++] = args[i];
    }
    const Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t k = 0; k < keywords; ++k)
      if (!place_keyword(PyTuple_GET_ITEM(names, k), args[count + static_cast<size_t>(k)]))
        return false;
    return true;
  }

  bool convert() {
    out_.made.reserve(s_.args.size());
    out_.lists.reserve(s_.list_count);
    for (size_t i = 0; i < s_.args.size(); ++i) {
      const ArgSpec& spec = s_.args[i];
      PyObject* o = chosen_[i];
      if (!o || (o == Py_None && spec.arg->has_default && !spec.arg->optional &&
                 spec.arg->type != ArgType::Tensor)) {
        if (!use_default(spec)) return false;
        continue;
      }
      const bool fits = spec.arg->type == ArgType::Tensor       ? tensor(*spec.arg, o, i)
                        : spec.arg->type == ArgType::TensorList ? tensor_list(*spec.arg, o)
                                                                : attribute(*spec.arg, o, i);
      if (!fits) return wrong_type(i, o);
    }
    // pow(2, 3): numbers may stand for tensors, but not for all of them.
    if (number_ >= 0 && !any_tensor_)
      return wrong_type(static_cast<size_t>(number_), chosen_[number_]);
    return true;
  }

 private:
  bool gathers(size_t next, PyObject* const* args, size_t i, size_t count) const {
    if (static_cast<int>(next) != s_.gathered || count - i < 2) return false;
    for (size_t k = i; k < count; ++k) {
      int64_t value;
      if (PyTuple_Check(args[k]) || PyList_Check(args[k]) || !to_int(args[k], value)) return false;
    }
    return true;
  }

  bool place_keyword(PyObject* name, PyObject* value) {
    for (size_t i = 0; i < s_.args.size(); ++i)
      if (s_.args[i].name == name) return put(i, name, value);
    for (size_t i = 0; i < s_.args.size(); ++i) {
      const ArgSpec& spec = s_.args[i];
      if (PyUnicode_Compare(spec.name, name) == 0) return put(i, name, value);
      for (PyObject* alias : spec.aliases)
        if (alias && PyUnicode_Compare(alias, name) == 0) return put(i, name, value);
    }
    if (s_.creates && option(utf8(name), value)) return true;
    if ((s_.creates || s_.op->kind == OpKind::Random || s_.op->random_count) &&
        utf8(name) == "generator") {
      out_.generator = value == Py_None ? nullptr : value;
      return true;
    }
    if (utf8(name) == "out" && value == Py_None) return true;
    return fail([&] { return "got an unexpected keyword argument '" + utf8(name) + "'"; });
  }

  // What creation functions take beside their schema.
  bool option(const std::string& name, PyObject* value) {
    if (name == "requires_grad" && PyBool_Check(value)) {
      out_.requires_grad = value == Py_True;
      return true;
    }
    if (name == "device") {
      if (value == Py_None) return true;
      PyObject* text = PyObject_Str(value);
      if (!text) throw PythonErrorSet();
      const std::string device = utf8(text);
      Py_DECREF(text);
      Device(device).require_available("Device");
      return true;
    }
    return name == "layout" || name == "pin_memory" || name == "names";
  }

  bool put(size_t i, PyObject* name, PyObject* value) {
    if (chosen_[i])
      return fail([&] { return "got multiple values for argument '" + utf8(name) + "'"; });
    chosen_[i] = value;
    return true;
  }

  bool use_default(const ArgSpec& spec) {
    const Arg& a = *spec.arg;
    if (!a.has_default)
      return fail(
          [&] { return "missing 1 required positional arguments: \"" + utf8(spec.name) + "\""; });
    if (a.type == ArgType::Tensor) {
      if (a.default_value.is_number())
        add_made(wrapped_number(a.default_value.scalar()));
      else
        add_made({});
    } else if (a.type != ArgType::TensorList) {
      out_.attrs.emplace_back(spec.default_attr);
    }
    return true;
  }

  void add_made(Tensor t) { out_.inputs.emplace_back(&out_.made.emplace_back(std::move(t))); }

  bool tensor(const Arg& a, PyObject* o, size_t i) {
    if (is_tensor(o)) {
      const Tensor& t = tensor_of(o);
      out_.inputs.emplace_back(&t);
      any_tensor_ = true;
    } else if (o == Py_None) {
      if (!a.optional) return false;
      add_made({});
    } else if (a.scalar_too && is_number(o)) {
      add_made(wrapped_number(to_scalar(o)));
      number_ = static_cast<int>(i);
    } else {
      return false;
    }
    return true;
  }

  bool tensor_list(const Arg& a, PyObject* o) {
    if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    PyObject** items = PySequence_Fast_ITEMS(o);
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!is_tensor(items[i]) && !(items[i] == Py_None && a.optional_elements)) return false;
    static const Tensor none;
    out_.inputs.reserve(out_.inputs.size() + static_cast<size_t>(n) + s_.args.size());
    for (Py_ssize_t i = 0; i < n; ++i)
      out_.inputs.emplace_back(items[i] == Py_None ? &none : &tensor_of(items[i]));
    return true;
  }

  bool ints(const Arg& a, PyObject* o, size_t i) {
    Dims& dims = out_.lists.emplace_back();
    int64_t value = 0;
    if (gathered_ && static_cast<int>(i) == s_.gathered) {
      for (size_t k = 0; k < gathered_count_; ++k) {
        to_int(gathered_[k], value);
        dims.push_back(value);
      }
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      for (Py_ssize_t k = 0; k < n; ++k) {
        if (!to_int(PySequence_Fast_GET_ITEM(o, k), value)) return false;
        dims.push_back(value);
      }
      if (a.fixed_length > 1 && n == 1) dims.resize(static_cast<size_t>(a.fixed_length), dims[0]);
    } else {
      if (!to_int(o, value)) return false;
      dims.resize(static_cast<size_t>(std::max(a.fixed_length, 1)), value);
    }
    out_.attrs.emplace_back(dims.ref());
    return true;
  }

  bool number(const Arg& a, PyObject* o) {
    Scalar value;
    if (is_tensor(o)) {
      const Tensor& t = tensor_of(o);
      if (!t.defined() || t.dim() != 0) return false;
      value = t.item();
    } else if (is_number(o)) {
      value = to_scalar(o);
    } else {
      return false;
    }
    if (a.type == ArgType::Float)
      out_.attrs.emplace_back(value.toDouble());
    else
      out_.attrs.emplace_back(value);
    return true;
  }

  bool attribute(const Arg& a, PyObject* o, size_t i) {
    if (o == Py_None) {
      if (!a.optional) return false;
      out_.attrs.emplace_back();
      return true;
    }
    switch (a.type) {
      case ArgType::Bool:
        if (!PyBool_Check(o)) return false;
        out_.attrs.emplace_back(o == Py_True);
        return true;
      case ArgType::Int: {
        int64_t value;
        if (!to_int(o, value)) return false;
        out_.attrs.emplace_back(value);
        return true;
      }
      case ArgType::Float:
      case ArgType::Scalar:
        return number(a, o);
      case ArgType::Ints:
        return ints(a, o, i);
      case ArgType::Text: {
        if (!PyUnicode_Check(o)) return false;
        Py_ssize_t n = 0;
        const char* text = PyUnicode_AsUTF8AndSize(o, &n);
        if (!text) throw PythonErrorSet();
        out_.attrs.emplace_back(std::string_view(text, static_cast<size_t>(n)));
        return true;
      }
      case ArgType::DType: {
        DType t;
        if (!to_dtype(o, t)) return false;
        out_.attrs.emplace_back(t);
        return true;
      }
      case ArgType::Format:
        if (Py_TYPE(o) != format_type) return false;
        out_.attrs.emplace_back(reinterpret_cast<FormatObject*>(o)->format);
        return true;
      default:
        return false;
    }
  }

  template <class F> bool fail(F&& text) {
    if (why_.wanted) why_.text = s_.info->name + "() " + text();
    return false;
  }
  bool too_many(size_t given, bool method) {
    return fail([&] {
      const size_t most = s_.positional - (method ? 1 : 0);
      return "takes " + std::to_string(most) + " positional argument" + (most == 1 ? "" : "s") +
             " but " + std::to_string(given - (method ? 1 : 0)) +
             (given == 1 ? " was given" : " were given");
    });
  }
  bool wrong_type(size_t i, PyObject* o) {
    if (!why_.wanted) return false;
    const ArgSpec& spec = s_.args[i];
    why_.text = s_.info->name + "(): argument '" + utf8(spec.name) + "'";
    if (!spec.arg->keyword_only)
      why_.text += " (position " + std::to_string(i + (s_.self == 0 ? 0 : 1)) + ")";
    why_.text += std::string(" must be ") + type_text(*spec.arg) + ", not " + Py_TYPE(o)->tp_name;
    return false;
  }

  static constexpr size_t kMostArguments = 16;
  const Signature& s_;
  Bound& out_;
  Mismatch& why_;
  PyObject* chosen_[kMostArguments] = {};
  PyObject* const* gathered_ = nullptr;
  size_t gathered_count_ = 0;
  int number_ = -1;  // the last argument where a number stands for a tensor
  bool any_tensor_ = false;
};

}  // namespace

bool bind(const Signature& s, PyObject* receiver, PyObject* const* args, size_t count,
          PyObject* names, Bound& out, Mismatch& why) {
  Binder binder(s, out, why);
  return binder.place(receiver, args, count, names) && binder.convert();
}

}  // namespace pellucid::python
