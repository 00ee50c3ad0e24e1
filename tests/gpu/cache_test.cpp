// What is kept on disk: whole entries come back, everything else is refused and costs at most a warning.
#include "cpp/child.h"
#include "error_text.h"
#include "gpu/cache.h"
#include "gpu/kernel.h"
#include "gpu/sha256.h"
#include "scoped.h"

#include <facula/core/warning.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cpp/seed.h"

namespace facula::testing {
namespace {

using gpu::Digest;
using gpu::DiskCache;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class Warnings : public WarningHandler {
 public:
  void process(const Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

uint32_t seed() { return static_cast<uint32_t>(facula_test::test_seed()); }

Digest key_of(const std::string& text) { return gpu::sha256(text.data(), text.size()); }

std::vector<char> some_bytes(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<char> bytes(count);
  for (char& b : bytes) b = static_cast<char>(generator());
  return bytes;
}

// The one entry of a cache in `folder`.
std::string only_entry(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder + "/kernels")) found.push_back(entry.path().string());
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? "" : found[0];
}

std::vector<char> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  const auto hex = [](const std::string& text) { return gpu::to_hex(gpu::sha256(text.data(), text.size())); };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const std::vector<char> bytes = some_bytes(1000, seed());
  std::mt19937 generator(seed());
  for (size_t length : {0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 1000}) {
    gpu::Sha256 pieces;
    for (size_t at = 0; at < length;) {
      const size_t taken = std::min<size_t>(length - at, generator() % 70);
      pieces.add(bytes.data() + at, taken);
      at += taken;
    }
    EXPECT_EQ(pieces.finish(), gpu::sha256(bytes.data(), length)) << length << " bytes, seed " << seed();
  }
  // Texts side by side are not the same as their sum.
  EXPECT_NE(gpu::Sha256().add_text("ab").add_text("c").finish(), gpu::Sha256().add_text("a").add_text("bc").finish());
}

TEST(DiskCache, GivesBackWhatWasWritten) {
  const Folder folder;
  for (size_t size : {0, 1, 79, 80, 81, 100000}) {
    const std::vector<char> bytes = some_bytes(size, seed());
    {
      DiskCache cache(folder / "cache", kMegabyte);
      EXPECT_FALSE(cache.read(key_of("a")).has_value());
      cache.write(key_of("a"), bytes);
      EXPECT_EQ(cache.folder(), folder / "cache");
    }
    DiskCache cache(folder / "cache", kMegabyte);
    EXPECT_EQ(cache.read(key_of("a")), bytes);
    EXPECT_FALSE(cache.read(key_of("b")).has_value());
    EXPECT_EQ(cache.rejected(), 0);
    fs::remove_all(folder / "cache");
  }
}

TEST(DiskCache, ForgetsWhatIsRemoved) {
  const Folder folder;
  DiskCache cache(folder / "cache", kMegabyte);
  cache.write(key_of("a"), some_bytes(10, 1));
  cache.write(key_of("b"), some_bytes(10, 2));
  cache.remove(key_of("a"));
  cache.remove(key_of("nothing"));
  EXPECT_FALSE(cache.read(key_of("a")).has_value());
  EXPECT_EQ(cache.read(key_of("b")), some_bytes(10, 2));
}

TEST(DiskCache, KeepsMarks) {
  const Folder folder;
  const mode_t before = ::umask(0);
  DiskCache cache(folder / "cache", kMegabyte);
  EXPECT_THAT(cache.marks(""), ::testing::IsEmpty());
  EXPECT_FALSE(fs::exists(folder / "cache/starting"));  // looking makes nothing
  EXPECT_TRUE(cache.set_mark("a-1"));
  ::umask(before);
  EXPECT_FALSE(cache.set_mark("a-1"));
  EXPECT_TRUE(cache.set_mark("a-2"));
  EXPECT_TRUE(cache.set_mark("b-1"));
  struct stat info;
  ASSERT_EQ(::stat((folder / "cache/starting").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder / "cache/starting/a-1").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(cache.marks("a-"), ::testing::UnorderedElementsAre("a-1", "a-2"));
  cache.remove_mark("a-1");
  EXPECT_THAT(cache.marks("a-"), ::testing::ElementsAre("a-2"));
  // Those of others go when they are very old; those that are asked for stay.
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(24 * 8);
  fs::last_write_time(folder / "cache/starting/a-2", old);
  fs::last_write_time(folder / "cache/starting/b-1", old);
  EXPECT_THAT(cache.marks("a-"), ::testing::ElementsAre("a-2"));
  EXPECT_FALSE(fs::exists(folder / "cache/starting/b-1"));
}

TEST(DiskCache, TakesNoMarksWhereOthersMayWrite) {
  const Folder folder;
  DiskCache cache(folder / "cache", kMegabyte);
  EXPECT_TRUE(cache.set_mark("a"));
  ASSERT_EQ(::chmod((folder / "cache/starting").c_str(), 0770), 0);
  EXPECT_THAT(cache.marks(""), ::testing::IsEmpty());
  EXPECT_FALSE(cache.set_mark("b"));
  fs::rename(folder / "cache/starting", folder / "elsewhere");
  ASSERT_EQ(::chmod((folder / "elsewhere").c_str(), 0700), 0);
  fs::create_symlink(folder / "elsewhere", folder / "cache/starting");
  EXPECT_THAT(cache.marks(""), ::testing::IsEmpty());
  EXPECT_FALSE(cache.set_mark("b"));
  EXPECT_EQ(cache.write_failures(), 0);
}

TEST(DiskCache, IsForTheUserAlone) {
  const Folder folder;
  const mode_t before = ::umask(0);
  DiskCache cache(folder / "a/b/cache", kMegabyte);
  cache.write(key_of("a"), some_bytes(10, 1));
  ::umask(before);
  struct stat info;
  for (const char* part : {"a/b/cache", "a/b/cache/kernels"}) {
    ASSERT_EQ(::stat((folder / part).c_str(), &info), 0) << part;
    EXPECT_EQ(info.st_mode & 0777, 0700u) << part;
  }
  ASSERT_EQ(::stat(only_entry(folder / "a/b/cache").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

// Whatever is done to an entry, it is either what was written or nothing, and it is gone afterwards.
class DamagedEntry : public ::testing::Test {
 protected:
  void SetUp() override {
    bytes_ = some_bytes(300, seed());
    DiskCache cache(folder_ / "cache", kMegabyte);
    cache.write(key_of("a"), bytes_);
    path_ = only_entry(folder_ / "cache");
    whole_ = read_file(path_);
  }

  void expect_refused(const std::vector<char>& damaged, const std::string& what) {
    write_file(path_, damaged);
    DiskCache cache(folder_ / "cache", kMegabyte);
    EXPECT_FALSE(cache.read(key_of("a")).has_value()) << what << ", seed " << seed();
    EXPECT_EQ(cache.rejected(), 1) << what;
    EXPECT_FALSE(fs::exists(path_)) << what;
    cache.write(key_of("a"), bytes_);
    EXPECT_EQ(cache.read(key_of("a")), bytes_) << what;
  }

  Folder folder_;
  std::string path_;
  std::vector<char> bytes_, whole_;
};

TEST_F(DamagedEntry, OneBitIsWrong) {
  std::mt19937 generator(seed());
  for (size_t i = 0; i < whole_.size(); ++i) {
    std::vector<char> damaged = whole_;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (generator() % 8)));
    expect_refused(damaged, "byte " + std::to_string(i));
  }
}

TEST_F(DamagedEntry, IsCutShort) {
  for (size_t length = 0; length < whole_.size(); ++length)
    expect_refused({whole_.begin(), whole_.begin() + static_cast<std::ptrdiff_t>(length)},
                   std::to_string(length) + " bytes");
}

TEST_F(DamagedEntry, IsTooLong) {
  std::vector<char> damaged = whole_;
  damaged.push_back('x');
  expect_refused(damaged, "one byte more");
  damaged.resize(damaged.size() + 100000);
  expect_refused(damaged, "many bytes more");
}

TEST_F(DamagedEntry, IsNoise) {
  std::mt19937 generator(seed());
  for (int i = 0; i < 200; ++i) {
    std::vector<char> damaged = some_bytes(generator() % 500, static_cast<uint32_t>(generator()));
    // Half of them begin as an entry does, with a length that may be anything.
    if (i % 2 == 0 && damaged.size() > 16) std::copy(whole_.begin(), whole_.begin() + 8, damaged.begin());
    expect_refused(damaged, "noise " + std::to_string(i));
  }
}

TEST_F(DamagedEntry, ClaimsToBeHuge) {
  for (uint64_t claimed : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 40, uint64_t{301}}) {
    std::vector<char> damaged = whole_;
    std::memcpy(damaged.data() + 8, &claimed, 8);
    expect_refused(damaged, std::to_string(claimed) + " bytes");
  }
}

TEST_F(DamagedEntry, BelongsToAnotherKey) {
  DiskCache cache(folder_ / "cache", kMegabyte);
  const std::string other = (folder_ / "cache/kernels/") + gpu::to_hex(key_of("b")) + ".bin";
  fs::copy_file(path_, other);
  EXPECT_FALSE(cache.read(key_of("b")).has_value());
  EXPECT_EQ(cache.rejected(), 1);
  EXPECT_EQ(cache.read(key_of("a")), bytes_);
}

TEST_F(DamagedEntry, IsALinkAFolderOrAPipe) {
  const auto refused = [&] {
    DiskCache cache(folder_ / "cache", kMegabyte);
    EXPECT_FALSE(cache.read(key_of("a")).has_value());
    EXPECT_EQ(cache.rejected(), 1);
  };
  fs::rename(path_, folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", path_);
  refused();
  EXPECT_EQ(read_file(folder_ / "elsewhere"), whole_);  // what the link named is left alone
  fs::create_directory(path_);
  refused();
  fs::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  refused();
}

TEST_F(DamagedEntry, MayBeWrittenByOthers) {
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  DiskCache cache(folder_ / "cache", kMegabyte);
  EXPECT_FALSE(cache.read(key_of("a")).has_value());
  EXPECT_EQ(cache.rejected(), 1);
}

TEST_F(DamagedEntry, BelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(::chown(path_.c_str(), 12345, 12345), 0);
  DiskCache cache(folder_ / "cache", kMegabyte);
  EXPECT_FALSE(cache.read(key_of("a")).has_value());
  EXPECT_EQ(cache.rejected(), 1);
}

// A folder that cannot be used: nothing is kept, one warning says why and what to do.
void expect_no_folder(const std::string& folder, const std::string& cause, const std::string& why_none = "") {
  Warnings warnings;
  const WarningUtils::WarningHandlerGuard guard(&warnings);
  DiskCache cache(folder, kMegabyte, why_none);
  cache.write(key_of("a"), some_bytes(10, 1));
  EXPECT_FALSE(cache.read(key_of("a")).has_value());
  EXPECT_FALSE(cache.read(key_of("b")).has_value());
  EXPECT_EQ(cache.write_text("note", "text"), "");
  EXPECT_EQ(cache.folder(), "");
  ASSERT_EQ(warnings.texts.size(), 1u) << folder;
  EXPECT_THAT(warnings.texts[0],
              AllOf(HasSubstr(cause), HasSubstr("FACULA_CACHE_DIR"), HasSubstr("FACULA_CACHE_MB=0")));
}

TEST(CacheFolder, CannotBeUsed) {
  const Folder folder;
  fs::create_directory(folder / "real");
  ASSERT_EQ(::chmod((folder / "real").c_str(), 0700), 0);
  fs::create_symlink(folder / "real", folder / "link");
  expect_no_folder(folder / "link", "link is a link or no folder");
  write_file(folder / "file", {'x'});
  expect_no_folder(folder / "file", "file is a link or no folder");
  expect_no_folder(folder / "file/below", "cannot be made: Not a directory");
  fs::create_directory(folder / "open");
  ASSERT_EQ(::chmod((folder / "open").c_str(), 0777), 0);
  expect_no_folder(folder / "open", "may be written by others");
  fs::create_directories(folder / "inner/kernels");
  ASSERT_EQ(::chmod((folder / "inner").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((folder / "inner/kernels").c_str(), 0770), 0);
  expect_no_folder(folder / "inner", "inner/kernels may be written by others");
  fs::create_directory(folder / "outer");
  ASSERT_EQ(::chmod((folder / "outer").c_str(), 0700), 0);
  fs::create_symlink(folder / "real", folder / "outer/kernels");
  expect_no_folder(folder / "outer", "kernels is a link or no folder");
  EXPECT_TRUE(fs::is_empty(folder / "real"));
  expect_no_folder("relative/folder", "\"relative/folder\" is no absolute path");
  expect_no_folder("/proc/facula-cache", "/proc/facula-cache cannot be made");
  expect_no_folder("", "HOME is not set", "HOME is not set");
}

TEST(CacheFolder, BelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const Folder folder;
  fs::create_directory(folder / "theirs");
  ASSERT_EQ(::chmod((folder / "theirs").c_str(), 0700), 0);
  ASSERT_EQ(::chown((folder / "theirs").c_str(), 12345, 12345), 0);
  expect_no_folder(folder / "theirs", "belongs to another user (number 12345");
}

TEST(CacheFolder, IsNotWantedAndNotWarnedAbout) {
  const Folder folder;
  Warnings warnings;
  const WarningUtils::WarningHandlerGuard guard(&warnings);
  DiskCache cache(folder / "cache", 0);
  cache.write(key_of("a"), some_bytes(10, 1));
  EXPECT_FALSE(cache.read(key_of("a")).has_value());
  EXPECT_EQ(cache.folder(), "");
  EXPECT_TRUE(warnings.texts.empty());
  EXPECT_FALSE(fs::exists(folder / "cache"));
}

TEST(CacheFolder, IsFull) {
  const Folder folder;
  // A limit on the size of files stands for a full disk: the write stops in the middle. In a process of its own, since the
  // limit stays.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Warnings warnings;
    const WarningUtils::WarningHandlerGuard guard(&warnings);
    DiskCache cache(folder / "cache", kMegabyte);
    cache.write(key_of("small"), some_bytes(100, 1));
    cache.write(key_of("large"), some_bytes(5000, 2));
    cache.write(key_of("larger"), some_bytes(6000, 3));
    const bool good = cache.read(key_of("small")) == some_bytes(100, 1) && !cache.read(key_of("large")) &&
                      cache.write_failures() == 1 && warnings.texts.size() == 1 &&
                      warnings.texts[0].find("cannot write in " + (folder / "cache")) != std::string::npos &&
                      warnings.texts[0].find("File too large") != std::string::npos;
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // Nothing is left of the write that failed.
  EXPECT_THAT(only_entry(folder / "cache"), HasSubstr(gpu::to_hex(key_of("small"))));
}

TEST(DiskCache, RemovesWhatWasNotUsedForLongest) {
  const Folder folder;
  const auto key = [](int i) { return key_of(std::to_string(i)); };
  const auto path = [&](int i) { return (folder / "cache/kernels/") + gpu::to_hex(key(i)) + ".bin"; };
  const auto set_age = [&](int i, long seconds) {
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec -= seconds;
    const timespec times[2] = {now, now};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(i).c_str(), times, 0), 0);
  };
  constexpr uint64_t kEntry = 1000 + 80;
  DiskCache cache(folder / "cache", 10 * kEntry);
  for (int i = 0; i < 10; ++i) {
    cache.write(key(i), some_bytes(1000, static_cast<uint32_t>(i)));
    set_age(i, 1000 - i);
  }
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(fs::exists(path(i))) << i;
  EXPECT_TRUE(cache.read(key(0)).has_value());  // used again: the youngest now
  cache.write(key(10), some_bytes(1000, 10));
  EXPECT_TRUE(fs::exists(path(0)));
  EXPECT_FALSE(fs::exists(path(1)));
  EXPECT_FALSE(fs::exists(path(2)));  // a tenth is freed at once
  for (int i = 3; i <= 10; ++i) EXPECT_TRUE(fs::exists(path(i))) << i;
  // An entry that is larger than everything may be is not kept.
  cache.write(key(11), some_bytes(20 * kEntry, 11));
  EXPECT_FALSE(fs::exists(path(11)));
  EXPECT_TRUE(fs::exists(path(10)));
}

TEST(DiskCache, RemovesWhatADeadProcessLeftBehind) {
  const Folder folder;
  DiskCache cache(folder / "cache", kMegabyte);
  EXPECT_EQ(cache.folder(), folder / "cache");
  write_file(folder / "cache/kernels/.new-1-0-old", {'x'});
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (folder / "cache/kernels/.new-1-0-old").c_str(), old, 0), 0);
  write_file(folder / "cache/kernels/.new-1-1-young", {'x'});
  cache.shrink_to(kMegabyte);
  EXPECT_FALSE(fs::exists(folder / "cache/kernels/.new-1-0-old"));
  EXPECT_TRUE(fs::exists(folder / "cache/kernels/.new-1-1-young"));
}

