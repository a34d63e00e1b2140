#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/quantize/importance.h"
#include "model/file/json.h"
#include "model/gguf/gguf.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

// The bundled model under other names stands for its quantizations.
class Sweep : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"base.gguf", "same.gguf"})
      fs::create_symlink(kDemo, directory_.path(name));
    std::string text;
    for (int i = 1; i < 60; ++i)
      text += " In " + std::to_string(1700 + i) + " , the river rose by a metre .";
    text_ = directory_.write("text & more", text);
  }
  std::vector<std::string> arguments(const std::vector<std::string>& files) const {
    std::vector<std::string> all = {"sweep",    "-m",  directory_.path("base.gguf"),
                                    "-f",       text_, "-o",
                                    out_,       "-c",  "64",
                                    "--chunks", "4",   "-p",
                                    "16",       "-n",  "4",
                                    "-r",       "2",   "--json"};
    all.insert(all.end(), files.begin(), files.end());
    return all;
  }

  TempDirectory directory_;
  std::string text_, out_ = directory_.path("out");
};

TEST_F(Sweep, MeasuresEveryFileDespiteABadOne) {
  const std::string bad = directory_.write("bad.gguf", "no model");
  const Result result = cria(arguments({bad, directory_.path("same.gguf")}));
  EXPECT_EQ(result.code, 1) << "one has failed";
  EXPECT_NE(result.err.find("cria: error: " + bad), std::string::npos) << result.err;
  const SortedJson object = SortedJson::parse(result.out);
  ASSERT_EQ(object["rows"].size(), 3U);
  const SortedJson &base = object["rows"][0], &failed = object["rows"][1],
                   &same = object["rows"][2];
  EXPECT_EQ(base["name"], "base");
  EXPECT_EQ(base["dtype"], "Q8_0");
  EXPECT_NEAR(base["bits_per_weight"], 8.5, 0.1);
  EXPECT_NE(failed["error"], "");
  EXPECT_EQ(same["ppl"], base["ppl"]);
  EXPECT_NEAR(same["ppl_ratio"], 1, 1e-4);
  EXPECT_NEAR(same["kld"], 0, 1e-6);
  EXPECT_EQ(same["same_top"], 1);
  EXPECT_GT(same["pp"], 0);
  EXPECT_GT(same["tg"], 0);
  EXPECT_NE(object["advice"].get<std::string>().find("Recommended here: "), std::string::npos);

  EXPECT_EQ(SortedJson::parse(read_file(out_ + "/sweep.json")), object);
  const std::string csv = read_file(out_ + "/sweep.csv");
  EXPECT_EQ(csv.find("name,dtype,file_bytes,"), 0U) << csv;
  EXPECT_EQ(count_lines(csv), 4U) << csv;
  EXPECT_NE(read_file(out_ + "/sweep.md").find("\n| same | "), std::string::npos);
  for (const char* plot : {"/perplexity.svg", "/speed.svg"}) {
    const std::string svg = read_file(out_ + plot);
    EXPECT_EQ(svg.find("<svg "), 0U);
    EXPECT_NE(svg.find(">same</text>"), std::string::npos) << svg;
    EXPECT_EQ(svg.find(">bad</text>"), std::string::npos) << svg;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  }
  EXPECT_NE(read_file(out_ + "/perplexity.svg").find("text &amp; more"), std::string::npos);
  EXPECT_NE(read_file(out_ + "/perplexity.svg").find("base: perplexity against size"),
            std::string::npos);
  EXPECT_NE(
      read_file(out_ + "/sweep.md")
          .find(
              "| mix | MiB | bits/weight | perplexity | change, % | KL divergence | same top, % | "
              "prompt, tokens/s | decode, tokens/s |"),
      std::string::npos)
      << "as the README's";
  EXPECT_FALSE(fs::exists(out_ + "/base.logits")) << "large, and of no use any more";
}

TEST_F(Sweep, MeasuresNothingTwice) {
  const Result first = cria(arguments({directory_.path("same.gguf")}));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(count_lines(first.err), 2U) << first.err;
  const Result second = cria(arguments({directory_.path("same.gguf")}));
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(SortedJson::parse(second.out)["rows"], SortedJson::parse(first.out)["rows"]);
  std::vector<std::string> other = arguments({directory_.path("same.gguf")});
  other[10] = "3";  // windows
  EXPECT_EQ(count_lines(cria(other).err), 2U) << "what was measured otherwise is measured anew";
}

