#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/gguf/gguf.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

class Imatrix : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 1; i < 80; ++i)
      text += " In " + std::to_string(1700 + i) + " , the river rose by a metre .";
    text_ = directory_.write("text", text);
  }
  Result imatrix(const std::vector<std::string>& more, const std::string& out) const {
    std::vector<std::string> all = {"imatrix", "-f", text_, "-c", "64", "-o", directory_.path(out)};
    all.insert(all.end(), more.begin(), more.end());
    return cria(all);
  }

  TempDirectory directory_;
  std::string text_;
};

TEST_F(Imatrix, WritesBothFormsAndQuantizeReadsThem) {
  const Result gguf = imatrix({"--json"}, "m.gguf");
  ASSERT_EQ(gguf.code, 0) << gguf.err;
  const SortedJson object = SortedJson::parse(gguf.out);
  EXPECT_EQ(object.at("entries"), 57);
  EXPECT_EQ(object.at("chunk_size"), 64);
  EXPECT_GT(object.at("chunks"), 10);
  const Result dat = imatrix({}, "m.dat");
  ASSERT_EQ(dat.code, 0) << dat.err;
  EXPECT_NE(dat.out.find("importance of 57 tensors"), std::string::npos) << dat.out;
  const std::string f16 = directory_.path("f16.gguf");
  ASSERT_EQ(cria({"quantize", kDemo, f16, "F16"}).code, 0);
  for (const char* name : {"m.gguf", "m.dat"}) {
    const Result result = cria({"quantize", f16, directory_.path("q4.gguf"), "Q4_0", "--pure",
                                "--imatrix", directory_.path(name)});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(GgufFile::open(directory_.path("q4.gguf")).get_string("quantize.imatrix.file"), name);
  }
}

TEST_F(Imatrix, MergesAndConverts) {
  ASSERT_EQ(imatrix({"--chunks", "4"}, "a.gguf").code, 0);
  ASSERT_EQ(imatrix({"--chunks", "2"}, "b.dat").code, 0);
  const Result merged =
      cria({"imatrix", "--merge", directory_.path("a.gguf"), directory_.path("b.dat"), "-o",
            directory_.path("both.gguf"), "--json"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(SortedJson::parse(merged.out).at("chunks"), 6);
  const Result more =
      imatrix({"--chunks", "3", "--merge", directory_.path("a.gguf"), "--json"}, "more.gguf");
  ASSERT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(SortedJson::parse(more.out).at("chunks"), 7);
}

TEST_F(Imatrix, ResumesToTheSameBytes) {
  const std::string state = directory_.path("state");
  ASSERT_EQ(imatrix({"--state", state, "--chunks", "5"}, "part.gguf").code, 0);
  ASSERT_EQ(imatrix({"--state", state}, "resumed.gguf").code, 0);
  ASSERT_EQ(imatrix({"-t", "1", "-b", "16"}, "whole.gguf").code, 0);
  EXPECT_EQ(read_file(directory_.path("resumed.gguf")), read_file(directory_.path("whole.gguf")));
}

TEST_F(Imatrix, ReportsErrors) {
  EXPECT_EQ(cria({"imatrix", "-o", directory_.path("m")}).code, 2);
  EXPECT_EQ(cria({"imatrix", "-f", text_}).code, 2);
  const Result foreign = cria({"imatrix", "--merge", text_, "-o", directory_.path("m")});
  EXPECT_EQ(foreign.code, 1);
  EXPECT_EQ(foreign.err.find("cria: error: " + text_ + ": "), 0U) << foreign.err;
  // Before anything is evaluated: even the text is too short.
  const std::string brief = directory_.write("brief", "A few words.");
  for (const std::vector<std::string>& unwritable :
       {std::vector<std::string>{"-o", directory_.path("none/m.gguf")},
        {"-o", directory_.path("m.gguf"), "--state", directory_.path("none/state")}}) {
    std::vector<std::string> all = {"imatrix", "-f", brief};
    all.insert(all.end(), unwritable.begin(), unwritable.end());
    EXPECT_EQ(cria(all).err,
              "cria: error: " + unwritable.back() + ": cannot write: No such file or directory\n");
  }
}

// A matrix is a GGUF file as the model is: easily confounded.
TEST_F(Imatrix, KeepsItsInputFiles) {
  const std::string model = directory_.write("model.gguf", read_file(kDemo));
  const auto refused = [](const Result& result, const std::string& file) {
    EXPECT_EQ(result.code, 1);
    EXPECT_EQ(result.err,
              "cria: error: " + file + ": cannot write: it is the input itself (" + file + ")\n");
  };
  refused(cria({"imatrix", "-m", model, "-f", text_, "-c", "64", "-o", model}), model);
  refused(imatrix({}, "text"), text_);
  refused(cria({"perplexity", "-m", model, "-f", text_, "-c", "64", "--save-logits", model}),
          model);
  refused(cria({"perplexity", "-f", text_, "-c", "64", "--save-logits", text_}), text_);
  const std::string both = directory_.path("both.gguf");
  EXPECT_EQ(imatrix({"--chunks", "1", "--state", directory_.path("./both.gguf")}, "both.gguf").err,
            "cria: error: " + both +
                ": cannot be both the importance matrix and --state: another name is needed\n");
  EXPECT_FALSE(std::filesystem::exists(both));
  ASSERT_EQ(imatrix({"--chunks", "1"}, "m.gguf").code, 0);
  const std::string matrix = directory_.path("m.gguf");
  refused(cria({"quantize", model, matrix, "Q8_0", "--imatrix", matrix}), matrix);
  EXPECT_EQ(read_file(model), read_file(kDemo));
}

}  // namespace
}  // namespace cria::test
