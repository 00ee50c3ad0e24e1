# Fails when the stripped library is larger than MAX_BYTES.
file(REAL_PATH "${LIBRARY}" library)
file(SIZE "${library}" bytes)
message("libfacula.so: ${bytes} bytes, at most ${MAX_BYTES} allowed")
if(bytes GREATER MAX_BYTES)
  message(FATAL_ERROR "The stripped library is too large")
endif()
