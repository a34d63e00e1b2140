// What a session needs, known beforehand.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "engine/execute/system_memory.h"
#include "engine/session/engine_state.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

TEST(Memory, IsWhatTheSessionTakes) {
  for (const std::uint32_t n_ctx : {1U, 100U, 5000U}) {
    SessionOptions options;
    options.n_ctx = n_ctx;
    const SessionMemory memory = session_memory(demo_model(), options);
    const Session session(demo_model(), options);
    EXPECT_EQ(session.memory_bytes(), memory.kv + memory.work);
    EXPECT_EQ(session.options().n_batch, memory.n_batch);
    EXPECT_EQ(memory.file, demo_model().file().file_bytes());
  }
  SessionOptions options;
  options.n_ctx = 512;  // 8 layers, 2 heads of 64 for keys and values, f16
  EXPECT_EQ(session_memory(demo_model(), options).kv, 512U * 8 * 2 * 64 * 2 * 2);
}

TEST(Memory, WorkStaysWithin64MiB) {
  SessionOptions options;
  options.n_ctx = 1 << 16;
  options.n_batch = 1 << 16;
  const SessionMemory memory = session_memory(demo_model(), options);
  EXPECT_LE(memory.work, std::size_t{64} << 20);
  EXPECT_GT(memory.n_batch, 512U);
}

TEST(Memory, TooLittleIsRefused) {
  SessionOptions options;
  options.n_ctx = 1 << 24;
  options.kv_type = KvType::F32;
  const SessionMemory memory = session_memory(demo_model(), options);
  ASSERT_GT(memory.total(), memory.available) << "this machine is too large for the test";
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("not enough memory: expected "),
            std::string::npos);
  options.n_ctx = (1 << 24) + 1;
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("context too long"), std::string::npos);
  options.n_ctx = 64;
  options.threads = 5000;
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("too many threads"), std::string::npos);
}

TEST(Memory, DefaultsAreFilledIn) {
  const Session session(demo_model(), {});
  EXPECT_EQ(session.options().n_ctx, 512U);  // the model's training context
  EXPECT_EQ(session.options().n_batch, 512U);
  EXPECT_GE(session.options().threads, 1U);
  EXPECT_EQ(session.options().threads_prefill, session.options().threads);
  EXPECT_EQ(session.options().kernels, active_kernels());
}

// A page of keys and values is 256 KiB here, one of the system at most 2 MiB.
TEST(Memory, AFewPositionsTouchLittleOfALongContext) {
  EngineOptions options;
  options.n_ctx = 1 << 14;
  Engine engine(demo_model(), options);
  Sequence sequence(engine);
  Batch batch(engine);
  batch.add(sequence, many_tokens(70), 0);
  batch.forward();
  const std::span<std::byte> memory = engine.state().pool.memory();
  ASSERT_EQ(memory.size(), std::size_t{64} << 20);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(memory.size() / page);
  ASSERT_EQ(::mincore(memory.data(), memory.size(), resident.data()), 0);
  const auto touched =
      static_cast<std::size_t>(std::ranges::count_if(resident, [](auto r) { return (r & 1) != 0; }));
  EXPECT_GE(touched * page, std::size_t{256} << 10);
  EXPECT_LE(touched * page, std::size_t{6} << 20);
}

TEST(Memory, SystemSaysWhatIsAvailable) {
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
  EXPECT_LT(available_memory(), std::size_t{1} << 50);
}

}  // namespace
}  // namespace cria::test