TEST(DiskCache, IsFilledByManyAtOnce) {
  const Folder folder;
  // Every key has one content; whoever reads gets it whole or not at all, while others write and remove.
  const auto work = [&](uint32_t seed) {
    DiskCache cache(folder / "cache", 40 * 3000);
    std::mt19937 generator(seed);
    int wrong = 0;
    for (int i = 0; i < 300; ++i) {
      const uint32_t which = static_cast<uint32_t>(generator() % 60);
      const std::vector<char> expected = some_bytes(1000 + 50 * which, which);
      const auto found = cache.read(key_of(std::to_string(which)));
      if (found && *found != expected) ++wrong;
      if (!found) cache.write(key_of(std::to_string(which)), expected);
    }
    return wrong + static_cast<int>(cache.rejected() + cache.write_failures());
  };
  std::vector<pid_t> children;
  for (uint32_t i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work(seed() + i) == 0 ? 0 : 1);
    children.push_back(child);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { wrong += work(seed() + 10 + i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0) << "seed " << seed();
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "seed " << seed();
  }
}

// ---- kernels ----

constexpr char kKernel[] = R"(
extern "C" __global__ void cache_test(float* data) { data[threadIdx.x] = MULTIPLIER * data[threadIdx.x]; }
)";
std::string kernel_text(int multiplier) { return "#define MULTIPLIER " + std::to_string(multiplier) + "\n" + kKernel; }

