#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/gguf/gguf.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class Edit : public testing::Test {
 protected:
  Result edit(std::vector<std::string> arguments, const std::string& input = kDemo) {
    arguments.insert(arguments.begin(), {"edit", input, out_});
    return cria(std::move(arguments));
  }
  SortedJson metadata() {
    return SortedJson::parse(cria({"inspect", out_, "--json", "--kv"}).out).at("metadata");
  }

  TempDirectory directory_;
  std::string out_ = directory_.path("out.gguf");
};

TEST_F(Edit, SetsReplacesAndRemovesKeysAndLeavesTheRest) {
  const Result result = edit({"--set", "general.name=string:a = b: c", "--set", "new.key=u32:7",
                              "--remove", "general.license", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(SortedJson::parse(result.out), SortedJson({{"file", out_},
                                                       {"set", 2},
                                                       {"removed", 1},
                                                       {"tensors", 74},
                                                       {"bytes", fs::file_size(out_)}}));
  const GgufFile before = GgufFile::open(kDemo), after = GgufFile::open(out_);
  EXPECT_EQ(after.find_string("general.name"), "a = b: c");
  EXPECT_EQ(after.find_uint("new.key"), 7U);
  EXPECT_EQ(after.find("new.key")->type, GgufType::U32);
  EXPECT_EQ(after.find("general.license"), nullptr);
  EXPECT_EQ(after.keys().size(), before.keys().size());  // one more, one less
  EXPECT_EQ(after.keys().back().key, "new.key");
  for (const GgufKey& key : before.keys()) {
    if (key.key == "general.name" || key.key == "general.license") continue;
    const GgufValue* const value = after.find(key.key);
    ASSERT_NE(value, nullptr) << key.key;
    EXPECT_EQ(value->type, key.value.type) << key.key;
    ASSERT_EQ(value->bytes, key.value.bytes) << key.key;
    EXPECT_EQ(std::memcmp(value->data, key.value.data, value->bytes), 0) << key.key;
  }
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  for (std::size_t i = 0; i < before.tensors().size(); ++i) {
    const TensorView &a = before.tensors()[i], &b = after.tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.dtype, b.dtype);
    EXPECT_EQ(a.shape, b.shape);
    ASSERT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes), 0) << a.name;
  }
}

TEST_F(Edit, SettingAKeyBackGivesTheFirstFileBack) {
  const std::string name(*GgufFile::open(kDemo).find_string("general.name"));
  ASSERT_EQ(edit({"--set", "general.name=string:another"}).code, 0);
  const std::string back = directory_.path("back.gguf"), same = directory_.path("same.gguf");
  ASSERT_EQ(cria({"edit", out_, back, "--set", "general.name=string:" + name}).code, 0);
  ASSERT_EQ(cria({"edit", kDemo, same, "--set", "general.name=string:" + name}).code, 0);
  EXPECT_NE(read_file(out_), read_file(back));
  EXPECT_EQ(read_file(back), read_file(same));
  EXPECT_EQ(cria({"inspect", kDemo, "--diff", back}).code, 0);
}

