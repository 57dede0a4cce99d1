// Typed errors and the two checks that raise them.
// PELLUCID_CHECK is for a user's mistake, PELLUCID_ASSERT for ours. A message names the op, what
// was required, what was found, all shapes or dtypes, and what to try.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "pellucid/api.h"

namespace pellucid {

/// The base of every exception that the library throws.
class PELLUCID_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// The message without a backtrace, libtorch's name for what().
  const char* what_without_backtrace() const noexcept { return what(); }
  const char* msg() const noexcept { return what(); }
};

/// Sizes, numbers of dimensions or layouts that do not fit together.
class PELLUCID_API ShapeError : public Error {
 public:
  using Error::Error;
};
/// A dtype or an argument type that the op does not take.
class PELLUCID_API TypeError : public Error {
 public:
  using Error::Error;
};
/// An index or a dimension out of range.
class PELLUCID_API IndexError : public Error {
 public:
  using Error::Error;
};
/// An argument whose value is not allowed.
class PELLUCID_API ValueError : public Error {
 public:
  using Error::Error;
};
/// A matrix that has no such factor or inverse.
class PELLUCID_API LinAlgError : public Error {
 public:
  using Error::Error;
};
/// Memory that the machine or the set limit does not have.
class PELLUCID_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
};
/// Something that is not there (yet) for these arguments.
class PELLUCID_API NotImplementedError : public Error {
 public:
  using Error::Error;
};
/// A file that cannot be read or written.
class PELLUCID_API IoError : public Error {
 public:
  using Error::Error;
};
/// A misuse of the autograd graph: freed buffers, changed saved tensors, gradients of non-leaves.
class PELLUCID_API AutogradError : public Error {
 public:
  using Error::Error;
};

namespace detail {
PELLUCID_API std::string format_message(fmt::string_view format, fmt::format_args args);
[[noreturn]] PELLUCID_API void assertion_failed(const char* expression, const char* file, int line);

template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void raise(fmt::format_string<Args...> format,
                                                  Args&&... args) {
  throw E(format_message(format, fmt::make_format_args(args...)));
}

/// The base of formatters of what is printed as a text. Its code is out of line: the messages of
/// nearly every file would compile fmt's own anew.
class PELLUCID_API TextFormatter {
 public:
  template <class Context> constexpr auto parse(Context& context) {
    auto end = context.begin();
    while (end != context.end() && *end != '}') ++end;
    spec_ = fmt::string_view(context.begin(), static_cast<size_t>(end - context.begin()));
    return end;
  }

 protected:
  fmt::format_context::iterator write(std::string_view text, fmt::format_context& context) const;

 private:
  fmt::string_view spec_;  // what stands after the colon, as for a string
};
}  // namespace detail
}  // namespace pellucid

/// Throws `type` with the formatted message unless `condition` holds.
#define PELLUCID_CHECK(condition, type, ...)        \
  do {                                              \
    if (!(condition)) [[unlikely]]                  \
      ::pellucid::detail::raise<type>(__VA_ARGS__); \
  } while (false)

/// States an invariant of pellucid itself; a failure is a bug to report.
#define PELLUCID_ASSERT(condition)                                          \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::pellucid::detail::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (false)