// A number that no other run of this test has used: its kernels are in no cache.
int fresh() {
  static int next = static_cast<int>(std::random_device()() & 0xffffff);
  return next++;
}

std::vector<char> binary_of(int multiplier, std::vector<std::string> options = {}) {
  return gpu::compiled_binary("cache_test", kernel_text(multiplier), gpu::properties(0).chip, options, "test");
}

TEST(GpuKernelCache, CompilesOnceForManyThreads) {
  const gpu::CacheStats before = gpu::cache_stats();
  const int number = fresh();
  std::vector<std::vector<char>> binaries(8);
  std::vector<std::thread> threads;
  for (auto& binary : binaries) threads.emplace_back([&binary, number] { binary = binary_of(number); });
  for (std::thread& thread : threads) thread.join();
  const gpu::CacheStats after = gpu::cache_stats();
  EXPECT_EQ(after.compiled - before.compiled, 1);
  EXPECT_EQ(after.memory_hits - before.memory_hits, 7);
  EXPECT_FALSE(binaries[0].empty());
  for (const auto& binary : binaries) EXPECT_EQ(binary, binaries[0]);
}

TEST(GpuKernelCache, TellsTextsAndOptionsApart) {
  const gpu::CacheStats before = gpu::cache_stats();
  const int number = fresh();
  binary_of(number);
  binary_of(number, {"-DSOMETHING=1"});
  binary_of(fresh());
  binary_of(number);
  const gpu::CacheStats after = gpu::cache_stats();
  EXPECT_EQ(after.compiled - before.compiled, 3);
  EXPECT_EQ(after.memory_hits - before.memory_hits, 1);
}

