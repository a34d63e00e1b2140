// Sessions saved and loaded.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/architectures/tiny_architecture.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class SessionFile : public testing::Test {
 protected:
  SessionFile()
      : directory(fs::temp_directory_path() / ("cria-session-test-" + std::to_string(getpid()))) {
    fs::create_directories(directory);
  }
  ~SessionFile() override { fs::remove_all(directory); }

  [[nodiscard]] std::string read() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path, std::ios::binary) << bytes; }

  const fs::path directory;
  const std::string path = (directory / "talk.session").string();
};

TEST_F(SessionFile, ContinuesWithTheSameBytes) {
  const std::vector<TokenId> tokens = many_tokens(100);
  const TokenId next = 300;
  for (const KvType kv : {KvType::F16, KvType::F32, KvType::Q8_0}) {
    SessionOptions options;
    options.kv_type = kv;
    Session first(demo_model(), options);
    first.eval(tokens);
    first.save(path);
    const std::vector<float> want = copy(first.eval({&next, 1}));
    options.n_ctx = 128;  // another context length than it was saved with
    Session second(demo_model(), options);
    second.eval(many_tokens(17));
    second.load(path);
    EXPECT_EQ(std::vector<TokenId>(second.tokens().begin(), second.tokens().end()), tokens);
    EXPECT_TRUE(same_bytes(copy(second.eval({&next, 1})), want));
  }
}

TEST_F(SessionFile, DependsOnItsTokensOnly) {
  for (const KvType kv : {KvType::F16, KvType::F32, KvType::Q8_0}) {
    SessionOptions options;
    options.kv_type = kv;
    Session session(demo_model(), options);
    session.eval(many_tokens(100));
    session.save(path);
    const std::string want = read();
    Session longer(demo_model(), options);
    longer.eval(many_tokens(120));
    longer.truncate(100);
    longer.save(path);
    EXPECT_EQ(read() == want, true);
  }
}

TEST_F(SessionFile, LeavesNoTemporaryFile) {
  Session session(demo_model(), {});
  session.save(path);
  session.eval(many_tokens(5));
  session.save(path);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
  EXPECT_NE(error_of([&] {
              session.save((directory / "none" / "x").string());
            }).find("cannot write: No such file"),
            std::string::npos);
}

TEST_F(SessionFile, DoesNotReplaceTheModel) {
  const std::string model = (directory / "model.gguf").string(),
                    link = (directory / "link").string();
  fs::copy_file(demo_model().file().path(), model);
  fs::create_symlink(model, link);
  const auto loaded = Model::load(model);
  const Session session(*loaded, {.n_ctx = 64});
  for (const std::string& target : {model, link})
    EXPECT_EQ(error_of([&] { session.save(target); }),
              target + ": cannot write: it is the input itself (" + model + ")");
  EXPECT_EQ(fs::file_size(model), fs::file_size(demo_model().file().path()));
}

