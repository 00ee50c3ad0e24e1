# Third-party libraries of the library itself, behind one target, facula_third_party. docs/dependencies.md says why each
# one is here. Dependencies of the tests and benchmarks are looked up where they are used.

# oneDNN is looked up by file: its own CMake package insists on OpenCL's headers, which nothing here includes.
find_path(FACULA_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(FACULA_DNNL_LIBRARY dnnl REQUIRED)
mark_as_advanced(FACULA_DNNL_INCLUDE_DIR FACULA_DNNL_LIBRARY)
add_library(facula_dnnl UNKNOWN IMPORTED GLOBAL)
set_target_properties(facula_dnnl PROPERTIES
  IMPORTED_LOCATION "${FACULA_DNNL_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${FACULA_DNNL_INCLUDE_DIR}")

find_package(hwy CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

# OpenMP's runtime is linked, but only the one file that starts threads is compiled with it (facula_enable_openmp).
add_library(facula_third_party INTERFACE)
target_link_libraries(facula_third_party INTERFACE
  facula_dnnl hwy::hwy ${OpenMP_CXX_LIBRARIES} Threads::Threads)

# Compiles one source file with OpenMP. Under the thread sanitizer that file stays uninstrumented: the sanitizer does not
# see the synchronisation inside the OpenMP runtime and would report every hand-over of work.
function(facula_enable_openmp source)
  separate_arguments(options UNIX_COMMAND "${OpenMP_CXX_FLAGS}")
  if(FACULA_SANITIZE STREQUAL "thread")
    list(APPEND options -fno-sanitize=thread)
  endif()
  set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${options})
endfunction()