TEST(GpuKernelCache, DISABLED_InAProcess) {
  const gpu::CacheStats before = gpu::cache_stats();
  binary_of(std::atoi(std::getenv("CACHE_TEST_NUMBER")));
  const gpu::CacheStats after = gpu::cache_stats();
  std::printf("compiled %d disk %d rejected %d\n", static_cast<int>(after.compiled - before.compiled),
              static_cast<int>(after.disk_hits - before.disk_hits), static_cast<int>(after.rejected));
}

TEST(GpuKernelCache, IsSharedByProcesses) {
  const Folder folder;
  const auto run = [&](int number) {
    return run_in_child("GpuKernelCache.DISABLED_InAProcess",
                        "FACULA_GPU_PROBE=never FACULA_CACHE_DIR=" + (folder / "cache") +
                            " CACHE_TEST_NUMBER=" + std::to_string(number))
        .output;
  };
  EXPECT_THAT(run(1), HasSubstr("compiled 1 disk 0 rejected 0"));
  EXPECT_THAT(run(1), HasSubstr("compiled 0 disk 1 rejected 0"));
  EXPECT_THAT(run(2), HasSubstr("compiled 1 disk 0 rejected 0"));
  // A damaged entry is compiled again, and is whole afterwards.
  for (const auto& entry : fs::directory_iterator(folder / "cache/kernels")) fs::resize_file(entry.path(), 200);
  EXPECT_THAT(run(2), HasSubstr("compiled 1 disk 0 rejected 1"));
  EXPECT_THAT(run(2), HasSubstr("compiled 0 disk 1 rejected 0"));
}

