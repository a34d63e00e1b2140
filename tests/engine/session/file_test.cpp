// Sessions saved and loaded.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/demo.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class SessionFile : public testing::Test {
 protected:
  SessionFile() : directory(fs::temp_directory_path() / ("cria-session-test-" + std::to_string(getpid()))) {
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

TEST_F(SessionFile, LeavesNothingBesideTheFile) {
  Session session(demo_model(), {});
  session.save(path);
  session.eval(many_tokens(5));
  session.save(path);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
  EXPECT_NE(
      error_of([&] { session.save((directory / "none" / "x").string()); }).find("cannot write: No such file"),
      std::string::npos);
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
  EXPECT_NE(error("GGUF and so on, long enough for a header").find("not a session file of cria (at byte 0)"),
            std::string::npos);
  EXPECT_NE(error(changed(8)).find("version: expected 2, got 3"), std::string::npos);
  EXPECT_NE(error(changed(12)).find("KV type"), std::string::npos);
  EXPECT_NE(error(changed(16)).find("another model"), std::string::npos);
  EXPECT_NE(error(changed(24)).find("wrong size"), std::string::npos);
  EXPECT_NE(error(changed(31)).find("does not fit"), std::string::npos);
  EXPECT_NE(error(good.substr(0, good.size() - 1)).find("wrong size"), std::string::npos);
  EXPECT_NE(error(good + "x").find("wrong size"), std::string::npos);
  EXPECT_EQ(session.tokens().size(), 70U) << "a refused header must leave the session alone";
  for (const std::size_t at : {std::size_t{40}, std::size_t{4000}, good.size() - 100, good.size() - 1}) {
    EXPECT_NE(error(changed(at)).find("wrong checksum"), std::string::npos) << at;
    EXPECT_EQ(session.tokens().size(), 0U);
  }
  EXPECT_EQ(error(good), "");
  EXPECT_EQ(session.tokens().size(), 70U);
  EXPECT_NE(error_of([&] { session.load(directory.string()); }), "");
  EXPECT_NE(error_of([&] { session.load(path + ".none"); }).find("cannot open"), std::string::npos);
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
  std::string bytes = read();
  EXPECT_EQ(bytes[8], 3);
  bytes[8] = 2;  // from before the layout of Q8_0 changed
  write(bytes);
  EXPECT_NE(error_of([&] { q8.load(path); }).find("version: expected 3, got 2"), std::string::npos);
}

}  // namespace
}  // namespace cria::test
