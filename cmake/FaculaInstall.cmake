# What `cmake --install` puts where, and the package files that let find_package(Facula) work.
include(CMakePackageConfigHelpers)

set(FACULA_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Facula")

install(TARGETS facula EXPORT FaculaTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.inc" PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(EXPORT FaculaTargets NAMESPACE Facula:: DESTINATION "${FACULA_CMAKE_DIR}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/FaculaConfig.cmake.in" "${PROJECT_BINARY_DIR}/FaculaConfig.cmake"
  INSTALL_DESTINATION "${FACULA_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/FaculaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/FaculaConfig.cmake" "${PROJECT_BINARY_DIR}/FaculaConfigVersion.cmake"
  DESTINATION "${FACULA_CMAKE_DIR}")