TEST_F(Sweep, MakesFilesOfGivenSizes) {
  std::vector<std::string> all = arguments({});
  for (const char* word : {"--sizes", "3.6MB,5MB", "--allow-requantize", "--calibrate", "self",
                           "--calibrate-tokens", "1024"})
    all.emplace_back(word);
  const Result result = cria(all);
  ASSERT_EQ(result.code, 0) << result.err;
  const SortedJson rows = SortedJson::parse(result.out).at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1].at("name"), "base-3.6MB");
  EXPECT_LE(rows[1].at("file_bytes"), 3'600'000);
  EXPECT_LE(rows[2].at("file_bytes"), 5'000'000);
  EXPECT_LT(rows[2].at("kld"), rows[1].at("kld"));
  const std::string command = rows[1].at("command");
  EXPECT_NE(command.find(" base-3.6MB.gguf --size 3.6MB --calibrate self --calibrate-tokens 1024"),
            std::string::npos)
      << command;
}

TEST_F(Sweep, IgnoresAnotherSweepsFiles) {
  const std::vector<std::string> wanted = arguments({directory_.path("same.gguf")});
  ASSERT_EQ(cria(wanted).code, 0);
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--kv-type", "q8_0"},
                                                 {"--rope-freq-base", "20000"},
                                                 {"-b", "7"}}) {
    std::vector<std::string> other = wanted;
    other.insert(other.end(), option.begin(), option.end());
    const Result result = cria(other);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(count_lines(result.err), 2U) << option.front() << ": both models are measured";
  }

  // A stopped sweep leaves a state and the predictions of its reference model.
  const SortedJson rows = SortedJson::parse(cria(wanted).out).at("rows");
  fs::remove(out_ + "/same.row.json");
  ASSERT_EQ(cria({"perplexity", "-f", text_, "-c", "32", "--chunks", "2", "--base", kDemo,
                  "--state", out_ + "/same.state"})
                .code,
            0);
  ASSERT_EQ(cria({"perplexity", "-f", text_, "-c", "32", "--chunks", "9", "--save-logits",
                  out_ + "/base.logits"})
                .code,
            0);
  const Result again = cria(wanted);
  EXPECT_EQ(again.code, 0) << again.err;
  for (const char* figure : {"ppl", "ppl_ratio", "kld", "same_top"})
    EXPECT_EQ(SortedJson::parse(again.out).at("rows")[1].at(figure), rows[1].at(figure)) << figure;
}

TEST_F(Sweep, KilledAndStartedAgainGivesTheSameFigures) {
  std::vector<std::string> wanted = arguments({directory_.path("same.gguf")});
  wanted.at(8) = "16";  // many windows: time to kill it in the middle
  wanted.at(10) = "50";
  const SortedJson whole = SortedJson::parse(cria(wanted).out).at("rows");
  wanted.at(6) = directory_.path("killed");
  for (const char* last_sign : {"/base.row.json", "/same.state"}) {
    Child child(Child::Kind::Pipe, wanted);
    for (int i = 0; i < 30000 && !fs::exists(wanted.at(6) + last_sign); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    child.signal(SIGKILL);
    EXPECT_EQ(child.exit_code(), 128 + SIGKILL) << last_sign;
  }
  EXPECT_FALSE(fs::exists(wanted.at(6) + "/same.row.json"));
  const SortedJson rows = SortedJson::parse(cria(wanted).out).at("rows");
  ASSERT_EQ(rows.size(), whole.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& [key, value] : rows[i].items()) {
      const bool is_speed = key == "pp" || key == "pp_stderr" || key.starts_with("tg");
      if (is_speed) continue;
      EXPECT_EQ(value, whole[i].at(key)) << key;
    }
  }
}