TEST_F(SessionFile, RefusesForeignAndDamagedFiles) {
  Session session(demo_model(), {});
  session.eval(many_tokens(70));
  session.save(path);
  const std::string good = read();
  const auto error = [&](const std::string& bytes) {
    write(bytes);
    return error_of([&] { session.load(path); });
  };
  const auto changed = [&](std::size_t at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  EXPECT_NE(error("").find("too short"), std::string::npos);
  EXPECT_NE(error("GGUF and so on, long enough for a header")
                .find("not a session file of cria (at byte 0)"),
            std::string::npos);
  EXPECT_NE(error(changed(8)).find("another version of cria: version: expected 4, got 5"),
            std::string::npos);
  EXPECT_NE(error(changed(12)).find("KV type"), std::string::npos);
  EXPECT_NE(error(changed(16)).find("another model"), std::string::npos);
  EXPECT_NE(error(changed(24)).find("wrong size"), std::string::npos);
  EXPECT_NE(error(changed(31)).find("does not fit"), std::string::npos);
  EXPECT_NE(error(good.substr(0, good.size() - 1)).find("wrong size"), std::string::npos);
  EXPECT_NE(error(good + "x").find("wrong size"), std::string::npos);
  EXPECT_EQ(session.tokens().size(), 70U) << "a refused header must leave the session alone";
  for (const std::size_t at :
       {std::size_t{40}, std::size_t{4000}, good.size() - 100, good.size() - 1}) {
    EXPECT_NE(error(changed(at)).find("wrong checksum"), std::string::npos) << at;
    EXPECT_EQ(session.tokens().size(), 0U);
  }
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(session.tokens().size(), 70U);
  EXPECT_NE(error_of([&] { session.load(directory.string()); }), "");
  EXPECT_NE(error_of([&] { session.load(path + ".none"); }).find("cannot open"), std::string::npos);
}

// Pages before the window are missing, and the tokens of a damaged file would need them.
TEST_F(SessionFile, DamagedWindowFilesLeaveTheSessionUsable) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  const SessionOptions options = {.n_ctx = 600, .n_batch = 64};
  const std::vector<TokenId> tokens(400, 5);
  Session session(*model, options);
  session.eval(tokens);
  session.save(path);
  std::string bytes = read();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write(bytes);
  EXPECT_NE(error_of([&] { session.load(path); }).find("wrong checksum"), std::string::npos);
  Session fresh(*model, options);
  for (const std::size_t n : {std::size_t{70}, tokens.size() - 70}) {
    const std::span<const TokenId> some = std::span(tokens).first(n);
    EXPECT_TRUE(same_bytes(copy(session.eval(some)), copy(fresh.eval(some))));
  }
}

// The pages that a session holds before a window depend on its context and batch size. The file's
// content does not.
TEST_F(SessionFile, OfAWindowFitsAnyContextAndBatch) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  const std::vector<TokenId> tokens(200, 5);
  const TokenId next = 7;
  const std::vector<SessionOptions> all = {{.n_ctx = 256, .n_batch = 256, .threads = 1},
                                           {.n_ctx = 2000, .n_batch = 64, .threads = 1},
                                           {.n_ctx = 2000, .n_batch = 2000, .threads = 1}};
  std::size_t size = 0;
  for (const SessionOptions& from : all) {
    Session saved(*model, from);
    saved.eval(tokens);
    saved.save(path);
    if (size == 0) size = read().size();
    EXPECT_EQ(read().size(), size);
    const std::vector<float> want = copy(saved.eval({&next, 1}));
    for (const SessionOptions& to : all) {
      Session session(*model, to);
      session.load(path);
      EXPECT_TRUE(same_bytes(copy(session.eval({&next, 1})), want))
          << from.n_ctx << " to " << to.n_ctx;
    }
  }
}

// Positions that a file omits are missing after loading, although the pool has pages for them.
TEST_F(SessionFile, OmitsPositionsBeforeTheWindow) {
  const auto model =
      TinyArchitecture({"w", "cohere2", {{"attention.sliding_window", 8U}}, {}, 0}).load();
  for (const std::uint32_t n_ctx : {256U, 2000U}) {
    const SessionOptions options = {.n_ctx = n_ctx, .n_batch = 256, .threads = 1};
    const std::vector<TokenId> tokens(200, 5);
    Session session(*model, options);
    session.eval(tokens);
    session.save(path);
    Session loaded(*model, options);
    loaded.load(path);
    EXPECT_EQ(loaded.truncate(100), 0U);
    session.truncate(0);
    EXPECT_TRUE(same_bytes(copy(loaded.eval(tokens)), copy(session.eval(tokens))));
    loaded.load(path);
    EXPECT_EQ(loaded.truncate(199), 199U) << "its window is there";
  }
}

