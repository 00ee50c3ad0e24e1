// Tensors out of case files and comparisons with the truth, for the record tests. Memory is read and written here by
// hand, so that a broken op cannot hide itself.
#pragma once

#include "cpp/case_file.h"

#include <facula/facula.h>

#include <cstddef>
#include <string>
#include <vector>

namespace facula::testing {

ScalarType scalar_type_of_code(uint8_t code);

// The tensor of a case, over memory of exactly its storage's size (so that a sanitizer sees a step outside).
Tensor make_tensor(const CaseTensor& source);

// A tensor of these sizes whose memory holds a loud pattern; `gaps` leaves holes between the elements.
Tensor make_filled(ScalarType dtype, IntArrayRef sizes, bool gaps);

// The elements in logical order, whatever the strides.
std::vector<std::byte> element_bytes(const Tensor& tensor);

// All bytes of the storage, gaps included.
std::vector<std::byte> storage_bytes(const Tensor& tensor);

// A copy with the same values in contiguous memory, made without calling an op that computes.
Tensor contiguous_copy(const Tensor& tensor);

// A copy with the same values and the same strides; for tensors without internal overlap.
Tensor strided_copy(const Tensor& tensor);

// Whether two elements share memory because of a stride of zero.
bool overlaps_itself(const Tensor& tensor);

// One element as a double, for the statistics of random ops.
std::vector<double> elements_as_double(const Tensor& tensor);

// Empty when `actual` has the claimed dtype, shape and values; otherwise what is wrong, in words.
std::string difference(const Tensor& actual, const CaseTruth& truth, bool signed_zero, bool compare_values = true);

// Empty when both have the same dtype, shape and elements bit for bit, any NaN being equal to any NaN.
std::string bit_difference(const Tensor& actual, const Tensor& expected);

// The values of a tensor as a truth, with the dtype and the tolerances of another.
CaseTruth as_truth(const Tensor& tensor, const CaseTruth& like);

std::string to_words(IntArrayRef sizes);

}  // namespace facula::testing
