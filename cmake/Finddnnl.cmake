# Finds oneDNN and makes the target dnnl::DNNL. Debian's own dnnl-config.cmake asks for OpenCL's
# development files, which nothing here uses; hence this module.
find_path(dnnl_INCLUDE_DIR dnnl.hpp)
find_library(dnnl_LIBRARY dnnl)
mark_as_advanced(dnnl_INCLUDE_DIR dnnl_LIBRARY)
if(dnnl_INCLUDE_DIR AND EXISTS ${dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h)
  file(READ ${dnnl_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h version_header)
  foreach(part MAJOR MINOR PATCH)
    string(REGEX MATCH "DNNL_VERSION_${part} +([0-9]+)" matched "${version_header}")
    set(version_${part} ${CMAKE_MATCH_1})
  endforeach()
  set(dnnl_VERSION ${version_MAJOR}.${version_MINOR}.${version_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(dnnl
  REQUIRED_VARS dnnl_LIBRARY dnnl_INCLUDE_DIR VERSION_VAR dnnl_VERSION)
if(dnnl_FOUND AND NOT TARGET dnnl::DNNL)
  add_library(dnnl::DNNL UNKNOWN IMPORTED)
  set_target_properties(dnnl::DNNL PROPERTIES
    IMPORTED_LOCATION ${dnnl_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${dnnl_INCLUDE_DIR})
endif()
