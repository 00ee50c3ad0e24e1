// The tree of JSON that says how the tensors of an archive belong together. It stands in the metadata of the file under
// kTreeKey; a file without one is a list of tensors by name.
//
//   null, true, 1, 1.5, "text", [...]        themselves
//   {"dict": [[key, node], ...]}             keys are texts or whole numbers
//   {"tuple": [...]}                         and "size": a tuple of numbers
//   {"tensor": name}                         of that name in the file; "requires_grad": true may follow, and "complex":
//                                            true where the last dim holds real and imaginary parts
//   {"float": "nan" | "inf" | "-inf"}, {"int": digits}, {"complex": [re, im]}, {"dtype": name}, {"device": name},
//   {"bytes": hexadecimal digits}
#pragma once

#include <facula/serialize.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace facula::io {

inline constexpr const char* kTreeKey = "facula.tree";

struct TreeTensor {
  std::string name;
  bool requires_grad = false;
  bool is_complex = false;
};

// What a tree holds at its ends, with the way there: keys and numbers of elements, with points between them.
using TreeLeaf = std::variant<TreeTensor, serialize::Value>;
using TreeLeaves = std::vector<std::pair<std::string, TreeLeaf>>;

// Reads a tree from `text`; `source` names the file in errors. What no C++ value stands for is left out.
TreeLeaves read_tree(std::string_view text, const std::string& source);

void write_tree_value(std::string& out, const serialize::Value& value);
void write_tree_tensor(std::string& out, const TreeTensor& tensor);

}  // namespace facula::io
