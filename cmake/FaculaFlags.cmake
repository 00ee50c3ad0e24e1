# Compiler and linker flags, as two interface targets: facula_flags for everything that is built here, and
# facula_math_flags for the library's own sources. Nothing here reaches a user of Facula::facula.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

add_library(facula_flags INTERFACE)
target_compile_options(facula_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These two report correct uses of std::string and of SIMD vectors when g++ inlines them at -O2 and above.
  target_compile_options(facula_flags INTERFACE -Wno-restrict -Wno-maybe-uninitialized -Wno-psabi)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    # Suspects every function that takes a temporary and returns a reference, as those that look up a cached kernel.
    target_compile_options(facula_flags INTERFACE -Wno-dangling-reference)
  endif()
endif()
if(FACULA_WERROR)
  target_compile_options(facula_flags INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Flow analysis whose answer changes with the optimiser: shown, but not a reason to stop.
    target_compile_options(facula_flags INTERFACE
      -Wno-error=array-bounds -Wno-error=stringop-overflow -Wno-error=stringop-overread -Wno-error=free-nonheap-object)
  endif()
endif()

# The same expression gives the same bits with every instruction set: a fused multiply-add is written, never contracted.
add_library(facula_math_flags INTERFACE)
target_compile_options(facula_math_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math)
# Loops that the compiler vectorises use full vectors where the chosen instruction set has them; it would stop at half.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-mprefer-vector-width=512 FACULA_HAS_WIDE_VECTORS)
if(FACULA_HAS_WIDE_VECTORS)
  target_compile_options(facula_math_flags INTERFACE -mprefer-vector-width=512)
endif()
# Calls inside the library go straight to their target: nobody may replace its functions from outside.
target_compile_options(facula_math_flags INTERFACE -fno-semantic-interposition)

set(FACULA_SHARED_LINK_OPTIONS -Wl,--gc-sections -Wl,-Bsymbolic-functions)
if(FACULA_SANITIZE STREQUAL "address")
  set(FACULA_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(facula_flags INTERFACE FACULA_ASAN _GLIBCXX_ASSERTIONS)
elseif(FACULA_SANITIZE STREQUAL "thread")
  set(FACULA_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
  target_compile_definitions(facula_flags INTERFACE FACULA_TSAN)
elseif(NOT FACULA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "FACULA_SANITIZE is '${FACULA_SANITIZE}'; it may be empty, 'address' or 'thread'")
else()
  set(FACULA_SANITIZE_FLAGS "")
  list(APPEND FACULA_SHARED_LINK_OPTIONS -Wl,--no-undefined)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_definitions(facula_flags INTERFACE _GLIBCXX_ASSERTIONS)
  endif()
endif()
target_compile_options(facula_flags INTERFACE ${FACULA_SANITIZE_FLAGS})
target_link_options(facula_flags INTERFACE ${FACULA_SANITIZE_FLAGS})

# Faster rebuilds where the tools are there; results do not depend on them.
if(PROJECT_IS_TOP_LEVEL)
  find_program(FACULA_CCACHE ccache)
  if(FACULA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${FACULA_CCACHE}")
  endif()
  find_program(FACULA_MOLD mold)
  if(FACULA_MOLD)
    include(CheckLinkerFlag)
    check_linker_flag(CXX -fuse-ld=mold FACULA_MOLD_WORKS)
    if(FACULA_MOLD_WORKS)
      target_link_options(facula_flags INTERFACE -fuse-ld=mold)
    endif()
  endif()
endif()
