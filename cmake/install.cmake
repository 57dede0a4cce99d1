# cmake --install: the library, its public headers and what find_package(pellucid) reads.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pellucid)

install(TARGETS pellucid EXPORT pellucid-targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/pellucid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${generated_dir}/include/pellucid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The page of the viewer, where tools/viewer has built it.
install(FILES ${PROJECT_SOURCE_DIR}/build/viewer/page.html ${PROJECT_SOURCE_DIR}/build/viewer/app.js
              ${PROJECT_SOURCE_DIR}/build/viewer/app.css
        DESTINATION ${CMAKE_INSTALL_DATADIR}/pellucid/viewer OPTIONAL)
install(EXPORT pellucid-targets NAMESPACE pellucid:: FILE pellucidTargets.cmake
        DESTINATION ${package_dir})

configure_package_config_file(cmake/pellucidConfig.cmake.in
  ${PROJECT_BINARY_DIR}/pellucidConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break programs.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/pellucidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pellucidConfig.cmake
              ${PROJECT_BINARY_DIR}/pellucidConfigVersion.cmake
        DESTINATION ${package_dir})
