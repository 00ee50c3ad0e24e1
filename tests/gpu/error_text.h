// The text of the error that a call throws.
#pragma once

#include <facula/core/error.h>

#include <gtest/gtest.h>

#include <string>

namespace facula::testing {

template <class ErrorType, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const ErrorType& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another type of error was thrown: " << e.what();
    return {};
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

}  // namespace facula::testing
