# Fails when the library names a GPU library among those that the loader must find: they are looked for at run time, and
# programs start where there are none.
file(REAL_PATH "${LIBRARY}" library)
execute_process(
  COMMAND "${READELF}" -d -W "${library}"
  OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*\\[[^]\n]*\\]" entries "${dynamic}")
set(needed "")
foreach(entry IN LISTS entries)
  string(REGEX REPLACE ".*\\[([^]]*)\\]" "\\1" name "${entry}")
  list(APPEND needed "${name}")
endforeach()
# No C++ library does without this one: where it is not found, the listing was not understood.
if(NOT needed MATCHES "libc\\.so")
  message(FATAL_ERROR "readelf says nothing of libc.so:\n${dynamic}")
endif()
message("libfacula.so needs: ${needed}")
foreach(name IN LISTS needed)
  string(TOLOWER "${name}" lower)
  if(lower MATCHES "cuda|nvrtc|nvidia|nvml|nvtx|cudnn|cublas|hip|rocm|rocblas|roctx|hsa|miopen")
    message(FATAL_ERROR "The library is linked with ${name}, a GPU library")
  endif()
endforeach()
