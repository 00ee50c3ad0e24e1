# Text that the library carries: device code, which the GPU's compiler reads at run time. Run as a script (cmake -P) with ROOT,
# FILES (relative to ROOT/src, separated by commas) and OUTPUT it writes a C++ file; included, it gives facula_embed().

if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "," ";" files "${FILES}")
  set(entries "")
  foreach(file IN LISTS files)
    file(READ "${ROOT}/src/${file}" text)
    string(APPEND entries "    {\"${file}\", R\"facula_text(${text})facula_text\"},\n")
  endforeach()
  file(WRITE "${OUTPUT}" "// Written by cmake/FaculaEmbed.cmake.\n#include \"gpu/kernel.h\"\n\nnamespace facula::gpu {\n\n"
    "std::span<const SourceHeader> kernel_headers() {\n  static const SourceHeader kHeaders[] = {\n${entries}  };\n"
    "  return kHeaders;\n}\n\n}  // namespace facula::gpu\n")
  return()
endif()

# Adds a C++ file to `target` that holds src/gpu/kernels, the formulas of src/program and Philox as text.
function(facula_embed target)
  file(GLOB files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src"
    src/gpu/kernels/*.h src/program/expr*.h src/program/random_bits.h src/core/philox.h)
  list(TRANSFORM files PREPEND "${PROJECT_SOURCE_DIR}/src/" OUTPUT_VARIABLE paths)
  list(JOIN files "," joined)
  set(output "${PROJECT_BINARY_DIR}/generated/kernel_headers.cpp")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${PROJECT_SOURCE_DIR}" "-DFILES=${joined}" "-DOUTPUT=${output}"
      -P "${PROJECT_SOURCE_DIR}/cmake/FaculaEmbed.cmake"
    DEPENDS ${paths} "${PROJECT_SOURCE_DIR}/cmake/FaculaEmbed.cmake"
    COMMENT "Embedding device code"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
