// How nanobind passes tensors, dtypes and numbers: None is an undefined Tensor.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "arguments.h"
#include "tensor_object.h"

namespace nb = nanobind;

namespace nanobind::detail {

template <> struct type_caster<pellucid::Tensor> {
  NB_TYPE_CASTER(pellucid::Tensor, const_name("pellucid.Tensor"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    if (src.is_none()) {
      value = pellucid::Tensor();
      return true;
    }
    if (!pellucid::python::is_tensor(src.ptr())) return false;
    value = pellucid::python::tensor_of(src.ptr());
    return true;
  }
  static handle from_cpp(const pellucid::Tensor& t, rv_policy, cleanup_list*) noexcept {
    return pellucid::python::wrap_known(t);
  }
};

template <> struct type_caster<pellucid::DType> {
  NB_TYPE_CASTER(pellucid::DType, const_name("pellucid.dtype"))
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    return pellucid::python::to_dtype(src.ptr(), value);
  }
  static handle from_cpp(pellucid::DType t, rv_policy, cleanup_list*) noexcept {
    return pellucid::python::dtype_object(t);
  }
};

}  // namespace nanobind::detail
