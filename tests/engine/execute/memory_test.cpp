// Memory needs of a session, computed in advance.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "engine/execute/machine.h"
#include "engine/session/engine_state.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Memory, IsWhatTheSessionTakes) {
  for (const std::uint32_t n_ctx : {1U, 100U, 5000U}) {
    SessionOptions options;
    options.n_ctx = n_ctx;
    const EngineMemory memory = session_memory(demo_model(), options);
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
  const EngineMemory memory = session_memory(demo_model(), options);
  EXPECT_LE(memory.work, std::size_t{64} << 20);
  EXPECT_GT(memory.n_batch, 512U);
}

TEST(Memory, OneByteTooFewIsRefused) {
  EngineOptions options;
  options.n_ctx = 512;
  EnginePlan plan = EnginePlan::of(demo_model(), options);
  plan.memory.available = plan.memory.total();
  EXPECT_NO_THROW(plan.check(demo_model()));
  --plan.memory.available;
  const std::string error = error_of([&] { plan.check(demo_model()); });
  EXPECT_NE(error.find("not enough memory: expected "), std::string::npos) << error;
  EXPECT_NE(error.find("KV cache of 512 positions 2 MiB"), std::string::npos) << error;
}

// A model read into memory has already reduced the available memory, so it is not counted again.
TEST(Memory, CountsAPinnedFileOnce) {
  const auto copied = Model::load(demo_model().file().path(), {.mmap = false});
  EXPECT_TRUE(copied->pinned());
  EXPECT_FALSE(demo_model().pinned());
  EnginePlan plan = EnginePlan::of(*copied, {});
  plan.memory.available = plan.memory.kv + plan.memory.work;
  EXPECT_NO_THROW(plan.check(*copied));
  EXPECT_THROW(plan.check(demo_model()), Error);
}

#ifndef CRIA_TEST_SANITIZED  // where mlock() does nothing, and succeeds
/// Prevents this thread from locking memory during its lifetime, also if root runs the tests.
class NoLocking {
 public:
  NoLocking() {
    getrlimit(RLIMIT_MEMLOCK, &limit_);
    const rlimit none = {0, limit_.rlim_max};
    setrlimit(RLIMIT_MEMLOCK, &none);
    syscall(SYS_capget, &header_, before_);
    __user_cap_data_struct without[2] = {before_[0], before_[1]};
    without[0].effective &= ~(1U << CAP_IPC_LOCK);
    syscall(SYS_capset, &header_, without);
  }
  ~NoLocking() {
    syscall(SYS_capset, &header_, before_);
    setrlimit(RLIMIT_MEMLOCK, &limit_);
  }
  NoLocking(const NoLocking&) = delete;
  NoLocking& operator=(const NoLocking&) = delete;

 private:
  rlimit limit_ = {};
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

// --mlock: what the system does not lock, it can take back.
TEST(Memory, AFileIsPinnedOnlyWhereTheSystemLocksIt) {
  const LoadOptions options{.mlock = true};
  const auto wanted = Model::load(demo_model().file().path(), options);
  EXPECT_EQ(wanted->pinned(), wanted->file().warnings().empty())
      << "as the limit of this machine is";
  const NoLocking limit;
  const auto refused = Model::load(demo_model().file().path(), options);
  EXPECT_FALSE(refused->pinned());
  ASSERT_EQ(refused->file().warnings().size(), 1U);
  EXPECT_EQ(refused->file().warnings()[0].find("cannot lock the model in memory: "), 0U)
      << refused->file().warnings()[0];
}
#endif

// 64 TiB of keys and values.
TEST(Memory, MoreThanAnyMachineHasIsRefused) {
  TinyModel tiny;
  tiny.n_layers = 1;
  tiny.n_heads = 64;
  tiny.n_kv_heads = {64};
  tiny.head_dim = 512;
  tiny.dtype = DType::Q8_0;
  const auto model = tiny.load();
  EngineOptions options;
  options.n_ctx = 1 << 24;
  options.sequences = 16;
  options.kv_type = KvType::F32;
  EXPECT_EQ(engine_memory(*model, options).kv, std::size_t{64} << 40);
  const std::string error = error_of([&] { Engine(*model, options); });
  EXPECT_NE(error.find("KV cache of 268435456 positions 67108864 MiB"), std::string::npos) << error;
}

TEST(Memory, NumbersBeyondTheLimitsAreRefused) {
  SessionOptions options;
  options.n_ctx = (1 << 24) + 1;
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("context too long"),
            std::string::npos);
  options.n_ctx = 64;
  options.threads = 5000;
  EXPECT_NE(error_of([&] { Session(demo_model(), options); }).find("too many threads"),
            std::string::npos);
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
  const std::span<std::byte> memory = StateAccess::of(engine).pool.memory();
  ASSERT_EQ(memory.size(), std::size_t{64} << 20);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(memory.size() / page);
  ASSERT_EQ(::mincore(memory.data(), memory.size(), resident.data()), 0);
  const auto touched = static_cast<std::size_t>(
      std::ranges::count_if(resident, [](auto r) { return (r & 1) != 0; }));
  EXPECT_GE(touched * page, std::size_t{256} << 10);
  EXPECT_LE(touched * page, std::size_t{6} << 20);
}

TEST(Memory, ReadsTheAvailableMemory) {
  EXPECT_GT(available_memory(), std::size_t{1} << 20);
  EXPECT_LT(available_memory(), std::size_t{1} << 50);
}

}  // namespace
}  // namespace cria::test