TEST_F(SessionFile, KeepsItsNote) {
  Session session(demo_model(), {});
  session.eval(many_tokens(5));
  const std::string note("what\0was said\n", 14);
  session.save(path, note);
  EXPECT_EQ(session.load(path), note);
  EXPECT_EQ(session.tokens().size(), 5U);
  std::string bytes = read();
  bytes[38] = 1;  // a note longer than any
  write(bytes);
  EXPECT_NE(error_of([&] { session.load(path); }).find("(at byte 32)"), std::string::npos);
  EXPECT_EQ(session.tokens().size(), 5U);
}

TEST_F(SessionFile, RefusesAnotherContextOrKvType) {
  Session session(demo_model(), {});
  session.eval(many_tokens(70));
  session.save(path);
  SessionOptions options;
  options.n_ctx = 69;
  Session small(demo_model(), options);
  EXPECT_NE(error_of([&] { small.load(path); }).find("expected at most 69 tokens, got 70"),
            std::string::npos);
  options.n_ctx = 100;
  options.kv_type = KvType::F32;
  Session other(demo_model(), options);
  EXPECT_NE(error_of([&] { other.load(path); }).find("another KV type"), std::string::npos);
  options.kv_type = KvType::Q8_0;
  Session q8(demo_model(), options);
  EXPECT_NE(error_of([&] { q8.load(path); }).find("another KV type"), std::string::npos);
  q8.save(path);
  EXPECT_NE(error_of([&] { other.load(path); }).find("another KV type"), std::string::npos);
}

// Keys that were rotated by other factors look like any: the header tells them apart.
TEST_F(SessionFile, RefusesOtherRopeFactors) {
  const auto load_error = [&](const Model& model, const SessionOptions& options) {
    return error_of([&] { Session(model, options).load(path); });
  };
  const ArchitectureCase two_tables{
      "phi3",
      "phi3",
      {{"attention.sliding_window", 64U}, {"rope.scaling.original_context_length", 32U}},
      {{"rope_factors_long.weight", {8}}},
      0};
  const auto longrope = TinyArchitecture(two_tables).load();
  Session beyond(*longrope, {.n_ctx = 20, .rope_ctx = 64});
  beyond.eval(std::vector<TokenId>{1, 5, 7});
  beyond.save(path);
  EXPECT_EQ(load_error(*longrope, {.n_ctx = 20, .rope_ctx = 33}), "") << "the same table";
  EXPECT_EQ(load_error(*longrope, {.n_ctx = 40}), "");
  EXPECT_NE(load_error(*longrope, {.n_ctx = 32}).find("other RoPE factors"), std::string::npos);

  TinyModel tiny;
  tiny.keys = {{"llama.rope.scaling.type", std::string("yarn")},
               {"llama.rope.scaling.factor", 4.0F},
               {"llama.rope.scaling.original_context_length", 64U}};
  const auto yarn = tiny.load();
  Session session(*yarn, {.n_ctx = 20});
  session.eval(std::vector<TokenId>{1, 5, 7});
  session.save(path);
  EXPECT_EQ(load_error(*yarn, {.n_ctx = 99}), "");
  for (const std::string key :
       {"attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_log_multiplier"}) {
    TinyModel other = tiny;
    other.keys.emplace_back("llama.rope.scaling." + key, 0.75F);
    EXPECT_NE(load_error(*other.load(), {.n_ctx = 20}).find("other RoPE factors"),
              std::string::npos)
        << key;
  }
}

// The bits are the same for all kernels, whatever forms they want values in.
TEST_F(SessionFile, MovesBetweenInstructionSets) {
  for (const KernelSet* const kernels : available_kernels()) {
    Session first(demo_model(), {.n_ctx = 64, .kernels = kernels});
    first.eval(many_tokens(20));
    first.save(path);
    Session second(demo_model(), {.n_ctx = 64, .kernels = available_kernels().back()});
    second.load(path);
    const TokenId next = 300;
    EXPECT_TRUE(same_bytes(copy(second.eval({&next, 1})), copy(first.eval({&next, 1}))))
        << kernels->isa;
  }
}

}  // namespace
}  // namespace cria::test
