// Files of tensors: what is written comes back, foreign files are read, damaged ones are refused by name, and a save
// that fails loses nothing.
#include <facula/facula.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "seed.h"

namespace facula {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  Safetensors() {
    std::string pattern = (fs::temp_directory_path() / "facula-io-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Safetensors() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string contents(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

// A file of a header and data, written down here by hand.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return bytes + header + data;
}

std::string refusal(const std::string& bytes) {
  try {
    safetensors::load(bytes);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

constexpr ScalarType kStored[] = {kByte,          kChar,   kShort,  kInt,      kLong,         kHalf,
                                  kFloat,         kDouble, kBool,   kBFloat16, kComplexFloat, kFloat8_e5m2,
                                  kFloat8_e4m3fn, kUInt16, kUInt32, kUInt64};

TEST_F(Safetensors, EveryDtypeComesBackBitByBit) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 random(facula_test::test_seed());
  safetensors::Tensors tensors;
  for (const ScalarType dtype : kStored) {
    const std::vector<int64_t> shape = {static_cast<int64_t>(random() % 4), 1 + static_cast<int64_t>(random() % 5), 3};
    Tensor bits =
        empty({shape[0] * shape[1] * 3 * static_cast<int64_t>(elementSize(dtype))}, TensorOptions().dtype(kByte));
    for (int64_t i = 0; i < bits.numel(); ++i)
      bits.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(dtype == kBool ? random() % 2 : random());
    Tensor tensor = empty(shape, TensorOptions().dtype(dtype));
    if (bits.numel()) std::memcpy(tensor.data_ptr(), bits.data_ptr(), tensor.nbytes());
    tensors.insert(dtype_name(dtype), tensor);
  }
  tensors.insert("scalar", tensor(2.5));
  tensors.insert("nothing", empty({0, 7}));
  safetensors::save_file(tensors, path("all"), {{"author", "Zoë \"Q\"\n\\"}, {"", "x"}});

  const safetensors::File file(path("all"));
  EXPECT_EQ(file.metadata()["author"], "Zoë \"Q\"\n\\");
  EXPECT_EQ(file.metadata()[""], "x");
  const auto back = safetensors::load_file(path("all"));
  EXPECT_EQ(back.keys(), tensors.keys());
  for (const auto& item : tensors) {
    const Tensor& other = back[item.key()];
    EXPECT_EQ(other.sizes(), item->sizes()) << item.key();
    ASSERT_EQ(other.scalar_type(), item->scalar_type()) << item.key();
    if (item->numel() > 0) {
      EXPECT_EQ(std::memcmp(other.data_ptr(), item->data_ptr(), item->nbytes()), 0) << item.key();
    }
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(Safetensors, WritesTheBytesThatTheFormatSays) {
  const Tensor a = tensor({1.0f, -2.0f});
  const Tensor b = tensor({7}, kByte);
  const std::string bytes = safetensors::save({{"b", b}, {"a", a}});
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ((length + 8) % 64, 0u);  // so that the data can be used where it is mapped
  std::string header = bytes.substr(8, length);
  header.erase(header.find_last_not_of(' ') + 1);
  EXPECT_EQ(
      header,
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  EXPECT_EQ(bytes.substr(8 + length), std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0\x07", 9));
}

TEST_F(Safetensors, ReadsWhatOthersWrite) {
  // Any order of fields, white space, escapes, data in another order than the header, a float at an odd address.
  const std::string header =
      " \t\n"
      R"( { "\u0077\ud83d\ude00" : {"shape":[ ] , "data_offsets":[1,5],"dtype":"F32"},"flag":{"dtype":"BOOL","data_offsets":[0,1],"shape":[1]}} )";
  const std::string bytes = file_of(header.substr(header.find('{')), std::string("\x01\x00\x00\x80\x3f", 5));
  std::ofstream(path("odd"), std::ios::binary) << bytes;
  for (const auto& tensors : {safetensors::load(bytes), safetensors::load_file(path("odd"))}) {
    EXPECT_THAT(tensors.keys(), ElementsAre("w\U0001F600", "flag"));
    EXPECT_EQ(tensors[size_t{0}]->item<float>(), 1.0f);
    EXPECT_TRUE(tensors["flag"].item<bool>());
  }
  EXPECT_EQ(safetensors::load(file_of("{}")).size(), 0u);
}

TEST_F(Safetensors, TensorsShareTheMapAndKeepItAlive) {
  safetensors::save_file({{"x", arange(100000, kFloat)}, {"y", ones({5})}}, path("map"));
  Tensor x, y;
  {
    const safetensors::File file(path("map"));
    x = file.tensor("x");
    y = file.tensor("x");
    EXPECT_THROW(file.tensor("z"), ValueError);
  }
  EXPECT_EQ(x.data_ptr(), y.data_ptr());  // two tensors over the same memory: nothing was copied
  x.add_(1);
  EXPECT_EQ(y[99999].item<float>(), 100000);
  EXPECT_EQ(safetensors::load_file(path("map"))["x"][0].item<float>(), 0);  // the file itself stays as it is
  fs::remove(path("map"));
  EXPECT_EQ(x.sum().item<double>(), (arange(100000, kFloat) + 1).sum().item<double>());
}

TEST_F(Safetensors, StridesAndTapesDoNotMatter) {
  const Tensor x = randn({4, 6}).t();
  const Tensor w = randn({3}, TensorOptions().requires_grad(true));
  safetensors::save_file({{"x", x}, {"w", w * 2}}, path("strided"));
  const auto back = safetensors::load_file(path("strided"));
  EXPECT_TRUE(back["x"].equal(x));
  EXPECT_TRUE(back["x"].is_contiguous());
  EXPECT_TRUE(back["w"].equal((w * 2).detach()));
  EXPECT_FALSE(back["w"].requires_grad());
}

TEST_F(Safetensors, DamageIsNamedWithItsPlace) {
  const std::string good = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  ASSERT_EQ(refusal(file_of(good, "xx")), "accepted");
  struct Case {
    std::string bytes, says;
  };
  const auto entry = [](const std::string& inside) { return "{\"a\":{" + inside + "}}"; };
  const Case cases[] = {
      {"", "at byte 0: a file of 0 bytes"},
      {"1234567", "at byte 0: a file of 7 bytes"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10),
       "at byte 0: the header would have 18446744073709551615 bytes"},
      {std::string("\x10\0\0\0\0\0\0\0{}", 10), "at byte 0: the header would have 16 bytes, and the file has only 2"},
      {std::string("PK\3\4aaaaaaaa"), "this is a zip archive"},
      {file_of(""), "at byte 8: the header does not begin with '{'"},
      {file_of("[]"), "at byte 8: the header does not begin with '{'"},
      {file_of("{"), "at byte 9: the text ends where a key or '}' is expected"},
      {file_of("{} x"), "at byte 11: expected the end of the text, found 'x'"},
      {file_of("{\"a\":1}"), "at byte 13: expected '{', found '1'"},
      {file_of("{\"\xff\":1}"), "at byte 10: a string is not UTF-8: byte 0xff"},
      {file_of("{\"\\ud800\":1}"), "first half of a surrogate pair"},
      {file_of("{\"a\n\":1}"), "control character in a string: byte 0x0a"},
      {file_of(good, "x"), "tensor \"a\" ends at byte 2 of the data, which has only 1; the file is cut short"},
      {file_of(good, "xxx"), "at byte 63: 1 bytes after the last tensor belong to none"},
      {file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
               "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
               "xx"),
       "at byte 61: the name \"a\" comes twice"},
      {file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
               "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
               "xxx"),
       "tensor \"b\" overlaps with \"a\": it begins at byte 1 of the data, the other ends at 2"},
      {file_of("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", "xx"),
       "bytes 0 to 1 of the data, before tensor \"a\", belong to no tensor"},
      {file_of(entry(R"("dtype":"U8","shape":[2],"data_offsets":[2,0])"), "xx"), "go backwards: 2 to 0"},
      {file_of(entry(R"("dtype":"U8","shape":[2],"data_offsets":[0,1])"), "x"),
       "needs 2 bytes, its data_offsets hold 1"},
      {file_of(entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "x"),
       "expected a whole number from 0 to 2^63 - 1, found -1"},
      {file_of(entry(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), "x"), "found 1.0"},
      {file_of(entry(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])"), "x"),
       "found 92233720368547758"},
      {file_of(entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])")),
       "more bytes than 64 bits"},
      {file_of(entry(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])")),
       "more bytes than 64 bits"},
      {file_of(entry(R"("dtype":"F33","shape":[],"data_offsets":[0,4])"), "xxxx"), "the unknown dtype \"F33\""},
      {file_of(entry(R"("shape":[1],"data_offsets":[0,1])"), "x"), "tensor \"a\" has no dtype"},
      {file_of(entry(R"("dtype":"U8","data_offsets":[0,1])"), "x"), "tensor \"a\" has no shape"},
      {file_of(entry(R"("dtype":"U8","shape":[1])"), "x"), "tensor \"a\" has no data_offsets"},
      {file_of(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), "x"), "has not two numbers"},
      {file_of(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), "x"), "has more than two numbers"},
      {file_of(entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1)"), "x"), "the unknown field \"more\""},
      {file_of(entry(R"("dtype":"BOOL","shape":[2],"data_offsets":[0,2])"), "\1\2"),
       "holds the byte 2, which is neither 0 nor 1"},
      {file_of(R"({"__metadata__":{"x":1}})"), "__metadata__ holds strings only; \"x\" is something else"},
      {file_of("{\"a\":" + std::string(300, '[')), "at byte"},
      {file_of(entry("\"dtype\":\"U8\",\"shape\":[" +
                     [] {
                       std::string dims = "1";
                       for (int i = 0; i < 64; ++i) dims += ",1";
                       return dims;
                     }() +
                     "],\"data_offsets\":[0,1]"),
               "x"),
       "has more than 64 dims"},
  };
  for (const Case& each : cases) EXPECT_THAT(refusal(each.bytes), HasSubstr(each.says)) << each.bytes.substr(0, 120);
  EXPECT_THROW(safetensors::load(file_of(entry(R"("dtype":"F4","shape":[2],"data_offsets":[0,1])"), "x")),
               NotSupportedError);

