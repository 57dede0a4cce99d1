# What tools/gen_ops derives from the op definitions: ops.h, the Tensor methods, the functions and the
# registry. Sets generated_dir and generated_sources; the target pellucid_generated makes the files.
# The tool leaves files whose content did not change alone, so a record's edit rebuilds little.
set(generated_dir ${PROJECT_BINARY_DIR}/generated)
set(gen_ops ${PROJECT_SOURCE_DIR}/tools/gen_ops)
set(generated_files)
file(GLOB op_sources CONFIGURE_DEPENDS src/ops/*.cpp)
file(GLOB gen_ops_found CONFIGURE_DEPENDS ${gen_ops})
if(gen_ops_found)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gen_ops})
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${gen_ops} --list-outputs --out ${generated_dir}
    OUTPUT_VARIABLE generated_files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "[ \n]+" ";" generated_files "${generated_files}")
  add_custom_command(
    OUTPUT ${generated_files}
    COMMAND ${Python3_EXECUTABLE} ${gen_ops} --out ${generated_dir} ${op_sources}
    DEPENDS ${gen_ops} ${op_sources}
    COMMENT "Deriving ops.h, Tensor methods and the registry from the op definitions"
    VERBATIM)
endif()
set(generated_sources ${generated_files})
list(FILTER generated_sources INCLUDE REGEX "\\.cpp$")
add_custom_target(pellucid_generated DEPENDS ${generated_files})