TEST_F(Edit, SetsEveryTypeAtItsLimits) {
  struct Case {
    std::string value;
    SortedJson read;
  };
  const std::vector<Case> cases = {
      {"u8:255", 255},
      {"i8:-128", -128},
      {"u16:65535", 65535},
      {"i16:-32768", -32768},
      {"u32:4294967295", 4294967295U},
      {"i32:-2147483648", std::int64_t{-2147483648}},
      {"u64:18446744073709551615", UINT64_MAX},
      {"i64:-9223372036854775808", INT64_MIN},
      {"f32:-1.5e-3", -0.0015F},
      {"f64:1e300", 1e300},
      {"bool:true", true},
      {"bool:false", false},
      {"string:", ""},
      {"string:a:b=c\n\"é\"", "a:b=c\n\"é\""},
      {"u8[]:[]", SortedJson::array()},
      {"i16[]:[-1,0,32767]", {-1, 0, 32767}},
      {"f32[]:[1, 2.5]", {1.0, 2.5}},
      {"bool[]:[true,false]", {true, false}},
      {"string[]:[\"a\",\"b,\\\"c\\\"\"]", {"a", "b,\"c\""}},
      {"u64[]:[18446744073709551615]", {UINT64_MAX}},
      {"i32[][]:[[1,2],[],[3]]", {{1, 2}, SortedJson::array(), SortedJson::array({3})}}};
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < cases.size(); ++i)
    arguments.insert(arguments.end(),
                     {"--set", "test." + std::to_string(i) + "=" + cases[i].value});
  const Result result = edit(arguments);
  ASSERT_EQ(result.code, 0) << result.err;
  const SortedJson read = metadata();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const SortedJson& got = read.at("test." + std::to_string(i));
    if (cases[i].read.is_number_float())
      EXPECT_FLOAT_EQ(got.get<float>(), cases[i].read.get<float>()) << cases[i].value;
    else
      EXPECT_EQ(got, cases[i].read) << cases[i].value;
  }
}

TEST_F(Edit, RejectsValuesOutOfRange) {
  for (const char* text : {"k=u8:256",
                           "k=u8:-1",
                           "k=i8:128",
                           "k=u16:65536",
                           "k=u32:1e3",
                           "k=u32: 1",
                           "k=u32:1 ",
                           "k=u32:0x10",
                           "k=u32:+1",
                           "k=i64:9223372036854775808",
                           "k=u64:18446744073709551616",
                           "k=f32:1e39",
                           "k=f32:nan",
                           "k=f32:inf",
                           "k=f64:1e999",
                           "k=f32:",
                           "k=bool:1",
                           "k=bool:yes",
                           "k=array:1",
                           "k=int:1",
                           "k=:1",
                           "k=u32",
                           "k",
                           "=u32:1",
                           "",
                           "k=U32:1",
                           "k=u8[]:1",
                           "k=u8[]:[256]",
                           "k=u8[]:[1.0]",
                           "k=u8[]:[true]",
                           "k=u8[]:[1,]",
                           "k=string[]:[1]",
                           "k=bool[]:[1]",
                           "k=u8[][]:[1]",
                           "k=u8[]:[[1]]",
                           "k=string[]:[\"\xFF\"]",
                           "k=u8[][][][][][][][][]:[[[[[[[[[1]]]]]]]]]",
                           "k=u8[]:[1e999]"}) {
    const Result result = edit({"--set", text});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_EQ(result.err.find("cria: error: --set: expected "), 0U) << text << ": " << result.err;
    EXPECT_EQ(count_lines(result.err), 1U) << result.err;
    EXPECT_FALSE(fs::exists(out_)) << text;
  }
}

TEST_F(Edit, RejectsInvalidKeys) {
  struct Case {
    std::vector<std::string> arguments;
    std::string says;
  };
  const std::string demo = kDemo;
  for (const Case& wrong : std::vector<Case>{
           {{"--remove", "no.such"},
            demo + ": cannot remove: the key does not exist (key no.such)"},
           {{"--remove", ""}, "empty key"},
           {{"--set", "general.alignment=u32:64"},
            "cannot be changed: it describes the file's layout (key general.alignment)"},
           {{"--remove", "split.count"},
            "cannot be changed: it describes the file's layout (key split.count)"},
           {{"--set", "a=u8:1", "--set", "a=u8:2"}, "named twice (key a)"},
           {{"--set", "general.name=u8:1", "--remove", "general.name"},
            "named twice (key general.name)"},
           {{"--set", "a\xFF=u8:1"}, "key is not UTF-8 (key a\xFF)"},
           {{"--set", "a=string:\xFF"}, "string is not UTF-8 (key a)"},
           {{"--set", std::string(65537, 'k') + "=u8:1"},
            "key too long: expected at most 65536 bytes, got 65537"}}) {
    const Result result = edit(wrong.arguments);
    EXPECT_EQ(result.code, 1) << wrong.says;
    EXPECT_EQ(result.err, "cria: error: " + wrong.says + "\n");
    EXPECT_FALSE(fs::exists(out_)) << wrong.says;
  }
}

