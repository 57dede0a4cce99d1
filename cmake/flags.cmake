# How every file of the project is compiled and linked; as the target pellucid_flags.
# No -march: newer instructions come through target attributes in the kernels alone, so the binary
# stays portable. No -ffast-math: it changes denormals for the whole process.
option(PELLUCID_WERROR "Treat warnings as errors" OFF)
option(PELLUCID_ONE_ISA "Compile the kernels for the baseline ISA alone (sanitizer builds)" OFF)
option(PELLUCID_UNITY "Compile a few files of a folder together" ON)
option(PELLUCID_PCH "Precompile the headers of others that most files include" ON)
set(PELLUCID_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps functions and lines, which profiles and backtraces need, at a fraction of -g's size.
set(PELLUCID_OPTIMISED -O3)
set(CMAKE_CXX_FLAGS_RELEASE "${PELLUCID_OPTIMISED} -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(pellucid_flags INTERFACE)
# Records and options are written with designated initialisers that leave out what does not apply.
# -Wrestrict and -Wstringop-overflow are wrong about std::string and fmt's parser in GCC 12 at -O3.
target_compile_options(pellucid_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wno-restrict -Wno-stringop-overflow $<$<BOOL:${PELLUCID_WERROR}>:-Werror>
  -fno-math-errno -fno-trapping-math -ffp-contract=off
  -fno-omit-frame-pointer -fno-semantic-interposition
  -ftls-model=initial-exec  # one instruction to reach a thread-local; all of ours together take few bytes
  -fdiagnostics-color=auto
  # GCC collects garbage from 128 MB on, however much memory there is: a twentieth of the compile time and more.
  "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=600000>")
target_link_options(pellucid_flags INTERFACE -Wl,--as-needed)
if(NOT PELLUCID_SANITIZE)
  target_link_options(pellucid_flags INTERFACE -Wl,--no-undefined)
endif()
if(PELLUCID_ONE_ISA)
  target_compile_definitions(pellucid_flags INTERFACE PELLUCID_ONE_ISA)
endif()
if(PELLUCID_SANITIZE MATCHES undefined)
  set(sanitize_undefined ON)
else()
  set(sanitize_undefined OFF)
endif()
if(PELLUCID_SANITIZE)
  # GCC's flow warnings misjudge instrumented code; the plain builds keep them.
  # AddressSanitizer finds what null, object-size and vptr would: they took a quarter of the compile time.
  target_compile_options(pellucid_flags INTERFACE
    -fsanitize=${PELLUCID_SANITIZE} -fno-sanitize-recover=all
    $<$<BOOL:${sanitize_undefined}>:-fno-sanitize=null,object-size,vptr>
    -Wno-maybe-uninitialized -Wno-array-bounds -Wno-tsan)
  target_link_options(pellucid_flags INTERFACE -fsanitize=${PELLUCID_SANITIZE})
endif()

# For what is compiled much oftener than it is run: tests and commands. Files with loops of their own are optimised.
set(PELLUCID_LIGHT -O0 $<$<BOOL:${sanitize_undefined}>:-fno-sanitize=alignment>)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the setting ccache leaves files with precompiled headers alone.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
endif()

# Headers of others, and those of the public API that nearly every file includes: parsing them is up to half of a file's
# compile time. The debug preset has none, so a file that forgets to include what it uses is found there.
function(pellucid_precompile target)
  if(PELLUCID_PCH)
    # With them GCC 12 warns of std::string's own copies; the debug preset keeps the warning.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Winvalid-pch -Wno-array-bounds)
    if("${ARGV1}" STREQUAL REUSE_FROM)
      target_precompile_headers(${target} REUSE_FROM ${ARGV2})
    else()
      target_precompile_headers(${target} PRIVATE ${ARGN})
    endif()
  endif()
endfunction()

# A few files of a folder are compiled as one: what they instantiate of others' templates, two thirds of the time of commands
# and tests, is then compiled once. Files that match EXCLUDE, and those with options of their own, stay apart: where the
# time goes to their own loops, or where names in their unnamed namespaces meet. SIZE files are one: more make a first build
# faster and the next one, after an edit, slower. The debug preset compiles each file alone.
function(pellucid_unity target exclude size)
  if(NOT PELLUCID_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "${exclude}")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(IS_ABSOLUTE folder absolute)
    if(absolute)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})  # the same name in every clone, for ccache
    endif()
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR count_${folder} "0${count_${folder}} + 1" OUTPUT_FORMAT DECIMAL)
    math(EXPR group "${count_${folder}} / ${size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
# The system's linker: lld 14 writes an .eh_frame_hdr with which exceptions that cross cold functions abort.
