# What a wheel holds next to the package's Python files. The package folder is the prefix: lib/libfacula.so with the
# libraries that it needs, include/, lib/cmake/Facula. A machine that runs it brings its own C and C++ runtime.

install(TARGETS facula_python LIBRARY DESTINATION .)

# An RPATH that is inherited, not a RUNPATH: it holds for what libfacula's own dependencies load, too, and none of them has
# to be rewritten.
set_target_properties(facula PROPERTIES INSTALL_RPATH "$ORIGIN")
target_link_options(facula PRIVATE -Wl,--disable-new-dtags)

# Third-party libraries, under the names by which they are loaded, and the terms they are given under.
install(CODE "set(library \"$<TARGET_FILE:facula>\")")
install(CODE [[
  file(GET_RUNTIME_DEPENDENCIES
    LIBRARIES "${library}"
    RESOLVED_DEPENDENCIES_VAR found
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|stdc\\+\\+)\\.so")
  file(MAKE_DIRECTORY "${CMAKE_INSTALL_PREFIX}/licenses")
  find_program(DPKG_QUERY dpkg-query)
  foreach(file IN LISTS found)
    get_filename_component(name "${file}" NAME)
    file(REAL_PATH "${file}" real)
    message(STATUS "Bundling: ${name}")
    file(COPY_FILE "${real}" "${CMAKE_INSTALL_PREFIX}/lib/${name}")
    if(NOT DPKG_QUERY)
      message(WARNING "The licence of ${name} is not in the wheel: no dpkg-query here to find it with")
      continue()
    endif()
    # The package database may know a file by its path without links only.
    execute_process(COMMAND "${DPKG_QUERY}" -S "${real}" OUTPUT_VARIABLE owner ERROR_QUIET)
    if(NOT owner)
      string(REGEX REPLACE "^/usr/lib" "/lib" other "${real}")
      execute_process(COMMAND "${DPKG_QUERY}" -S "${other}" OUTPUT_VARIABLE owner ERROR_QUIET)
    endif()
    string(REGEX MATCH "^[^:]+" package "${owner}")
    set(terms "/usr/share/doc/${package}/copyright")
    if(package AND EXISTS "${terms}")
      file(REAL_PATH "${terms}" terms)
      file(COPY_FILE "${terms}" "${CMAKE_INSTALL_PREFIX}/licenses/${package}.txt")
    else()
      message(WARNING "The licence of ${name} is not in the wheel: no package here owns ${real}")
    endif()
  endforeach()
]])
