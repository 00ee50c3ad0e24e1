// Reading and writing the tree of an archive.
#include "io/archive_tree.h"

#include "io/json_reader.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace facula::io {
namespace {

class TreeReader {
 public:
  TreeReader(std::string_view text, const std::string& source) : json_(text, source) {}

  TreeLeaves read() {
    node("");
    json_.end();
    return std::move(leaves_);
  }

 private:
  static std::string below(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + '.' + key;
  }
  // Names grow with the depth of the tree: what a small text may ask for in memory has a limit.
  void add(const std::string& path, TreeLeaf leaf) {
    path_bytes_ += path.size();
    if (leaves_.size() >= kMostLeaves || path_bytes_ > kMostPathBytes)
      json_.fail(json_.offset(), "the archive's tree is too large");
    leaves_.emplace_back(path.empty() ? "0" : path, std::move(leaf));
  }

  void node(const std::string& path) {
    switch (json_.peek()) {
      case JsonReader::Kind::Null: return json_.null();
      case JsonReader::Kind::Boolean: return add(path, serialize::Value(json_.boolean()));
      case JsonReader::Kind::String: return add(path, serialize::Value(json_.string()));
      case JsonReader::Kind::Number: {
        const JsonReader::Number number = json_.number();
        return add(path, number.is_integer ? serialize::Value(number.integer) : serialize::Value(number.real));
      }
      case JsonReader::Kind::Array: return list(path);
      case JsonReader::Kind::Object: return object(path);
    }
  }
  void list(const std::string& path) {
    json_.array([&](size_t i) { node(below(path, std::to_string(i))); });
  }

  void object(const std::string& path) {
    const uint64_t at = json_.offset();
    std::optional<TreeTensor> tensor;
    json_.object([&](const std::string& field) {
      if (field == "tensor") tensor.emplace(TreeTensor{json_.string(), false, false});
      else if (tensor && field == "requires_grad") tensor->requires_grad = json_.boolean();
      else if (tensor && field == "complex") tensor->is_complex = json_.boolean();
      else if (field == "dict") dict(path);
      else if (field == "tuple" || field == "size" || field == "complex") list(path);
      else if (field == "float") special_number(path);
      else if (field == "int" || field == "dtype" || field == "device" || field == "bytes")
        add(path, serialize::Value(json_.string()));
      else json_.fail(at, str("the archive's tree has a node of the unknown kind \"", field, "\""));
    });
    if (tensor) add(path, std::move(*tensor));
  }

  std::string dict_key() {
    if (json_.peek() == JsonReader::Kind::String) return json_.string();
    const uint64_t at = json_.offset();
    const JsonReader::Number number = json_.number();
    if (!number.is_integer) json_.fail(at, "a key of a dict is neither a text nor a whole number");
    return std::to_string(number.integer);
  }

  void dict(const std::string& path) {
    json_.array([&](size_t) {
      std::string key;
      size_t count = 0;
      const uint64_t at = json_.offset();
      json_.array([&](size_t i) {
        count = i + 1;
        if (i == 0) key = dict_key();
        else if (i == 1) node(below(path, key));
        else json_.fail(at, "an entry of a dict is a key and a value, here are more");
      });
      if (count != 2) json_.fail(at, "an entry of a dict is a key and a value, here are fewer");
    });
  }

  void special_number(const std::string& path) {
    const uint64_t at = json_.offset();
    const std::string text = json_.string();
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (text == "nan") add(path, serialize::Value(std::numeric_limits<double>::quiet_NaN()));
    else if (text == "inf") add(path, serialize::Value(inf));
    else if (text == "-inf") add(path, serialize::Value(-inf));
    else json_.fail(at, str("\"", text, "\" is no number"));
  }

  static constexpr size_t kMostLeaves = size_t{1} << 22;
  static constexpr size_t kMostPathBytes = size_t{1} << 28;

  JsonReader json_;
  TreeLeaves leaves_;
  size_t path_bytes_ = 0;
};

}  // namespace

TreeLeaves read_tree(std::string_view text, const std::string& source) { return TreeReader(text, source).read(); }

void write_tree_value(std::string& out, const serialize::Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) {
    out += *truth ? "true" : "false";
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    out += std::to_string(*integer);
  } else if (const std::string* text = std::get_if<std::string>(&value)) {
    write_json_string(out, *text, "save");
  } else {
    const double number = std::get<double>(value);
    if (std::isnan(number)) {
      out += "{\"float\":\"nan\"}";
    } else if (std::isinf(number)) {
      out += number > 0 ? "{\"float\":\"inf\"}" : "{\"float\":\"-inf\"}";
    } else {
      char buffer[40];
      const char* end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
      const std::string_view digits(buffer, static_cast<size_t>(end - buffer));
      out += digits;
      // Whole numbers stay floating ones.
      if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
    }
  }
}

void write_tree_tensor(std::string& out, const TreeTensor& tensor) {
  out += "{\"tensor\":";
  write_json_string(out, tensor.name, "save");
  if (tensor.requires_grad) out += ",\"requires_grad\":true";
  if (tensor.is_complex) out += ",\"complex\":true";
  out += '}';
}

}  // namespace facula::io