TEST_F(Sweep, NamesAModelOnceWhereItIsStopped) {
  std::vector<std::string> wanted = arguments({directory_.path("same.gguf")});
  wanted.at(8) = "16";
  wanted.at(10) = "0";
  const std::string errors = directory_.path("errors");
  Child child(Child::Kind::Pipe, wanted, {}, errors);
  for (int i = 0; i < 30000 && !fs::exists(out_ + "/same.state"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child.signal(SIGINT);
  EXPECT_EQ(child.exit_code(), 130);
  EXPECT_NE(read_file(errors).find("\nsame: stopped after "), std::string::npos)
      << read_file(errors);
}

TEST_F(Sweep, MakesTheQuantizationsItself) {
  ASSERT_EQ(cria({"quantize", kDemo, directory_.path("f16.gguf"), "F16"}).code, 0);
  std::vector<std::string> wanted = arguments({"--types", "BF16,Q8_0"});
  wanted[2] = directory_.path("f16.gguf");
  const Result first = cria(wanted);
  ASSERT_EQ(first.code, 0) << first.err;
  const SortedJson rows = SortedJson::parse(first.out).at("rows");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1]["name"], "f16-BF16");
  EXPECT_EQ(rows[2]["dtype"], "Q8_0");
  EXPECT_LT(rows[2]["file_bytes"], rows[1]["file_bytes"]);
  for (const fs::directory_entry& entry : fs::directory_iterator(out_))
    EXPECT_NE(entry.path().extension(), ".gguf")
        << "removed when it was measured: " << entry.path();
  const Result second = cria(wanted);
  EXPECT_EQ(second.err, "") << "nothing is made or measured twice";
  EXPECT_EQ(SortedJson::parse(second.out).at("rows"), rows);

  // The bundled model is quantized already: that is said before anything is measured.
  const Result lossy = cria(arguments({"--types", "Q4_0"}));
  EXPECT_EQ(lossy.code, 1);
  EXPECT_EQ(lossy.out, "");
  EXPECT_NE(lossy.err.find("--allow-requantize"), std::string::npos) << lossy.err;
  EXPECT_FALSE(fs::exists(out_ + "/base.row.json"));
  const Result allowed = cria(arguments({"--types", "Q4_0,Q4_K,Q4_K_M", "--allow-requantize"}));
  EXPECT_EQ(allowed.code, 0) << allowed.err;
  EXPECT_EQ(SortedJson::parse(allowed.out).at("rows")[1]["dtype"], "Q4_0");
  EXPECT_EQ(SortedJson::parse(allowed.out).at("rows").size(), 3U) << "two names of one mix";
  EXPECT_EQ(cria(arguments({"--types", "Q9"})).code, 2);

  ImportanceMatrix foreign;
  foreign.entries["blk.0.other.weight"] = {{1.0}, {1.0}};
  foreign.write(directory_.path("foreign.gguf"));
  wanted.insert(wanted.end(), {"--imatrix", directory_.path("foreign.gguf")});
  const Result unfit = cria(wanted);
  EXPECT_EQ(unfit.code, 1);
  EXPECT_EQ(unfit.err.find("cria: error: " + directory_.path("foreign.gguf") +
                           ": this importance matrix belongs to a different model"),
            0U)
      << unfit.err;
}

// A file of the user may have the name of a file that the sweep would write. It is kept.
TEST_F(Sweep, KeepsExistingFiles) {
  ASSERT_EQ(cria({"quantize", kDemo, directory_.path("model.gguf"), "F16"}).code, 0);
  const std::string mine = directory_.write("model-Q8_0.gguf", "mine");
  std::vector<std::string> wanted = arguments({"--types", "Q8_0"});
  wanted[2] = directory_.path("model.gguf");
  wanted[6] = directory_.path();
  const Result result = cria(wanted);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(SortedJson::parse(result.out).at("rows")[1]["dtype"], "Q8_0");
  EXPECT_EQ(read_file(mine), "mine");

  // Files that are kept have the model's keys, not those given for measuring.
  wanted[6] = out_;
  wanted.insert(wanted.end(), {"--keep", "--rope-freq-base", "20000"});
  ASSERT_EQ(cria(wanted).code, 0);
  const GgufFile kept = GgufFile::open(out_ + "/model-Q8_0.gguf");
  EXPECT_EQ(kept.find("llama.rope.freq_base")->type, GgufType::F32);
  EXPECT_EQ(kept.get_float("llama.rope.freq_base"), 10000);
}

TEST_F(Sweep, PrintsATableAndKeepsFilesOnRequest) {
  std::vector<std::string> wanted = arguments({directory_.path("same.gguf"), "--keep"});
  wanted.erase(std::ranges::find(wanted, "--json"));
  const Result result = cria(wanted);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("\nmix "), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("|"), std::string::npos) << "Markdown is for the file: " << result.out;
  EXPECT_TRUE(fs::exists(out_ + "/base.logits"));
  // A model more, when the base's predictions are gone: they are made again, what is known is not.
  fs::remove(out_ + "/base.logits");
  fs::create_symlink(kDemo, directory_.path("other.gguf"));
  wanted.push_back(directory_.path("other.gguf"));
  const Result more = cria(wanted);
  EXPECT_EQ(more.code, 0);
  EXPECT_EQ(count_lines(more.err), 1U) << more.err;
}

TEST_F(Sweep, ReportsErrors) {
  EXPECT_EQ(cria({"sweep"}).code, 2);
  const Result twice = cria(arguments({directory_.path("base.gguf")}));
  EXPECT_EQ(twice.code, 1);
  EXPECT_NE(twice.err.find("has this name too"), std::string::npos) << twice.err;
}

}  // namespace
}  // namespace cria::test
