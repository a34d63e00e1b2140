#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "model/gguf/rewrite.h"
#include "model/gguf/writer.h"
#include "tests/model/bytes.h"

namespace cria::test {
namespace {

/// Three shards, "m-00001-of-00003.gguf" and so on, one tensor in each; what they say can be
/// changed before they are written.
class Split : public testing::Test {
 protected:
  struct Shard {
    std::uint16_t number, count;
    std::int32_t total;  ///< 0: not said
    std::string tensor;
  };
  std::vector<Shard> shards_ = {{0, 3, 3, "a"}, {1, 3, 3, "b"}, {2, 3, 3, "c"}};

  [[nodiscard]] std::string path(std::size_t i) const {
    return directory_.file("m-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  }

  void write() {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      GgufWriter writer(path(i));
      if (i == 0) writer.set("general.name", std::string("split"));
      writer.set("split.no", shards_[i].number);
      writer.set("split.count", shards_[i].count);
      if (shards_[i].total != 0) writer.set("split.tensors.count", shards_[i].total);
      writer.declare(shards_[i].tensor, DType::F32, {1});
      writer.begin();
      writer.write(std::as_bytes(std::span(&kValues[i], 1)));
      writer.finish();
    }
  }

  std::string open_error() {
    write();
    return error_of([&] { GgufFile::open(path(0)); });
  }

  static constexpr float kValues[] = {1, 2, 3};
  TemporaryDirectory directory_;
};

TEST_F(Split, OpensAllShards) {
  write();
  const GgufFile file = GgufFile::open(path(0));
  EXPECT_EQ(file.shard_count(), 3U);
  EXPECT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.get_string("general.name"), "split");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const TensorView* const tensor = file.tensor(shards_[i].tensor);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shard, i);
    EXPECT_EQ(std::memcmp(tensor->data, &kValues[i], sizeof(float)), 0);
    bytes += std::filesystem::file_size(path(i));
  }
  EXPECT_EQ(file.file_bytes(), bytes);
}

TEST_F(Split, RefusesALaterShard) {
  write();
  const std::string text = error_of([&] { GgufFile::open(path(1)); });
  EXPECT_NE(text.find("expected the first one (-00001-of-00003.gguf), got shard 2 of 3"),
            std::string::npos)
      << text;
}

TEST_F(Split, RefusesAMissingShard) {
  write();
  std::filesystem::remove(path(2));
  EXPECT_EQ(error_of([&] { GgufFile::open(path(0)); }),
            path(2) + ": cannot open: No such file or directory");
}

TEST_F(Split, RefusesAnotherName) {
  write();
  std::filesystem::copy_file(path(0), directory_.file("renamed.gguf"));
  EXPECT_NE(error_of([&] {
              GgufFile::open(directory_.file("renamed.gguf"));
            }).find("-00001-of-00003.gguf"),
            std::string::npos);
}

TEST_F(Split, RefusesAnotherCount) {
  shards_[1].count = 4;
  EXPECT_NE(open_error().find("shards disagree on their count: expected 3, got 4"),
            std::string::npos);
}

TEST_F(Split, RefusesAnotherNumber) {
  shards_[1].number = 2;
  EXPECT_NE(open_error().find("wrong shard under this name: expected number 1, got 2"),
            std::string::npos);
}

TEST_F(Split, RefusesAnotherTotal) {
  for (Shard& shard : shards_) shard.total = 4;
  EXPECT_NE(open_error().find("wrong number of tensors in all shards: expected 4, got 3"),
            std::string::npos);
}

TEST_F(Split, TheTotalMayBeMissing) {
  for (const std::size_t i : {1, 0}) {
    shards_[i].total = 0;
    EXPECT_EQ(open_error(), "") << "shard " << i;
  }
}

TEST_F(Split, RefusesAShardOfAnotherModel) {
  shards_[2].total = 5;
  EXPECT_NE(open_error().find("shard of another model"), std::string::npos);
}

TEST_F(Split, RefusesATensorTwice) {
  shards_[2].tensor = "a";
  EXPECT_EQ(open_error(), path(2) + ": duplicate tensor (tensor a)");
}

// The last bytes of a file are written when it is finished; where the second one cannot be, the
// first is not there either.
TEST(Shards, AllOrNone) {
  const TemporaryDirectory directory;
  const std::vector<std::byte> data(200'000);
  {
    GgufWriter writer(directory.file("whole.gguf"));
    writer.declare("small", DType::F32, {1000});
    writer.declare("large", DType::F32, {50'000});
    writer.begin();
    writer.write(std::span(data).first(4000));
    writer.write(data);
    writer.finish();
  }
  const GgufFile file = GgufFile::open(directory.file("whole.gguf"));
  const std::vector<Shard> shards = plan_shards(file, directory.file("m"), {.tensors = 1});
  ASSERT_EQ(shards.size(), 2U);
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(directory.file("")), {});
  };
  struct rlimit usual = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &usual), 0);
  const struct rlimit little = {100'000, usual.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);
  const std::string text = error_of([&] { write_shards(file, shards); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &usual), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(text, shards[1].path + ": cannot write: File too large");
  EXPECT_EQ(files(), 1);
  EXPECT_TRUE(write_shards(file, shards));
  EXPECT_EQ(files(), 3);
}

}  // namespace
}  // namespace cria::test
