// A thousand models opened and closed: nothing stays behind.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// System resources held by this process.
struct Holdings {
  std::size_t descriptors = 0, threads = 0, mappings = 0, file_mappings = 0, heap = 0;

  explicit Holdings(const std::string& file) {
    descriptors = entries("/proc/self/fd");
    threads = entries("/proc/self/task");
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      ++mappings;
      file_mappings += line.find(file) != std::string::npos;
    }
    heap = mallinfo2().uordblks;  // 0 where a sanitizer allocates, which looks for leaks itself
  }
  static std::size_t entries(const char* directory) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), {}));
  }
};

// CRIA_CYCLES: how many; .ci/long asks for thousands. On a busy machine one waits a while for
// oneTBB's threads.
TEST(Cycles, LeaveNothing) {
  const char* const wanted = std::getenv("CRIA_CYCLES");
  const int cycles = wanted != nullptr ? std::atoi(wanted) : 200;
  const std::string path =
      (fs::temp_directory_path() / ("cria-cycles-" + std::to_string(getpid()))).string();
  TinyModel().write(path);
  const auto cycle = [&](int i) {
    const auto model = Model::load(path, {.mmap = i % 10 != 0});
    SessionOptions options;
    options.n_ctx = 16;
    options.threads = static_cast<std::uint32_t>(1 + i % 2);
    Session session(*model, options);
    EXPECT_EQ(session.eval(std::vector<TokenId>{1, 7}).size(), 300U);
  };
  for (int i = 0; i < 40; ++i) cycle(i);  // creates what is kept: threads, the allocator's arenas
  const Holdings before(path);
  for (int i = 0; i < cycles; ++i) cycle(i);
  const Holdings after(path);
  fs::remove(path);
  EXPECT_EQ(after.descriptors, before.descriptors);
  // oneTBB keeps its threads, and makes another when all are still on their way out of the last
  // team.
  EXPECT_LE(after.threads, before.threads + 2 * std::thread::hardware_concurrency() + 2);
  EXPECT_EQ(after.file_mappings, 0U);
  EXPECT_LT(after.mappings, before.mappings + 50);  // one for each cycle would be more
  EXPECT_LT(after.heap, before.heap + (100 << 10));
}

// A file that is refused leaves nothing either.
TEST(Cycles, RefusalsLeaveNothing) {
  const std::string path =
      (fs::temp_directory_path() / ("cria-refused-" + std::to_string(getpid()))).string();
  TinyModel().write(path);
  fs::resize_file(path, fs::file_size(path) - 100);
  const auto refuse = [&] { EXPECT_NE(error_of([&] { (void)Model::load(path); }), ""); };
  for (int i = 0; i < 20; ++i) refuse();
  const Holdings before(path);
  for (int i = 0; i < 500; ++i) refuse();
  const Holdings after(path);
  fs::remove(path);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.file_mappings, 0U);
  EXPECT_LT(after.heap, before.heap + (50 << 10));
}

}  // namespace
}  // namespace cria::test
