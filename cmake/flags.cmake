# How every file of the project is compiled and linked; as the target pellucid_flags.
# No -march: newer instructions come through target attributes in the kernels alone, so the binary
# stays portable. No -ffast-math: it changes denormals for the whole process.
option(PELLUCID_WERROR "Treat warnings as errors" OFF)
option(PELLUCID_ONE_ISA "Compile the kernels for the baseline ISA alone (sanitizer builds)" OFF)
set(PELLUCID_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps functions and lines, which profiles and backtraces need, at a fraction of -g's size.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
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
  -fdiagnostics-color=auto)
target_link_options(pellucid_flags INTERFACE -Wl,--as-needed)
if(NOT PELLUCID_SANITIZE)
  target_link_options(pellucid_flags INTERFACE -Wl,--no-undefined)
endif()
if(PELLUCID_ONE_ISA)
  target_compile_definitions(pellucid_flags INTERFACE PELLUCID_ONE_ISA)
endif()
if(PELLUCID_SANITIZE)
  # GCC's flow warnings misjudge instrumented code; the plain builds keep them.
  target_compile_options(pellucid_flags INTERFACE
    -fsanitize=${PELLUCID_SANITIZE} -fno-sanitize-recover=all
    -Wno-maybe-uninitialized -Wno-array-bounds -Wno-tsan)
  target_link_options(pellucid_flags INTERFACE -fsanitize=${PELLUCID_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
# The system's linker: lld 14 writes an .eh_frame_hdr with which exceptions that cross cold functions abort.