// What was compiled for one chip must not run on another one, though both use the same folder.
TEST(GpuKernelCache, IsNotSharedByChips) {
  if (std::getenv("FACULA_GPU_LIBRARY_PATH") == nullptr) GTEST_SKIP() << "only the software GPU can be another chip";
  const Folder folder;
  const auto run = [&](const std::string& chip) {
    return run_in_child("GpuKernelCache.DISABLED_InAProcess", "FACULA_GPU_PROBE=never SIMGPU_CHIP=" + chip +
                                                                  " FACULA_CACHE_DIR=" + (folder / "cache") +
                                                                  " CACHE_TEST_NUMBER=9")
        .output;
  };
  const bool amd = gpu::properties(0).chip.starts_with("gfx");
  const std::string one = amd ? "gfx906" : "sm_80", other = amd ? "gfx90a" : "sm_90";
  EXPECT_THAT(run(one), HasSubstr("compiled 1 disk 0 rejected 0"));
  EXPECT_THAT(run(other), HasSubstr("compiled 1 disk 0 rejected 0"));
  // Both entries stay.
  EXPECT_THAT(run(one), HasSubstr("compiled 0 disk 1 rejected 0"));
  EXPECT_THAT(run(other), HasSubstr("compiled 0 disk 1 rejected 0"));
}