  std::ofstream(path("bad"), std::ios::binary) << file_of(good, "x");
  try {
    safetensors::load_file(path("bad"));
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("load_file: '" + path("bad") + "': at byte "));
  }
  EXPECT_THROW(safetensors::load_file(path("absent")), Error);
  EXPECT_THROW(safetensors::load_file(folder_.string()), Error);
}

TEST_F(Safetensors, EveryCutFileIsRefused) {
  const std::string whole = safetensors::save({{"a", ones({3})}, {"b", zeros({2, 2}, kLong)}}, {{"k", "v"}});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_NE(refusal(whole.substr(0, length)), "accepted") << length;
  EXPECT_NE(refusal(whole + "x"), "accepted");
}

TEST_F(Safetensors, WhatCannotBeSavedIsRefusedBeforeTheFileIsTouched) {
  safetensors::save_file({{"a", ones({3})}}, path("x"));
  const std::string before = contents(path("x"));
  EXPECT_THROW(safetensors::save_file({{"a", zeros({2}, kComplexDouble)}}, path("x")), NotSupportedError);
  EXPECT_THROW(safetensors::save_file({{"a", Tensor()}}, path("x")), ValueError);
  EXPECT_THROW(safetensors::save_file({{"a", empty({2}, TensorOptions().device(kMeta))}}, path("x")), ValueError);
  EXPECT_THROW(safetensors::save_file({{"__metadata__", ones({2})}}, path("x")), ValueError);
  EXPECT_THROW(safetensors::save_file({{"\xff", ones({2})}}, path("x")), ValueError);
  EXPECT_THROW(safetensors::save_file({{"a", ones({2})}}, path("no/such/folder")), Error);
  EXPECT_THROW(safetensors::save_file({{"a", ones({2})}}, folder_.string()), Error);
  EXPECT_EQ(contents(path("x")), before);
  EXPECT_EQ(files(), 1u);
}