TEST_F(Edit, TakesAChatTemplateFromAFile) {
  const std::string source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}";
  const std::string file = directory_.write("chat.jinja", source);
  const Result result = edit({"--template", file});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(GgufFile::open(out_).find_string("tokenizer.chat_template"), source);
  const std::string talk = directory_.write("talk.json", R"([{"role":"user","content":"Hello"}])");
  EXPECT_EQ(cria({"template", "-m", out_, "--messages", talk}).out, "<user>Hello\n");

  const std::string broken = directory_.write("broken.jinja", "{% for m in messages %}\n{{ m.");
  fs::remove(out_);
  const Result refused = edit({"--template", broken});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err.find("cria: error: " + broken + ": "), 0U) << refused.err;
  EXPECT_EQ(count_lines(refused.err), 1U);
  EXPECT_FALSE(fs::exists(out_));
}

TEST_F(Edit, SamplingOfTheFileIsTheDefault) {
  const auto run = [](const std::string& model, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run",        "-m", model, "--raw",  "-p",
                                          " The river", "-n", "12",  "--seed", "5"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return cria(std::move(arguments));
  };
  ASSERT_EQ(edit({"--set", "general.sampling.temp=f32:0"}).code, 0);
  const std::string greedy = run(kDemo, {"--temp", "0"}).out,
                    hot = run(kDemo, {"--temp", "1.5"}).out;
  ASSERT_NE(greedy, hot);
  EXPECT_EQ(run(out_, {}).out, greedy);
  EXPECT_EQ(run(out_, {"--temp", "1.5"}).out, hot);
  EXPECT_NE(cria({"inspect", out_}).out.find("\nsampling: temp 0 (the model's: temp)\n"),
            std::string::npos);
  EXPECT_EQ(SortedJson::parse(cria({"inspect", out_, "--json"}).out).at("summary").at("sampling"),
            "temp 0 (the model's: temp)");
  EXPECT_NE(
      cria({"chat", "-m", out_}, "/stats\n").err.find("; sampling: temp 0 (the model's: temp)\n"),
      std::string::npos);
  EXPECT_NE(cria({"chat", "-m", out_, "--temp", "0.5"}, "/stats\n")
                .err.find("; sampling: temp 0.5, top_k"),
            std::string::npos);

  ASSERT_EQ(edit({"--set", "general.sampling.top_p=f32:7"}).code, 0);
  const Result refused = run(out_, {});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "cria: error: " + out_ +
                             ": top_p: expected a number from 0 to 1, got 7 "
                             "(key general.sampling.top_p)\n");
  EXPECT_EQ(run(out_, {"--top-p", "0.5"}).code, 0);
}

TEST_F(Edit, WarnsWhereATypeChanges) {
  const Result result = edit({"--set", "general.name=u8:1"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "cria: warning: general.name was of type string, now u8\n");
}

TEST_F(Edit, ASplitModelBecomesOneFile) {
  ASSERT_EQ(cria({"split", kDemo, directory_.path("m"), "--max-tensors", "40"}).code, 0);
  const Result result = edit({"--set", "a=bool:true"}, directory_.path("m-00001-of-00002.gguf"));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(GgufFile::open(out_).find("split.count"), nullptr);
  const std::string whole = directory_.path("whole.gguf");
  ASSERT_EQ(cria({"edit", kDemo, whole, "--set", "a=bool:true"}).code, 0);
  EXPECT_EQ(read_file(out_), read_file(whole));
}

TEST_F(Edit, TheTargetStaysAsItWasWhereItFails) {
  directory_.write("out.gguf", "before");
  EXPECT_EQ(edit({"--remove", "no.such"}).code, 1);
  EXPECT_EQ(read_file(out_), "before");
  const Result result = cria_in({.file_size = 100'000}, {"edit", kDemo, out_, "--set", "a=u8:1"});
  EXPECT_NE(result.code, 0);
  EXPECT_EQ(read_file(out_), "before");
}

}  // namespace
}  // namespace cria::test
