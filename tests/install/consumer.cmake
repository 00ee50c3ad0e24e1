# Configures, builds and runs the consumer project in this folder against an installed Facula.
file(REMOVE_RECURSE "${WORK_DIR}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -B "${WORK_DIR}" -G "${GENERATOR}"
    "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${PREFIX}" -DCMAKE_BUILD_TYPE=Release
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${WORK_DIR}" COMMAND_ERROR_IS_FATAL ANY)
foreach(program IN ITEMS uses_facula uses_torch_names)
  execute_process(COMMAND "${WORK_DIR}/${program}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
