// Errors, dtypes, printing of sizes, environment variables.
#ifndef DOCTEST_CONFIG_DOUBLE_STRINGIFY
#define DOCTEST_CONFIG_DOUBLE_STRINGIFY  // our toString(DType) is found by name and gives no
                                         // doctest::String
#endif
#include <doctest/doctest.h>

#include <cstdlib>

#include "base/env.h"
#include "pellucid/array_ref.h"
#include "pellucid/dtype.h"
#include "pellucid/error.h"

using namespace pellucid;

TEST_CASE("error: a check throws its type with the formatted message") {
  const auto failing = [] {
    PELLUCID_CHECK(1 + 1 == 3, ShapeError, "op: {} is not {} (sizes {})", 2, 3,
                   IntArrayRef({4, 5}));
  };
  CHECK_THROWS_WITH_AS(failing(), "op: 2 is not 3 (sizes [4, 5])", ShapeError);
  CHECK_NOTHROW(([] { PELLUCID_CHECK(true, ValueError, "never"); }()));
}

TEST_CASE("error: a failed assertion names the expression and asks for a report") {
  std::string message;
  try {
    PELLUCID_ASSERT(2 < 1);
  } catch (const Error& error) { message = error.what(); }
  CHECK(message.find("internal assertion failed: 2 < 1") != std::string::npos);
  CHECK(message.find("values.cpp") != std::string::npos);
  CHECK(message.find("please report") != std::string::npos);
}

TEST_CASE("array_ref: sizes print as PyTorch prints them") {
  CHECK(to_string(IntArrayRef({2, 3})) == "[2, 3]");
  CHECK(to_string(IntArrayRef()) == "[]");
  CHECK(to_string(IntArrayRef({-1})) == "[-1]");
}

TEST_CASE("dtype: names") {
  CHECK(name_of(kBFloat16) == "bfloat16");
  CHECK(toString(kUInt8) == "Byte");
  CHECK(toString(kInt64) == "Long");
  CHECK(toString(kFloat16) == "Half");
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto t = static_cast<DType>(i);
    CHECK(dtype_from_name(name_of(t)) == t);
    CHECK(dtype_from_name("torch." + std::string(name_of(t))) == t);
  }
  CHECK(dtype_from_name("float") == kFloat32);
  CHECK(dtype_from_name("double") == kFloat64);
  CHECK(dtype_from_name("half") == kFloat16);
  CHECK(dtype_from_name("long") == kInt64);
  CHECK(dtype_from_name("int") == kInt32);
  CHECK(dtype_from_name("torch.short") == kInt16);
  for (const char* bad : {"", "float31", "torch.", "Float", "float32 ", "torch.torch.int8"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(dtype_from_name(bad), TypeError);
  }
}

TEST_CASE("dtype: promotion is symmetric, idempotent and PyTorch's where it surprises") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto a = static_cast<DType>(i);
    CHECK(promote_types(a, a) == a);
    CHECK(promote_types(a, kBool) == a);
    for (int j = 0; j < kDTypeCount; ++j) {
      const auto b = static_cast<DType>(j);
      const DType both = promote_types(a, b);
      CHECK(promote_types(b, a) == both);
      CHECK(promote_types(both, a) == both);
      CHECK(is_floating(both) == (is_floating(a) || is_floating(b)));
    }
  }
  CHECK(promote_types(kUInt8, kInt8) == kInt16);
  CHECK(promote_types(kUInt8, kInt16) == kInt16);
  CHECK(promote_types(kFloat16, kBFloat16) == kFloat32);
  CHECK(promote_types(kInt64, kFloat16) == kFloat16);
  CHECK(promote_types(kInt64, kBFloat16) == kBFloat16);
  CHECK(promote_types(kFloat32, kFloat64) == kFloat64);
}

TEST_CASE("env: integers, sizes and truth values, or an error that names the variable") {
  const char* name = "PELLUCID_TEST_VARIABLE";
  const auto set = [name](const char* value) { setenv(name, value, 1); };
  unsetenv(name);
  CHECK(!env_string(name));
  CHECK(!env_int(name, 0, 9));
  CHECK(env_bool(name, true));
  set("");
  CHECK(!env_string(name));
  CHECK(!env_bytes(name));
  set("7");
  CHECK(env_int(name, 0, 9) == 7);
  CHECK(env_bytes(name) == 7);
  for (const char* bad : {"10", "-1", "7x", "x", "99999999999999999999"}) {
    set(bad);
    CHECK_THROWS_AS(env_int(name, 0, 9), ValueError);
  }
  set("zz");
  CHECK_THROWS_WITH(
      env_int(name, 0, 9),
      "environment variable PELLUCID_TEST_VARIABLE must be an integer from 0 to 9, but is 'zz'.");
  for (const auto& [text, bytes] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"64K", 65536},
                                                              {"1.5G", 3LL << 29},
                                                              {"2MiB", 2 << 20},
                                                              {"1t", 1LL << 40},
                                                              {"0", 0},
                                                              {"12b", 12}}) {
    set(text);
    CHECK(env_bytes(name) == bytes);
  }
  for (const char* bad : {"1X", "G", "-1", "1e30", "nan", "inf", "1 G"}) {
    CAPTURE(bad);
    set(bad);
    CHECK_THROWS_AS(env_bytes(name), ValueError);
  }
  set("Off");
  CHECK(!env_bool(name, true));
  set("YES");
  CHECK(env_bool(name, false));
  set("maybe");
  CHECK_THROWS_AS(env_bool(name, false), ValueError);
  unsetenv(name);
}