TEST(GpuKernelCache, IsFilledByProcessesAtOnce) {
  const Folder folder;
  std::vector<std::string> said(3);
  std::vector<std::thread> threads;
  const auto run = [&](std::string& output) {
    output = run_in_child("GpuKernelCache.DISABLED_InAProcess",
                          "FACULA_GPU_PROBE=never FACULA_CACHE_DIR=" + (folder / "cache") + " CACHE_TEST_NUMBER=7")
                 .output;
  };
  for (std::string& output : said) threads.emplace_back([&run, &output] { run(output); });
  for (std::thread& thread : threads) thread.join();
  // Who comes first compiles; the others may have begun before it was done.
  for (const std::string& output : said)
    EXPECT_THAT(output, AnyOf(HasSubstr("compiled 1 disk 0 rejected 0"), HasSubstr("compiled 0 disk 1 rejected 0")));
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("compiled 1 ")));
  only_entry(folder / "cache");  // and nothing that was left behind
  std::string later;
  run(later);
  EXPECT_THAT(later, HasSubstr("compiled 0 disk 1 rejected 0"));
}

TEST(GpuKernelCache, WorksWithoutADisk) {
  const auto result =
      run_in_child("GpuKernelCache.DISABLED_InAProcess",
                   "-u HOME -u XDG_CACHE_HOME -u FACULA_CACHE_DIR CACHE_TEST_NUMBER=3 FACULA_GPU_PROBE=never");
  EXPECT_THAT(result.output, AllOf(HasSubstr("compiled 1 disk 0"), HasSubstr("HOME is not set")));
}

