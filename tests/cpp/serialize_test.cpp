// save and load by libtorch's names: tensors, lists, modules, archives in archives.
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Serialize : public ::testing::Test {
 protected:
  Serialize() {
    std::string pattern = (std::filesystem::temp_directory_path() / "facula-archive-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Serialize() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

struct InnerImpl : torch::nn::Module {
  explicit InnerImpl(int64_t size) {
    weight = register_parameter("weight", torch::randn({size, 2}));
    count = register_buffer("count", torch::zeros({}, torch::kLong));
  }
  torch::Tensor weight, count;
};
TORCH_MODULE(Inner);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t size = 3) {
    inner = register_module("inner", Inner(size));
    bias = register_parameter("bias", torch::randn({2}));
    tied = register_parameter("tied", inner->weight);
  }
  Inner inner = nullptr;
  torch::Tensor bias, tied;
};
TORCH_MODULE(Net);

TEST_F(Serialize, ATensor) {
  const torch::Tensor x = torch::randn({3, 4}, torch::requires_grad());
  torch::save(x, path("x"));
  torch::Tensor y;
  torch::load(y, path("x"));
  EXPECT_TRUE(y.equal(x));
  EXPECT_TRUE(y.requires_grad());
  torch::Tensor defined = torch::zeros({7}), same = defined;
  torch::load(defined, path("x"));
  EXPECT_TRUE(same.equal(x.detach()));  // the same tensor got the data
}

TEST_F(Serialize, StreamsBytesAndFunctions) {
  const torch::Tensor x = torch::arange(10);
  std::stringstream stream;
  torch::save(x, stream);
  std::string bytes;
  torch::save(x, [&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  EXPECT_EQ(stream.str(), bytes);
  torch::Tensor y, z;
  torch::load(y, stream);
  torch::load(z, bytes.data(), bytes.size());
  EXPECT_TRUE(y.equal(x));
  EXPECT_TRUE(z.equal(x));
  EXPECT_THROW(torch::save(x, [](const void*, size_t) { return size_t{0}; }), torch::Error);
}

TEST_F(Serialize, AListOfTensors) {
  const std::vector<torch::Tensor> list = {torch::ones({2}), torch::zeros({0}), torch::tensor({1, 2}),
                                           torch::randn({3}, torch::kComplexDouble),
                                           torch::full({2}, 3, torch::kComplexHalf)};
  torch::save(list, path("list"));
  std::vector<torch::Tensor> back = {torch::ones({9})};
  torch::load(back, path("list"));
  ASSERT_EQ(back.size(), list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(back[i].scalar_type(), list[i].scalar_type());
    EXPECT_EQ(back[i].sizes(), list[i].sizes());
    if (list[i].scalar_type() != torch::kComplexHalf) {
      EXPECT_TRUE(back[i].equal(list[i])) << i;
    }
  }
}

TEST_F(Serialize, AModuleByHolderAndByPointer) {
  Net net(3), other(3);
  net->inner->count.fill_(5);
  torch::save(net, path("net"));
  const auto tensors = torch::safetensors::load_file(path("net"));
  EXPECT_TRUE(tensors.contains("inner.weight") || tensors.contains("tied"));
  EXPECT_EQ(tensors.size(), 3u);  // what has two names is written once
  torch::load(other, path("net"));
  EXPECT_TRUE(other->inner->weight.equal(net->inner->weight));
  EXPECT_TRUE(other->tied.is_same(other->inner->weight));
  EXPECT_TRUE(other->bias.equal(net->bias));
  EXPECT_EQ(other->inner->count.item<int64_t>(), 5);
  const std::shared_ptr<NetImpl> pointer = std::make_shared<NetImpl>(3);
  std::stringstream stream;
  torch::save(pointer, stream);
  torch::load(other, stream);
  EXPECT_TRUE(other->bias.equal(pointer->bias));
}

TEST_F(Serialize, AModuleThatDoesNotFitIsLeftAlone) {
  Net net(3), larger(4);
  torch::save(net, path("net"));
  const torch::Tensor before = larger->bias.clone();
  try {
    torch::load(larger, path("net"));
    FAIL();
  } catch (const torch::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("size mismatch for inner.weight"));
  }
  EXPECT_TRUE(larger->bias.equal(before));
}

TEST_F(Serialize, ArchivesHoldValuesAndArchives) {
  torch::serialize::OutputArchive inner, archive;
  inner.write("step", 12);
  inner.write("exp_avg", torch::ones({2}));
  archive.write("lr", 0.1);
  archive.write("one", 1.0);
  archive.write("nan", std::numeric_limits<double>::quiet_NaN());
  archive.write("low", -std::numeric_limits<double>::infinity());
  archive.write("most", std::numeric_limits<int64_t>::max());
  archive.write("amsgrad", true);
  archive.write("name", std::string("Adam \"ω\"\n"));
  archive.write("state", inner);
  EXPECT_THROW(archive.write("lr", 0.2), torch::ValueError);
  archive.save_to(path("a"));

  torch::serialize::InputArchive back, state;
  back.load_from(path("a"));
  EXPECT_THAT(back.keys(), ElementsAre("lr", "one", "nan", "low", "most", "amsgrad", "name", "state"));
  double number = 0;
  int64_t whole = 0;
  bool truth = false;
  std::string text;
  back.read("lr", number);
  EXPECT_EQ(number, 0.1);
  back.read("nan", number);
  EXPECT_TRUE(std::isnan(number));
  back.read("low", number);
  EXPECT_EQ(number, -std::numeric_limits<double>::infinity());
  back.read("one", number);
  EXPECT_EQ(number, 1.0);
  EXPECT_THROW(back.read("one", whole), torch::ValueError);  // 1.0 is no whole number
  back.read("most", whole);
  EXPECT_EQ(whole, std::numeric_limits<int64_t>::max());
  back.read("amsgrad", truth);
  EXPECT_TRUE(truth);
  back.read("name", text);
  EXPECT_EQ(text, "Adam \"ω\"\n");
  back.read("state", state);
  EXPECT_THAT(state.keys(), ElementsAre("step", "exp_avg"));
  state.read("step", number);
  EXPECT_EQ(number, 12);
  torch::Tensor tensor;
  state.read("exp_avg", tensor);
  EXPECT_EQ(tensor.sum().item<double>(), 2);
  EXPECT_FALSE(back.try_read("absent", tensor));
  EXPECT_FALSE(back.try_read("lr", tensor));
  EXPECT_FALSE(back.contains("stat"));
  EXPECT_TRUE(back.contains("state"));
  try {
    state.read("absent", tensor);
    FAIL();
  } catch (const torch::ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("there is no tensor under the key 'state.absent'"));
  }
}

TEST_F(Serialize, DamagedTreesAreRefused) {
  const auto refusal = [&](const std::string& tree) -> std::string {
    torch::safetensors::save_file({{"a", torch::ones({2})}}, path("bad"), {{"facula.tree", tree}});
    torch::serialize::InputArchive archive;
    try {
      archive.load_from(path("bad"));
      archive.tensors();
    } catch (const torch::FormatError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(R"({"dict":[["x",{"tensor":"a"}]]})"), "accepted");
  EXPECT_THAT(refusal(R"({"dict":[["x",{"tensor":"b"}]]})"), HasSubstr("the tensor 'b', which is not in the file"));
  EXPECT_THAT(refusal(R"({"dict":[["x"]]})"), HasSubstr("a key and a value"));
  EXPECT_THAT(refusal(R"({"dict":[["x",1,2]]})"), HasSubstr("a key and a value"));
  EXPECT_THAT(refusal(R"({"dict":[["x",1],["x",2]]})"), HasSubstr("'x' comes twice"));
  EXPECT_THAT(refusal(R"({"dict":[[1.5,1]]})"), HasSubstr("neither a text nor a whole number"));
  EXPECT_THAT(refusal(R"({"dict":[[null,1]]})"), HasSubstr("expected a digit"));
  EXPECT_THAT(refusal(R"({"call":"system"})"), HasSubstr("unknown kind \"call\""));
  EXPECT_THAT(refusal(R"({"float":"1"})"), HasSubstr("no number"));
  EXPECT_THAT(refusal(R"({"dict":[["x",{"tensor":"a","complex":true}]]})"),
              ::testing::AnyOf("accepted", HasSubstr("complex")));
  EXPECT_THAT(refusal("{"), HasSubstr("at byte 1"));
  EXPECT_THAT(refusal(std::string(500, '[')), HasSubstr("brackets inside of each other"));
}

}  // namespace
