# The executables that check and show the library: tests, examples and benchmarks.

# What a part needs: required where its option is on, else looked for. A macro, so that the caller sees what was found.
macro(find_for option package)
  if(${option})
    find_package(${package} REQUIRED)
  else()
    find_package(${package} QUIET)
  endif()
endmacro()

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS tests/*.cpp)
list(FILTER test_sources EXCLUDE REGEX "/tests/package/")
set(tested_commands $<TARGET_NAME_IF_EXISTS:pellucid_cli>)
if(PELLUCID_SANITIZE STREQUAL "thread")
  # Threads meet in the library; what drives it from one thread is left to the other sanitizers: of the profile, reading it.
  list(FILTER test_sources EXCLUDE REGEX "/tests/(cli|libtorch|models|parity|pictures|train)/")
  list(FILTER test_sources EXCLUDE REGEX "/tests/analyze/layers[.]cpp$")  # asks the commands for their models
  list(FILTER test_sources EXCLUDE REGEX "/tests/profile/(ceilings|diff|exports|report_[a-z]+|store)[.]cpp$")
  set(tested_commands "")
endif()
option(PELLUCID_TESTS "Require doctest and build the tests (they are built anyway when it is there)" OFF)
find_for(PELLUCID_TESTS doctest)
if(doctest_FOUND AND test_sources)
  enable_testing()
  set(looping_sources ${test_sources})  # compare whole arrays with loops of their own
  list(FILTER looping_sources INCLUDE REGEX "/tests/(derived|kernels)/")
  list(REMOVE_ITEM test_sources ${looping_sources})
  add_library(pellucid_looping_tests OBJECT ${looping_sources})
  add_executable(pellucid_tests ${test_sources} $<TARGET_OBJECTS:pellucid_looping_tests>)
  foreach(target pellucid_looping_tests pellucid_tests)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} tests ${generated_dir}/tests)
    target_compile_definitions(${target} PRIVATE
      DOCTEST_CONFIG_DOUBLE_STRINGIFY)  # or doctest takes our toString(DType) for its own
    target_link_libraries(${target} PRIVATE
      ${tested_commands} doctest::doctest OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json)
    add_dependencies(${target} pellucid_generated)
    pellucid_precompile(${target}
      <doctest/doctest.h> <fmt/format.h> <algorithm> <cmath> <functional> <map> <memory> <random> <span> <string> <vector>
      <pellucid/pellucid.h>)
  endforeach()
  target_include_directories(pellucid_looping_tests PRIVATE include src ${generated_dir}/include)
  target_link_libraries(pellucid_looping_tests PRIVATE fmt::fmt pellucid_flags)
  target_compile_options(pellucid_looping_tests PRIVATE -O1)
  target_link_libraries(pellucid_tests PRIVATE pellucid_objects pellucid_server PkgConfig::httplib)
  target_compile_options(pellucid_tests PRIVATE ${PELLUCID_LIGHT})  # what is tested is optimised; the checks need not be
  set_source_files_properties(tests/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # doctest with its main
  set_source_files_properties(tests/paths.cpp PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS PELLUCID_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  pellucid_unity(pellucid_tests "/tests/(main|paths)[.]cpp" 6)
  target_link_options(pellucid_tests PRIVATE -rdynamic)  # so that dladdr names functions, as in libpellucid
  add_test(NAME pellucid_tests COMMAND pellucid_tests)
endif()

file(GLOB example_sources CONFIGURE_DEPENDS examples/*.cpp)
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
  target_link_libraries(example_${name} PRIVATE pellucid pellucid_flags)
  target_compile_options(example_${name} PRIVATE -O1)  # the time goes to the library
  add_dependencies(example_${name} pellucid_generated)
  if(first_example)
    pellucid_precompile(example_${name} REUSE_FROM ${first_example})
  else()
    pellucid_precompile(example_${name} <pellucid/pellucid.h>)
    set(first_example example_${name})
  endif()
endforeach()

# Built by name only: ninja bench_core.
file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.cpp)
option(PELLUCID_BENCH "Require Google Benchmark for bench_core (which is there to be built anyway when it is found)" OFF)
find_for(PELLUCID_BENCH benchmark)
if(benchmark_FOUND AND bench_sources)
  add_executable(bench_core EXCLUDE_FROM_ALL ${bench_sources})
  target_link_libraries(bench_core PRIVATE
    pellucid pellucid_flags benchmark::benchmark dnnl::DNNL OpenMP::OpenMP_CXX)
  add_dependencies(bench_core pellucid_generated)
endif()