TEST(GpuKernelCache, SaysWhatDoesNotCompile) {
  const auto compile = [] {
    gpu::compiled_binary("broken_kernel",
                         "extern \"C\" __global__ void broken_kernel() { nonsense_name; }  // must not compile\n",
                         gpu::properties(0).chip, {}, "matmul");
  };
  const std::string text = error_of<DeviceError>(compile);
  EXPECT_THAT(
      text,
      AllOf(StartsWith("matmul: the kernel broken_kernel does not compile for " + gpu::properties(0).chip),
            HasSubstr("nonsense_name"),
            HasSubstr("\nMend the text where it is your own; otherwise install another version of the compiler (" +
                      gpu::compiler()->version() + "), or move the tensors with .to(\"cpu\")")));
  const std::string::size_type at = text.find("The whole text is in ");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string::size_type path = at + std::strlen("The whole text is in ");
  const std::vector<char> written = read_file(text.substr(path, text.find('\n', path) - path));
  EXPECT_THAT(std::string(written.begin(), written.end()),
              AllOf(HasSubstr("// facula: kernel broken_kernel"), HasSubstr("{ nonsense_name; }")));
  // A failure is not remembered as a success, nor the other way round.
  EXPECT_THAT(error_of<DeviceError>(compile), HasSubstr("nonsense_name"));
}

TEST(GpuKernelCache, DISABLED_Dumps) {
  binary_of(4, {"-DSOMETHING=1"});
  binary_of(4, {"-DSOMETHING=1"});
  binary_of(5);
}

TEST(GpuKernelCache, WritesTextsForOtherCompilers) {
  const Folder folder;
  fs::create_directory(folder / "texts");
  const auto result = run_in_child("GpuKernelCache.DISABLED_Dumps", "FACULA_KERNEL_DUMP=" + (folder / "texts"));
  EXPECT_EQ(result.status, 0) << result.output;
  std::vector<std::string> texts;
  for (const auto& entry : fs::directory_iterator(folder / "texts")) {
    EXPECT_EQ(entry.path().extension(), ".cu");
    const auto bytes = read_file(entry.path().string());
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  std::sort(texts.begin(), texts.end());
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_THAT(texts[0], AllOf(StartsWith("// facula: kernel cache_test\n// facula: options\n// facula: headers "),
                              HasSubstr("program/expr.h"), HasSubstr(kernel_text(5))));
  EXPECT_THAT(texts[1], AllOf(HasSubstr("// facula: options -DSOMETHING=1\n"), HasSubstr(kernel_text(4))));

  const auto nowhere = run_in_child("GpuKernelCache.DISABLED_Dumps", "FACULA_KERNEL_DUMP=" + (folder / "not-there"));
  EXPECT_NE(nowhere.status, 0);
  EXPECT_THAT(nowhere.output, HasSubstr("FACULA_KERNEL_DUMP must name a folder that exists"));
}

}  // namespace
}  // namespace facula::testing