// The system takes no more than so many bytes for a file, as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Safetensors, AFullDiskLosesNothing) {
  safetensors::save_file({{"a", ones({3})}}, path("x"));
  const std::string before = contents(path("x"));
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  std::string says;
  {
    const FileSizeLimit limit(100000);
    try {
      safetensors::save_file({{"a", zeros({1000000})}}, path("x"));
    } catch (const Error& error) {
      says = error.what();
    }
  }
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(says, HasSubstr("save_file: cannot write '" + path("x") + "': "));
  EXPECT_THAT(says, HasSubstr("What was there before is unchanged"));
  EXPECT_EQ(contents(path("x")), before);
  EXPECT_EQ(files(), 1u);  // nothing half written is left
}

TEST_F(Safetensors, ACrashInTheMiddleOfASaveLeavesTheOldFile) {
  safetensors::save_file({{"a", ones({3})}}, path("x"));
  const std::string before = contents(path("x"));
  const Tensor large = zeros({1000000});
  const pid_t child = ::fork();
  if (child == 0) {
    // The signal of the limit ends the process inside of write().
    ::signal(SIGXFSZ, SIG_DFL);
    const FileSizeLimit limit(300000);
    safetensors::save_file({{"a", large}}, path("x"));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(contents(path("x")), before);
  EXPECT_EQ(files(), 2u);  // what was half written has another name
  EXPECT_EQ(safetensors::load_file(path("x"))["a"].sum().item<double>(), 3);
}

TEST_F(Safetensors, SavingKeepsPermissionsAndLinks) {
  safetensors::save_file({{"a", ones({3})}}, path("x"));
  ::chmod(path("x").c_str(), 0640);
  fs::create_symlink(path("x"), path("link"));
  safetensors::save_file({{"a", zeros({3})}}, path("link"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  struct stat status;
  ASSERT_EQ(::stat(path("x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
  EXPECT_EQ(safetensors::load_file(path("x"))["a"].sum().item<double>(), 0);
}

TEST_F(Safetensors, AMapThatIsReplacedStaysWhatItWas) {
  safetensors::save_file({{"a", ones({1000})}}, path("x"));
  const Tensor a = safetensors::load_file(path("x"))["a"];
  safetensors::save_file({{"a", a * 2}}, path("x"));  // reads from the map of the file that it replaces
  EXPECT_EQ(a.sum().item<double>(), 1000);
  EXPECT_EQ(safetensors::load_file(path("x"))["a"].sum().item<double>(), 2000);
}

}  // namespace
}  // namespace facula
