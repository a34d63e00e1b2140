// Options that are not typed: presets, the environment, the configuration file, and which of them
// counts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

class Settings : public ::testing::Test {
 protected:
  /// Returns the source of an option of `run` ("default" if nothing sets it) and its value.
  std::pair<std::string, std::string> of_run(const std::string& option,
                                             std::vector<std::string> environment = {},
                                             const std::string& command = "run") const {
    environment.push_back("CRIA_CONFIG=" + file_);
    const Result result = cria({"config", command, "--json"}, "", environment);
    EXPECT_EQ(result.code, 0) << result.err;
    const nlohmann::json json = nlohmann::json::parse(result.out);
    for (const auto& setting : json["settings"])
      if (setting["option"] == option) return {setting["value"], setting["source"]};
    return {};
  }
  void configure(std::string_view text) { file_ = directory_.write("config.toml", text); }
  [[nodiscard]] Result run(std::vector<std::string> more,
                           std::vector<std::string> environment = {}) const {
    std::vector<std::string> arguments = {"run", "-p", "Once upon a time", "-n", "8"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    environment.push_back("CRIA_CONFIG=" + file_);
    return cria(arguments, "", environment);
  }

  TempDirectory directory_;
  std::string file_ = directory_.write("config.toml", "");
};

using Value = std::pair<std::string, std::string>;

TEST_F(Settings, EveryOptionCanBeSetByTheEnvironmentAndByTheFile) {
  EXPECT_EQ(of_run("top-k", {"CRIA_TOP_K=7"}), (Value{"7", "CRIA_TOP_K"}));
  EXPECT_EQ(of_run("top-k").second, "default");
  configure("threads = 3\ntop_k = 9\n[run]\ntop-k = 11\n");
  EXPECT_EQ(of_run("threads"), (Value{"3", file_}));
  EXPECT_EQ(of_run("top-k"), (Value{"11", file_ + " [run]"}));
  EXPECT_EQ(of_run("top-k", {}, "chat"), (Value{"9", file_}));
  EXPECT_EQ(of_run("top-k", {"CRIA_TOP_K=7"}), (Value{"7", "CRIA_TOP_K"}));
}

TEST_F(Settings, AreApplied) {
  const std::string greedy = run({"--temp", "0"}).out;
  EXPECT_EQ(run({}, {"CRIA_TEMP=0"}).out, greedy);
  configure("[run]\ntemp = 0\n");
  EXPECT_EQ(run({}).out, greedy);
  configure("json = true\n");
  EXPECT_NE(run({"--temp", "0"}).out.find("\"stop_reason\""), std::string::npos);
  EXPECT_EQ(run({"--temp", "0"}, {"CRIA_JSON=False"}).out, greedy)
      << "a variable can turn a flag off";
  const Result neither = run({}, {"CRIA_JSON=maybe"});
  EXPECT_EQ(neither.code, 2);
  EXPECT_NE(neither.err.find("--json: expected true or false, got maybe (from CRIA_JSON)"),
            std::string::npos)
      << neither.err;
}

TEST_F(Settings, TheFileIsToml) {
  configure(
      "temp = 0.25 # not much\n"
      "threads = 1_0\n"
      "[run]\n"
      "stop = [\n  \"a, b\",  # two\n  'c # d\\n',\n]\n"
      "system = \"Write C# \\\"well\\\",\\nand \\u00E9.\"\n"
      "tools = \"\"\"\nmy tools\"\"\"\n");
  EXPECT_EQ(of_run("temp").first, "0.25");
  EXPECT_EQ(of_run("threads").first, "10");
  EXPECT_EQ(of_run("stop").first, "a, b c # d\\n");
  EXPECT_EQ(of_run("system").first, "Write C# \"well\",\nand \u00E9.");
  EXPECT_EQ(of_run("tools").first, "my tools");
  configure("\xEF\xBB\xBFrun = {temp = 0}\r\n");
  EXPECT_EQ(of_run("temp"), (Value{"0", file_ + " [run]"}));
  configure("stop = []\n");
  EXPECT_EQ(of_run("stop").second, "default");
  for (const auto& [text, where] :
       {std::pair<std::string_view, std::string>{"threads = 1\nsystem = You are kind\n",
                                                 "line 2: "},
        {"temp = 0\ntemp = 1\n", "line 2: "},
        {"[run\n", "line 1: "},
        {"[rum]\n", "[rum] is neither a command nor a preset"},
        {"[preset]\ntemp = 0\n", "unknown option [preset] temp"},
        {"n = 3\n", "unknown option n; did you mean max-tokens?"},
        {"[run]\nseed = 2026-11-27\n", "[run] seed: expected a string, a number, true or false"}}) {
    configure(text);
    const Result result = run({});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_NE(result.err.find(file_ + ": " + where), std::string::npos) << result.err;
  }
}

TEST_F(Settings, SuggestsMissingQuotes) {
  const std::string hint = " (put a string in quotes)";
  for (const std::string text : {"kv-type = q8_0", "kv-type = f16", "model = important.gguf",
                                 "system = no", "json = True", "model = 7b.gguf", "kv-type = f"}) {
    configure(text + "\n");
    EXPECT_NE(run({}).err.find(hint), std::string::npos) << text;
  }
  for (const std::string& text :
       {"stop = " + std::string(300, '['), std::string("system = \"\\q\""),
        std::string("threads = 99999999999999999999")}) {
    configure(text + "\n");
    const Result result = run({});
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_EQ(result.err.find(hint), std::string::npos) << result.err;
  }
}

TEST_F(Settings, AFileMayComeThroughAPipe) {
  const Result result = cria_in({.input = "[run]\nthreads = 3\n",
                                 .environment = {"CRIA_CONFIG=/dev/stdin"},
                                 .piecemeal = true},
                                {"config"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("/dev/stdin [run]"), std::string::npos) << result.out;
}

TEST_F(Settings, VariablesThatAreNoneAreNoted) {
  const Result result =
      cria({"config"}, "", {"CRIA_TMEP=1", "LLAMA_ARG_CTX_SIZE=3", "CRIA_TEMP=0.5"});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("CRIA_TMEP is not the name of an option"), std::string::npos);
  EXPECT_NE(result.err.find("LLAMA_ARG_CTX_SIZE is ignored"), std::string::npos);
  EXPECT_EQ(result.err.find("CRIA_TEMP "), std::string::npos) << result.err;
  const std::string run =
      cria({"run", "-n", "1", "a"}, "",
           {"CRIA_TMEP=1", "CRIA_TEMPERATURE=1", "CRIA_TEMPRATURE=1", "LLAMA_ARG_CTX_SIZE=3"})
          .err;
  EXPECT_NE(run.find("CRIA_TEMPERATURE is not the name of an option; did you mean CRIA_TEMP?"),
            std::string::npos)
      << run;
  EXPECT_NE(run.find("CRIA_TEMPRATURE is not the name of an option\n"), std::string::npos)
      << "not --template of another command: " << run;
  EXPECT_NE(run.find("CRIA_TMEP is not the name of an option; did you mean CRIA_TEMP?"),
            std::string::npos)
      << run;
  EXPECT_EQ(run.find("LLAMA_ARG"), std::string::npos) << "for another program";
  const std::string serve = cria({"serve", "-m", "/nowhere"}, "", {"LLAMA_ARG_CTX_SIZE=3"}).err;
  EXPECT_NE(cria({"serve", "-m", "/nowhere"}, "", {"LLAMA_API_KEY=a"}).err.find("LLAMA_API_KEY is"),
            std::string::npos);
  EXPECT_NE(serve.find("LLAMA_ARG_CTX_SIZE is ignored"), std::string::npos) << serve;
}

TEST_F(Settings, AFileOfNoUseIsRefused) {
  std::string deep = "preset.a";
  for (int i = 0; i < 20000; ++i) deep += ".a";
  const std::string dots = "more than 2000 dots";
  for (const auto& [text, message] : {std::pair{"[" + deep + "]\n", dots},
                                      {deep + " = 1\n", dots},
                                      {"run = {" + deep + " = 1}\n", dots},
                                      {"#" + std::string(64 * 1024, '.'),
                                       std::string("a configuration file has at most 64 KiB")}}) {
    configure(text);
    const Result result = run({});
    EXPECT_EQ(result.code, 2) << text.substr(0, 40);
    EXPECT_NE(result.err.find(file_ + ": "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
  EXPECT_EQ(cria({"config"}, "", {"CRIA_CONFIG=/dev/zero"}).code, 2);
  EXPECT_NE(cria({"config"}, "", {"CRIA_CONFIG=/proc/self/mem"}).err.find("cannot be read"),
            std::string::npos);
}

TEST_F(Settings, FlagsSkipValuesOfOtherOptions) {
  const auto tokenize = [&](std::vector<std::string> environment) {
    environment.push_back("CRIA_CONFIG=" + file_);
    return cria({"tokenize", "-p", "Once"}, "", environment);
  };
  const std::string tokens = tokenize({}).out;
  EXPECT_EQ(tokenize({"CRIA_DECODE=64"}).out, tokens);
  EXPECT_EQ(tokenize({"CRIA_DECODE=1"}).out, tokens);
  EXPECT_EQ(of_run("decode", {"CRIA_DECODE=true"}, "tokenize"), (Value{"true", "CRIA_DECODE"}));
  EXPECT_EQ(of_run("decode", {"CRIA_DECODE=64"}, "bench"), (Value{"64", "CRIA_DECODE"}));
  configure("decode = [64, 128]\ntemplate = \"chatml\"\n");
  EXPECT_EQ(tokenize({}).out, tokens);
  EXPECT_EQ(of_run("decode", {}, "tokenize").second, "default");
  EXPECT_EQ(of_run("template", {}, "inspect").second, "default");
  EXPECT_EQ(of_run("template", {}, "template"), (Value{"chatml", file_}));
  configure("decode = 64\n[tokenize]\ndecode = true\n");
  EXPECT_EQ(of_run("decode", {"CRIA_DECODE=64"}, "tokenize"),
            (Value{"true", file_ + " [tokenize]"}));
  configure("[tokenize]\ndecode = 64\n");
  const Result own = tokenize({});
  EXPECT_EQ(own.code, 2);
  EXPECT_NE(
      own.err.find("--decode: expected true or false, got 64 (from " + file_ + " [tokenize])"),
      std::string::npos)
      << own.err;
}

TEST_F(Settings, RejectsAMissingNamedFile) {
  for (const std::string& path : {std::string("/no/such/file"), directory_.path()}) {
    const Result result = cria({"config"}, "", {"CRIA_CONFIG=" + path});
    EXPECT_EQ(result.code, 2) << path;
    EXPECT_NE(result.err.find(path + ": the file that CRIA_CONFIG names cannot be opened"),
              std::string::npos)
        << result.err;
  }
}

TEST_F(Settings, TypedOptionsWin) {
  configure("temp = 1.5\nseed = 4\n");
  EXPECT_EQ(run({"--temp", "0"}, {"CRIA_TEMP=1.5"}).out, run({"--temp", "0", "--seed", "4"}).out);
  // -m is not set where a FILE is named, which excludes it.
  EXPECT_EQ(cria({"inspect", kDemo, "--kv"}, "", {"CRIA_MODEL=/no/such/file.gguf"}).code, 0);
  EXPECT_EQ(cria({"inspect", "--kv"}, "", {"CRIA_MODEL=/no/such/file.gguf"}).code, 1);
}

// Commands that can run without the configured model ignore it.
TEST_F(Settings, SkipsTheModelIfACommandTakesNone) {
  const std::vector<std::string> model = {"CRIA_MODEL=/no/such/file.gguf"};
  const Result machine = cria({"inspect", "--cpu"}, "", model);
  EXPECT_EQ(machine.code, 0) << machine.err;
  EXPECT_NE(machine.out.find("in use: "), std::string::npos) << machine.out;
  EXPECT_EQ(cria({"inspect", "--cpu", "-m", "/no/such/file.gguf"}).code, 1);
  const std::vector<std::string> bench = {"bench", "--synthetic", "demo:Q8_0", "-p", "4",
                                          "-n",    "0",           "-r",        "1"};
  EXPECT_EQ(cria(bench, "", model).code, 0);
  EXPECT_EQ(cria({"bench", "-p", "4", "-n", "0", "-r", "1"}, "", model).code, 1);
}

TEST_F(Settings, SkipsInapplicableOptions) {
  EXPECT_EQ(run({}, {"CRIA_LOGPROBS=2"}).code, 0);
  EXPECT_NE(run({"--json"}, {"CRIA_LOGPROBS=2"}).out.find("\"logprobs\""), std::string::npos);
  EXPECT_EQ(run({"--logprobs", "2"}).code, 2);
  configure("type = \"q8_0\"\n");
  const std::string part = directory_.path("part"), merged = directory_.path("merged.gguf");
  ASSERT_EQ(cria({"split", kDemo, part, "--max-tensors", "50"}).code, 0);
  const std::vector<std::string> merge = {"merge", part + "-00001-of-00002.gguf", merged};
  EXPECT_EQ(cria(merge, "", {"CRIA_CONFIG=" + file_}).code, 0);
  EXPECT_EQ(cria({merge[0], merge[1], merge[2], "--type", "q8_0"}).code, 2);
}

TEST_F(Settings, PresetsHoldSamplingAndSystemMessage) {
  EXPECT_EQ(run({"--preset", "exact"}).out, run({"--temp", "0"}).out);
  configure(
      "[preset.teacher]\nsystem = \"You are a kind teacher.\"\ntemp = 0\n[chat]\npreset = "
      "\"teacher\"\n");
  EXPECT_EQ(of_run("temp", {}, "chat"), (Value{"0", "preset teacher"}));
  EXPECT_EQ(of_run("temp", {}).second, "default");
  const Result chat = cria({"chat", "--show-prompt", "-n", "1"}, "Hi\n", {"CRIA_CONFIG=" + file_});
  EXPECT_NE(chat.err.find("You are a kind teacher."), std::string::npos) << chat.err;
  constexpr const char* kOwn =
      R"([{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hi"}])";
  const Result own = cria({"run", "--preset", "teacher", "-n", "1", "--messages", kOwn}, "",
                          {"CRIA_CONFIG=" + file_});
  EXPECT_NE(own.err.find("that of preset teacher is not used"), std::string::npos) << own.err;
  const auto note_of = [&](std::vector<std::string> words, const std::string& input) {
    return cria(std::move(words), input, {"CRIA_CONFIG=" + file_}).err;
  };
  EXPECT_NE(note_of({"run", "--raw", "--preset", "teacher", "-n", "1", "Hi"}, "")
                .find("--system from preset teacher is ignored with --raw"),
            std::string::npos);
  EXPECT_NE(note_of({"batch", "--preset", "teacher"}, R"({"prompt": "Hi", "max_tokens": 1})")
                .find("the system message of preset teacher is not used"),
            std::string::npos);
  const Result unknown = run({"--preset", "teahcer"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean teacher?"), std::string::npos) << unknown.err;
  const std::string hint = "only in a section: [run] or [chat]";
  for (const std::string text :
       {"preset = \"a\"\n[preset.a]\ntemp = 0\n", "preset = \"a\"\npreset.a.temp = 0\n",
        "preset.a.temp = 0\npreset = \"a\"\n"}) {
    configure(text);
    EXPECT_NE(run({}).err.find(hint), std::string::npos) << text;
  }
  configure("[preset.a]\ntemp = 0\n[preset.a]\ntemp = 1\n");
  EXPECT_EQ(run({}).err.find(hint), std::string::npos);
}

TEST_F(Settings, WrongOnesAreNamedWithTheirSource) {
  const Result value = run({}, {"CRIA_TEMP=warm"});
  EXPECT_EQ(value.code, 2);
  EXPECT_NE(value.err.find("got warm (from CRIA_TEMP)"), std::string::npos) << value.err;
  configure("tmep = 0\n");
  const Result key = run({});
  EXPECT_EQ(key.code, 2);
  EXPECT_NE(key.err.find("config.toml"), std::string::npos) << key.err;
  EXPECT_NE(key.err.find("tmep"), std::string::npos) << key.err;
  EXPECT_NE(key.err.find("did you mean temp?"), std::string::npos) << key.err;
  configure("[preset.x]\nthreads = 4\n");
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(cria({"run", "--help"}, "", {"CRIA_CONFIG=" + file_}).code, 0)
      << "help needs no configuration";
  EXPECT_EQ(cria({"run", "-p", "a"}, "", {"CRIA_CONFIG=/no/such/file"}).code, 2);
}

TEST_F(Settings, TheUsualFileIsFound) {
  const TempDirectory home;
  ASSERT_EQ(std::system(("mkdir -p " + home.path(".config/cria")).c_str()), 0);
  home.write(".config/cria/config.toml", "threads = 2\n");
  const Result result =
      cria({"config"}, "", {"HOME=" + home.path(), "CRIA_CONFIG=", "XDG_CONFIG_HOME="});
  EXPECT_NE(result.out.find(".config/cria/config.toml"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("--threads"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace cria::test
