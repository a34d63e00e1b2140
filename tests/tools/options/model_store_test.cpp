// The search for models on this machine, and the short names that -m accepts.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/tools/process.h"
#include "tools/model_store.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class ModelStore : public ::testing::Test {
 protected:
  void SetUp() override {
    place(directory_.path("models/small/tiny-Q8_0.gguf"));
    place(directory_.path("models/large-00001-of-00002.gguf"));
    place(directory_.path("models/large-00002-of-00002.gguf"));
    place(directory_.path("hub/models--Org--Talker-1B-GGUF/snapshots/abc/talker.Q4_K_M.gguf"));
    const std::string digest(64, 'a');
    place(directory_.path("ollama/blobs/sha256-" + digest));
    fs::create_directories(directory_.path("ollama/manifests/registry.ollama.ai/library/llama9"));
    directory_.write(
        "ollama/manifests/registry.ollama.ai/library/llama9/8b",
        R"({"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:bb"},)"
        R"({"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" +
            digest + R"("}]})");
    directory_.write("ollama/manifests/registry.ollama.ai/library/llama9/broken",
                     "{\"layers\": 5}");
  }
  static void place(const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    fs::copy_file(kDemo, path);
  }
  [[nodiscard]] Result with_store(std::vector<std::string> arguments) const {
    return cria(
        std::move(arguments), "",
        {"CRIA_MODELS=" + directory_.path("models"), "HF_HUB_CACHE=" + directory_.path("hub"),
         "OLLAMA_MODELS=" + directory_.path("ollama"), "HOME=" + directory_.path()});
  }
  [[nodiscard]] std::vector<std::string> listed(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"list", "--json"}, names;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = with_store(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    for (const auto& model : nlohmann::json::parse(result.out)) names.push_back(model["name"]);
    return names;
  }
  [[nodiscard]] Result tokenize(const std::string& model) const {
    return with_store({"tokenize", "--ids", "-p", "Hi", "-m", model});
  }

  TempDirectory directory_;
};

TEST_F(ModelStore, ListsAllPlaces) {
  EXPECT_EQ(listed(), (std::vector<std::string>{"cria-demo-Q8_0", "large", "small/tiny-Q8_0",
                                                "Org/Talker-1B-GGUF/talker.Q4_K_M", "llama9:8b"}));
  place(directory_.path(".lmstudio/models/org/studio/studio-Q4_0.gguf"));
  EXPECT_EQ(listed({"studio"}), std::vector<std::string>{"org/studio/studio-Q4_0"});
  EXPECT_EQ(listed({"talker"}), std::vector<std::string>{"Org/Talker-1B-GGUF/talker.Q4_K_M"});
  EXPECT_EQ(listed({"nothing-like-it"}), std::vector<std::string>());
  const std::string table = with_store({"list"}).out;
  EXPECT_NE(table.find("Hugging Face"), std::string::npos) << table;
  EXPECT_NE(table.find("ollama"), std::string::npos) << table;
}

TEST_F(ModelStore, ListsTheModelsAtAPlace) {
  const auto names = [](const std::string& at) {
    std::vector<std::string> all;
    for (const tools::KnownModel& model : tools::models_at(at)) all.push_back(model.name);
    return all;
  };
  const std::string directory = directory_.path("models");
  for (const char* end : {"", "/"})
    EXPECT_EQ(names(directory + end), std::vector<std::string>{"large"});  // not those below
  EXPECT_EQ(names(directory + "/small/tiny-Q8_0.gguf"), std::vector<std::string>{"tiny-Q8_0"});
  EXPECT_EQ(names(directory_.path("hub")), std::vector<std::string>());
  EXPECT_THROW((void)names(directory + "/none.gguf"), Error);
}

