// A fuzz target for everything that reads safetensors and archives: whatever bytes come in, either tensors come out
// whose memory can be read, or a typed error. With libFuzzer (clang) it is a fuzzer; with FACULA_FUZZ_LOOP it mutates
// good files by itself, from a seed, for as many rounds as it is told, which is what the tests run.
#include <facula/facula.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace {

// Reads every byte, so that a sanitizer sees one that is not there.
uint64_t touch(const facula::Tensor& tensor) {
  uint64_t sum = 0;
  const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  for (size_t i = 0; i < tensor.nbytes(); ++i) sum += bytes[i];
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& item : facula::safetensors::load(bytes)) touch(*item);
  } catch (const facula::FormatError&) {
  } catch (const facula::NotSupportedError&) {
  }
  try {
    facula::serialize::InputArchive archive;
    archive.load_from(bytes.data(), bytes.size());
    for (const auto& item : archive.tensors()) touch(*item);
    for (const std::string& key : archive.keys()) {
      facula::serialize::Value value;
      facula::serialize::InputArchive nested;
      if (archive.try_read(key, nested)) nested.keys();
      archive.try_read(key, value);
    }
  } catch (const facula::FormatError&) {
  } catch (const facula::NotSupportedError&) {
  }
  return 0;
}

#ifdef FACULA_FUZZ_LOOP
namespace {

std::vector<std::string> good_files() {
  using namespace facula;
  std::vector<std::string> files;
  files.push_back(safetensors::save({{"a", ones({2, 3})}, {"b.c", zeros({4}, kBool)}, {"d", zeros({0, 2}, kBFloat16)}},
                                    {{"format", "pt"}}));
  serialize::OutputArchive inner, archive;
  inner.write("step", 3);
  inner.write("exp_avg", randn({3}, kComplexDouble));
  archive.write("state", inner);
  archive.write("lr", 0.5);
  archive.write("name", std::string("x\"y"));
  std::string bytes;
  archive.save_to([&](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  files.push_back(bytes);
  // Short ones, in which a change hits something that matters.
  for (
      const char* header :
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       R"({"__metadata__":{"facula.tree":"[1,{\"tensor\":\"a\"}]"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})"}) {
    const std::string text(header);
    std::string file(8, '\0');
    file[0] = static_cast<char>(text.size());
    files.push_back(file + text + (text.find("U8") != std::string::npos ? "xy" : "abcd"));
  }
  return files;
}

std::string mutated(std::string file, const std::vector<std::string>& all, std::mt19937_64& random) {
  static const char* const kPieces[] = {"9223372036854775807",
                                        "18446744073709551616",
                                        "-1",
                                        "0",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        "\\u",
                                        "\\ud800",
                                        ",",
                                        ":",
                                        "null",
                                        "1e999",
                                        "__metadata__",
                                        "dtype",
                                        "BOOL",
                                        "F64",
                                        "C64",
                                        "data_offsets",
                                        "\xff",
                                        "facula.tree",
                                        "{\\\"tensor\\\":\\\"a\\\"}",
                                        "{\\\"dict\\\":[["};
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    const size_t at = file.empty() ? 0 : random() % file.size();
    switch (random() % 8) {
      case 0:
        if (!file.empty()) file[at] = static_cast<char>(random());
        break;
      case 1:
        if (!file.empty()) file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
        break;
      case 2: file.resize(at); break;
      case 3: file.erase(at, random() % 8); break;
      case 4: file.insert(at, kPieces[random() % std::size(kPieces)]); break;
      case 5: {
        const std::string& other = all[random() % all.size()];
        file.insert(at, other.substr(random() % other.size(), random() % 40));
        break;
      }
      case 6: {  // a number in the text becomes another
        const size_t digit = file.find_first_of("0123456789", at);
        if (digit != std::string::npos) file.replace(digit, 1, std::to_string(random() >> (random() % 64)));
        break;
      }
      default:  // the length fits the text again, so that what was changed is read
        if (file.size() >= 8) {
          const uint64_t length = random() % (file.size() - 7);
          std::memcpy(file.data(), &length, 8);
        }
    }
  }
  // Most changes of the text would end at its length: make it right in half of the cases.
  const size_t end = file.rfind('}');
  if (random() % 2 && end != std::string::npos && end >= 8) {
    const uint64_t length = end - 7;
    std::memcpy(file.data(), &length, 8);
  }
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  const char* seed_text = std::getenv("FACULA_SEED");
  const uint64_t seed = seed_text && *seed_text ? std::strtoull(seed_text, nullptr, 10) : std::random_device()();
  const long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 20000;
  std::cout << "fuzz: " << rounds << " rounds, FACULA_SEED=" << seed << std::endl;
  std::mt19937_64 random(seed);
  const std::vector<std::string> files = good_files();
  for (const std::string& file : files)
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  for (long i = 0; i < rounds; ++i) {
    const std::string file = mutated(files[random() % files.size()], files, random);
    try {
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size());
    } catch (const std::exception& error) {
      std::cout << "round " << i << " of FACULA_SEED=" << seed << ": an error of another type: " << error.what()
                << std::endl;
      return 1;
    }
  }
  return 0;
}
#endif
