# Installs the build tree into a fresh prefix, stripped.
file(REMOVE_RECURSE "${PREFIX}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}" --strip
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