TEST_F(ModelStore, ServesPlaces) {
  const auto refused = [&](std::vector<std::string> places) {
    std::vector<std::string> arguments = {"serve", "--port", "0"};
    for (std::string& place : places) {
      arguments.emplace_back("--models");
      arguments.push_back(std::move(place));
    }
    const Result result = with_store(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    return result.err;
  };
  place(directory_.path("other/tiny-Q8_0.gguf"));
  EXPECT_NE(refused({directory_.path("models/small"), directory_.path("other")})
                .find("two models are named tiny-Q8_0"),
            std::string::npos);
  EXPECT_NE(refused({directory_.path("hub")}).find("no GGUF file in"), std::string::npos);
  EXPECT_NE(refused({directory_.path("nowhere/at/all.gguf")}).find("no such file or directory"),
            std::string::npos);
}

TEST_F(ModelStore, ModelsAreFoundByNameOrUniquePart) {
  const std::string ids = tokenize(kDemo).out;
  for (const std::string name : {"small/tiny-Q8_0", "tiny-q8_0", "Talker", "llama9:8b", "llama9"}) {
    const Result result = tokenize(name);
    EXPECT_EQ(result.code, 0) << name << result.err;
    EXPECT_EQ(result.out, ids) << name;
  }
  const Result several = tokenize("Q8_0");
  EXPECT_EQ(several.code, 1);
  EXPECT_NE(several.err.find("several models"), std::string::npos) << several.err;
  EXPECT_NE(several.err.find("small/tiny-Q8_0"), std::string::npos) << several.err;
}

TEST_F(ModelStore, FindsATagOfARepository) {
  const std::string ids = tokenize(kDemo).out;
  for (const char* const name :
       {"org/talker-1b-gguf:q4_k_m", "org/talker-1b-gguf@q4_k_m", "hf.co/Org/Talker-1B-GGUF:Q4_K_M",
        "https://huggingface.co/Org/Talker-1B-GGUF"})
    EXPECT_EQ(tokenize(name).out, ids) << name;
  EXPECT_NE(tokenize("Org/Talker-1B-GGUF:q6_k").err.find("--include '*Q6_K*'"), std::string::npos);
  EXPECT_NE(tokenize("Org/Talker-1B-GGUF:Q8_0")
                .err.find("hf download Org/Talker-1B-GGUF --include '*Q8_0*'\n"),
            std::string::npos);
}

TEST_F(ModelStore, EveryCommandTakesItsNames) {
  const std::string out = directory_.path("out");
  EXPECT_EQ(with_store({"inspect", "large", "--tensors"}).code, 0);
  EXPECT_EQ(with_store({"inspect", "--diff", "talker", "large"}).code, 0);
  EXPECT_EQ(with_store({"edit", "large", out, "--set", "x=u8:1"}).code, 0);
  EXPECT_EQ(with_store({"split", "talker", out}).code, 0);
  EXPECT_EQ(with_store({"quantize", "large", out, "Q4_0", "--allow-requantize", "--dry-run"}).code,
            0);
}

TEST_F(ModelStore, NamesTheDownloadCommand) {
  const Result url = tokenize("https://huggingface.co/Org/Name/resolve/main/x.gguf");
  EXPECT_NE(url.err.find("does not download"), std::string::npos) << url.err;
  EXPECT_NE(url.err.find("curl -L -O 'https://huggingface.co/Org/Name/resolve/main/x.gguf'"),
            std::string::npos);
  EXPECT_NE(tokenize("https://huggingface.co/Org/Name/blob/main/x.gguf?show_file_info=x.gguf")
                .err.find("curl -L -O 'https://huggingface.co/Org/Name/resolve/main/x.gguf'"),
            std::string::npos);
  EXPECT_NE(tokenize("https://huggingface.co/Org/Name").err.find("hf download Org/Name"),
            std::string::npos);
  EXPECT_NE(tokenize("Org/Elsewhere")
                .err.find("hf download Org/Elsewhere --local-dir Elsewhere && "
                          "cria convert Elsewhere -o Elsewhere.gguf\n"),
            std::string::npos);
  EXPECT_NE(
      tokenize("Org/Elsewhere:Q8_0").err.find("hf download Org/Elsewhere --include '*Q8_0*'\n"),
      std::string::npos);
  for (const char* const tag : {"user/model:latest", "user/model:8b", "user/model:1.5b-instruct"})
    EXPECT_NE(tokenize(tag).err.find("ollama pull " + std::string(tag)), std::string::npos) << tag;
  EXPECT_NE(tokenize("hf://Org/Elsewhere-GGUF").err.find("hf download Org/Elsewhere-GGUF"),
            std::string::npos);
  EXPECT_NE(tokenize("hf://Org/Name/x.gguf")
                .err.find("curl -L -O 'https://huggingface.co/Org/Name/resolve/main/x.gguf'"),
            std::string::npos);
  EXPECT_NE(tokenize("ollama://qwen9").err.find("ollama pull qwen9\n"), std::string::npos);
  const Result bucket = tokenize("s3://bucket/x.gguf");
  EXPECT_NE(bucket.err.find("download the file"), std::string::npos) << bucket.err;
  EXPECT_EQ(bucket.err.find("curl"), std::string::npos) << bucket.err;
  EXPECT_EQ(tokenize("NOTES.md").err.find("pull"), std::string::npos);
  const Result unknown = tokenize("qwen9");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("cria list"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.err.find("ollama pull qwen9"), std::string::npos) << unknown.err;
  EXPECT_EQ(tokenize("cria-demo:latest").code, 0);
  EXPECT_EQ(tokenize("a").code, 1) << "a letter of every name";
  for (const char* const word : {"serve", "Q4_K_M", "odel"})
    EXPECT_EQ(tokenize(word).err.find("pull"), std::string::npos) << word << " names no model";
  const TempDirectory directory;
  directory.write("config.json", "{}");
  const Result other_form = tokenize(directory.path());
  EXPECT_EQ(other_form.code, 1);
  EXPECT_NE(other_form.err.find("cria convert makes a GGUF file of it"), std::string::npos)
      << other_form.err;
  for (const char* const name : {"config.json", "model-00001-of-00002.safetensors"}) {
    const std::string err = tokenize(directory.write(name, "{}")).err;
    EXPECT_NE(
        err.find("cria convert " + fs::path(directory.path()).parent_path().string() + " makes a"),
        std::string::npos)
        << err;
  }
  // A path is a path: what is wrong is said of the file.
  EXPECT_NE(tokenize("./qwen9.gguf").err.find("./qwen9.gguf: "), std::string::npos);
}

}  // namespace
}  // namespace cria::test
