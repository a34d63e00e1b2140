#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "model/file/json.h"
#include "model/gguf/writer.h"
#include "tests/model/bytes.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

std::ptrdiff_t files_in(const TempDirectory& directory) {
  return std::distance(fs::directory_iterator(directory.path()), {});
}

/// The bundled model in F16.
std::string demo_f16(const TempDirectory& directory) {
  std::string path = directory.path("f16.gguf");
  const Result result = cria({"quantize", kDemo, path, "F16"});
  EXPECT_EQ(result.code, 0) << result.err;
  return path;
}

std::string prose(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += " In " + std::to_string(1000 + i) + " , the river rose by " + std::to_string(i % 7) +
            " metres .";
  return text;
}

/// Writes a file of many small matrices, whose report is larger than a terminal's buffer.
std::string many_tensors(const TempDirectory& directory) {
  std::string path = directory.path("many.gguf");
  GgufWriter writer(path);
  writer.set("general.architecture", std::string("llama"));
  constexpr int kTensors = 4000;
  for (int i = 0; i < kTensors; ++i)
    writer.declare(
        "blk." + std::to_string(i % 1000) + ".matrix" + std::to_string(i / 1000) + ".weight",
        DType::F32, {32, 1});
  writer.begin();
  const std::vector<float> row(32, 0.5F);
  for (int i = 0; i < kTensors; ++i) writer.write(std::as_bytes(std::span(row)));
  writer.finish();
  return path;
}

TEST(Quantize, NamesItsOutputAndCountsAsInspectDoes) {
  const TempDirectory directory;
  demo_f16(directory);
  fs::rename(directory.path("f16.gguf"), directory.path("talker-F16.gguf"));
  const Result result = cria({"quantize", directory.path("talker-F16.gguf"), "Q5_K_M"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::string made = directory.path("talker-Q5_K_M.gguf");
  ASSERT_TRUE(fs::exists(made)) << result.out;
  const std::string inspected = cria({"inspect", made, "--json", "--tokenizer"}).out;
  char bits[32];
  std::snprintf(bits, sizeof bits, "%.2f bits per weight",
                SortedJson::parse(inspected)["summary"]["bits_per_weight"].get<double>());
  EXPECT_NE(result.out.find(bits), std::string::npos) << bits << ": " << result.out;
  const Result again = cria({"quantize", directory.path("talker-F16.gguf"), "Q5_K_M"});
  EXPECT_EQ(again.code, 1) << "an existing file is replaced only if it is named";
  EXPECT_NE(again.err.find(made), std::string::npos) << again.err;
  const Result dry = cria({"quantize", directory.path("talker-F16.gguf"), "Q5_K_M", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find(made + " (not written): Q5_K_M, "), std::string::npos) << dry.out;
}

TEST(Quantize, TheDemoModelStillSpeaks) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), out = directory.path("q8.gguf");
  const Result result = cria({"quantize", f16, out, "q8_0", "-v"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find(out + ": Q8_0, "), 0U) << result.out;
  EXPECT_EQ(count_lines(result.out), 1U);
  EXPECT_NE(result.err.find("blk.0.attn_q.weight [256, 256] F16 → Q8_0, 68.0 KiB, RMSE "),
            std::string::npos)
      << result.err;
  EXPECT_EQ(cria({"run", "-m", out, "--temp", "0", "-n", "16", "-p", "The sea"}).out,
            cria({"run", "-m", kDemo, "--temp", "0", "-n", "16", "-p", "The sea"}).out);
  EXPECT_EQ(cria({"inspect", out, "--check"}).code, 0);
}

TEST(Quantize, DryRunPredictsTheExactSize) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), out = directory.path("out.gguf");
  const Result table = cria({"quantize", f16, out, "Q8_0", "--dry-run", "--output-type", "F16"});
  ASSERT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("blk.7.ffn_down.weight"), std::string::npos);
  EXPECT_NE(table.out.find("as asked for"), std::string::npos)
      << "the tied embedding is the output matrix";
  const SortedJson plan =
      SortedJson::parse(cria({"quantize", f16, out, "Q8_0", "--dry-run", "--json"}).out);
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(plan.at("written"), false);
  const Result result = cria({"quantize", f16, out, "Q8_0", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const SortedJson written = SortedJson::parse(result.out);
  EXPECT_EQ(written.at("bytes"), plan.at("bytes"));
  EXPECT_EQ(written.at("file"), out) << "as merge, edit and split call it";
  EXPECT_EQ(plan.at("bytes"), fs::file_size(out));
  const SortedJson& tensors = written.at("tensors");
  const auto embedding = std::ranges::find(tensors, "token_embd.weight",
                                           [](const SortedJson& t) { return t.at("name"); });
  ASSERT_NE(embedding, tensors.end());
  EXPECT_EQ(embedding->at("type"), "Q8_0");
  EXPECT_GT(embedding->at("rmse"), 0);
  EXPECT_LT(embedding->at("rmse").get<double>(), 0.01 * embedding->at("rms").get<double>());
}

TEST(Quantize, BytesDoNotDependOnThreads) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory);
  for (const char* threads : {"1", "2", "3"})
    ASSERT_EQ(
        cria({"quantize", f16, directory.path(threads), "Q4_0", "--pure", "-t", threads}).code, 0);
  EXPECT_EQ(read_file(directory.path("1")), read_file(directory.path("2")));
  EXPECT_EQ(read_file(directory.path("1")), read_file(directory.path("3")));
}

TEST(Quantize, ChoosesTypesUnderABudget) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), plan = directory.path("plan.txt"),
                    text = directory.write("text", prose(3000)),
                    importance = directory.path("im.gguf"), made = directory.path("made.gguf");
  ASSERT_EQ(cria({"imatrix", "-m", f16, "-f", text, "-o", importance, "-c", "128"}).code, 0);
  const std::vector<std::string> command = {"quantize",  f16,        made,          "--size",
                                            "3.9MB",     "--json",   "-t",          "2",
                                            "--imatrix", importance, "--save-plan", plan};
  std::vector<std::string> dry = command;
  dry.emplace_back("--dry-run");
  const SortedJson expected = SortedJson::parse(cria(dry).out),
                   done = SortedJson::parse(cria(command).out);
  EXPECT_EQ(fs::file_size(made), expected.at("bytes"));
  EXPECT_LE(fs::file_size(made), 3'900'000U);
  EXPECT_GT(fs::file_size(made), 3'880'000U) << "nothing is left that a tensor could use";
  EXPECT_GT(expected.at("predicted_kld"), 0);
  EXPECT_EQ(done.at("predicted_kld"), expected.at("predicted_kld"));
  std::set<std::string> types;
  for (const SortedJson& tensor : done.at("tensors")) types.insert(tensor.at("type"));
  EXPECT_GT(types.size(), 3U) << "F32 norms and at least three types";

  const Result large = cria({"quantize", f16, made, "--size", "1GB", "--types", "Q8_0", "--imatrix",
                             importance, "--dry-run"});
  EXPECT_NE(large.err.find("note: --size 1GB is not below the size of IN ("), std::string::npos)
      << large.err;

  const std::string again = directory.path("again.gguf");
  ASSERT_EQ(cria({"quantize", f16, again, "--plan", plan, "--imatrix", importance}).code, 0);
  EXPECT_EQ(read_file(again), read_file(made));
  directory.write("plan.txt", "blk.0.attn_q.weight Q5_K # edited\n");
  ASSERT_EQ(cria({"quantize", f16, again, "--plan", plan, "--tensor-type", "attn_v=Q4_0"}).code, 0);
  const SortedJson tensors =
      SortedJson::parse(cria({"inspect", again, "--json", "--tensors"}).out).at("tensors");
  for (const SortedJson& tensor : tensors) {
    const std::string name = tensor.at("name");
    if (name.find("attn_v.") != std::string::npos) {
      EXPECT_EQ(tensor.at("type"), "Q4_0") << name;
    }
    if (name.find("attn_q.") != std::string::npos) {
      EXPECT_EQ(tensor.at("type"), "Q5_K") << name;
    }
  }
}

/// Rows of Q8_0 as Q8_0_R8: column c of row k of a block lies at 128(c/16) + 32(c/4 % 4) + 4k + c
/// % 4.
std::vector<std::byte> interleaved(const TensorView& tensor) {
  constexpr std::size_t kRows = 8, kBlock = 34;
  const std::size_t row_bytes = tensor.row_bytes();
  std::vector<std::byte> out(tensor.bytes);
  for (std::size_t row = 0; row < tensor.rows(); ++row)
    for (std::size_t b = 0; b < row_bytes / kBlock; ++b) {
      const std::byte* const from = tensor.data + row * row_bytes + b * kBlock;
      std::byte* const block = &out[row / kRows * kRows * row_bytes + b * kRows * kBlock];
      const std::size_t k = row % kRows;
      std::copy_n(from, 2, block + 2 * k);
      for (std::size_t c = 0; c < 32; ++c)
        block[2 * kRows + 128 * (c / 16) + 32 * (c / 4 % 4) + 4 * k + c % 4] = from[2 + c];
    }
  return out;
}

/// The bundled model with the matrices of its layers in another type.
template <class Convert>
std::string demo_in(const std::string& path, DType type, Convert convert) {
  const GgufFile demo = GgufFile::open(kDemo);
  GgufWriter writer(path);
  const auto is_matrix = [](const TensorView& tensor) {
    return tensor.dtype == DType::Q8_0 && tensor.name.starts_with("blk.");
  };
  for (const GgufKey& key : demo.keys()) writer.set(key.key, copy_value(demo, key.value));
  for (const TensorView& tensor : demo.tensors())
    writer.declare(tensor.name, is_matrix(tensor) ? type : tensor.dtype, tensor.shape);
  writer.begin();
  for (const TensorView& tensor : demo.tensors()) {
    if (is_matrix(tensor))
      writer.write(convert(tensor));
    else
      writer.write({tensor.data, tensor.bytes});
  }
  writer.finish();
  return writer.path();
}

TEST(Quantize, InterleavedModelsRunAndBecomePlain) {
  const TempDirectory directory;
  const std::string plain = directory.path("plain.gguf"),
                    model = demo_in(directory.path("R8.gguf"), DType::Q8_0_R8, interleaved);
  const auto logits = [](const std::string& file) {
    return cria({"logits", "-m", file, "--tokens", "1,5,7,9", "-o", "-"});
  };
  const Result got = logits(model);
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_EQ(got.out, logits(kDemo).out);
  EXPECT_NE(got.err.find("rows of interleaved types are put in order"), std::string::npos)
      << got.err;
  ASSERT_EQ(cria({"quantize", model, plain, "--plain"}).code, 0);
  const GgufFile made = GgufFile::open(plain), demo = GgufFile::open(kDemo);
  for (const TensorView& tensor : demo.tensors()) {
    const TensorView* const same = made.tensor(tensor.name);
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(same->dtype, tensor.dtype) << tensor.name;
    ASSERT_EQ(same->bytes, tensor.bytes);
    EXPECT_TRUE(std::equal(tensor.data, tensor.data + tensor.bytes, same->data)) << tensor.name;
  }
  EXPECT_EQ(made.get_uint("general.file_type"), 7U);
  EXPECT_EQ(logits(plain).err, "");
  EXPECT_EQ(cria({"quantize", model, "--plain"}).code, 2);
  EXPECT_EQ(cria({"quantize", model, plain, "--plain", "--pure"}).code, 2);
  EXPECT_EQ(cria({"inspect", model, "--check"}).code, 0);
}

TEST(Quantize, ModelsOfTheTrellisTypesRunWithANote) {
  const TempDirectory directory;
  const std::string model =
      demo_in(directory.path("KT.gguf"), DType::IQ2_KT, [](const TensorView& tensor) {
        return std::vector<std::byte>(dtype_info(DType::IQ2_KT).row_bytes(tensor.cols()) *
                                      tensor.rows());
      });
  const Result result = cria({"logits", "-m", model, "--tokens", "1,5", "-o", "-"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("IQ2_KT meant other values in files made before"), std::string::npos)
      << result.err;
}

// A recipe as users of ik_llama.cpp write it: one list, types in lower case.
TEST(Quantize, TakesRecipes) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), out = directory.path("out.gguf");
  const Result result =
      cria({"quantize", f16, out, "Q8_0", "--tensor-type",
            R"(blk\..*\.attn_.*\.weight=iq5_ks,blk\.[0-9]{1,2}\.ffn_down\.weight=iq3_ks,)"
            R"(blk\..*\.ffn_(gate|up)\.weight=iq2_kl,token_embd\.weight=q6_0)"});
  ASSERT_EQ(result.code, 0) << result.err;
  const GgufFile file = GgufFile::open(out);
  EXPECT_EQ(file.tensor("blk.0.attn_k.weight")->dtype, DType::IQ5_KS);
  EXPECT_EQ(file.tensor("blk.1.ffn_down.weight")->dtype, DType::IQ3_KS);
  EXPECT_EQ(file.tensor("blk.1.ffn_up.weight")->dtype, DType::IQ2_KL);
  EXPECT_EQ(file.tensor("token_embd.weight")->dtype, DType::Q6_0);
  const Result trellis = cria({"quantize", f16, out, "Q8_0", "--tensor-type", "ffn_up=iq3_kt"});
  EXPECT_EQ(trellis.code, 1);
  EXPECT_NE(trellis.err.find("no encoder for type IQ3_KT"), std::string::npos) << trellis.err;
}

TEST(Quantize, ReportsImpossibleBudgets) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), out = directory.path("out.gguf"),
                    text = directory.write("text", prose(3000));
  const Result small = cria({"quantize", f16, out, "--bits", "2", "--calibrate", text});
  EXPECT_EQ(small.code, 1);
  EXPECT_NE(small.err.find("at least 2.6"), std::string::npos) << small.err;
  EXPECT_EQ(cria({"quantize", f16, out, "--size", "3MB"}).code, 2) << "without a text";
  EXPECT_EQ(cria({"quantize", f16, out, "Q4_K", "--size", "3MB", "--calibrate", text}).code, 2);
  EXPECT_EQ(
      cria({"quantize", f16, out, "--size", "3MB", "--types", "Q9", "--calibrate", text}).code, 2);
  EXPECT_FALSE(fs::exists(out));
}

// The list of finished matrices begins where the blocks end.
TEST(Quantize, ContinuesAfterAKill) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), text = directory.write("text", prose(3000)),
                    whole = directory.path("whole.gguf"), killed = directory.path("killed.gguf"),
                    state = directory.path("state");
  const auto arguments = [&](const std::string& out) {
    return std::vector<std::string>{"quantize",    f16,  out,         "Q4_0",
                                    "--calibrate", text, "--no-self", "--calibrate-tokens",
                                    "512"};
  };
  const Result first = cria(arguments(whole));
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find("calibrating: needs up to "), std::string::npos) << first.err;
  std::vector<std::string> with_state = arguments(killed);
  with_state.insert(with_state.end(), {"--state", state});
  {
    Child child(Child::Kind::Pipe, with_state, {}, directory.path("errors"));
    const auto size = [&] {
      std::error_code none;
      const auto bytes = fs::file_size(state, none);
      return none ? 0 : bytes;
    };
    std::uintmax_t begun = 0;  // once it grows, a matrix is finished
    for (int i = 0;
         i < 6000 && (size() < 4096 || (begun == 0 ? (begun = size()) : begun) == size()); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    child.signal(SIGKILL);
    EXPECT_EQ(child.exit_code(), 128 + SIGKILL);
  }
  EXPECT_FALSE(fs::exists(killed));
  const Result other = cria({"quantize", f16, killed, "Q5_0", "--calibrate", text, "--no-self",
                             "--calibrate-tokens", "512", "--state", state});
  EXPECT_NE(other.err.find("a different run"), std::string::npos) << other.err;
  const Result second = cria(with_state);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("continues after"), std::string::npos) << second.err;
  EXPECT_EQ(read_file(killed), read_file(whole));
  EXPECT_FALSE(fs::exists(state));
  with_state.back() = killed;
  EXPECT_EQ(cria(with_state).code, 1) << "the output is no state";
}

TEST(Quantize, ShowsItsRules) {
  const Result text = cria({"quantize", "--mixes", "-v"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("Q4_K_M Q5_K_M"), std::string::npos);
  const Result sizes = cria({"quantize", kDemo, "--mixes"});
  EXPECT_NE(sizes.out.find("8.50         8.51  7.45 MiB"), std::string::npos)
      << sizes.out << sizes.err;
  const SortedJson rules = SortedJson::parse(cria({"quantize", "--mixes", "--json"}).out);
  EXPECT_GT(rules.at("rules").size(), 40U);
  EXPECT_EQ(rules.at("fallbacks").at("Q4_K"), "Q5_0");
}

TEST(Quantize, UsageErrors) {
  const Result order = cria({"quantize", kDemo, "Q8_0", "Q4_1"});
  EXPECT_EQ(order.code, 2);
  EXPECT_NE(order.err.find("the order is IN OUT TYPE"), std::string::npos) << order.err;
  EXPECT_EQ(cria({"quantize"}).code, 2);
  EXPECT_EQ(cria({"quantize", kDemo, "/tmp/none.gguf", "Q9"}).code, 2);
  for (const char* type : {"ffn", "ffn=Q9", "(=Q4_K", "ffn=I8"})
    EXPECT_EQ(cria({"quantize", kDemo, "/tmp/none.gguf", "Q8_0", "--tensor-type", type}).code, 2)
        << type;
}

TEST(Quantize, ReportsErrorsInOneLine) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), text = directory.write("text", "no matrix");
  fs::create_symlink(f16, directory.path("link.gguf"));
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{f16, f16, "Q8_0"}, "it is the input itself"},
      {{f16, directory.path("link.gguf"), "Q8_0"}, "it is the input itself"},
      {{kDemo, directory.path("out"), "Q4_0"}, "got Q8_0 (--allow-requantize"},
      {{f16, directory.path(), "Q8_0"}, "it is a directory"},
      {{f16, "/proc/out.gguf", "Q8_0"}, "/proc/out.gguf: cannot write"},
      {{f16, directory.path("none/out"), "Q8_0"}, "cannot write: No such file"},
      {{f16, directory.path("out"), "Q8_0", "--imatrix", text}, "not an importance matrix"},
      {{f16, directory.path("out"), "Q8_0", "--tensor-type", "xyz=Q8_0"}, "expression number 1"},
      {{text, directory.path("out"), "Q8_0"}, text.c_str()},
  };
  for (const auto& [arguments, says] : cases) {
    std::vector<std::string> all = {"quantize"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = cria(all);
    EXPECT_EQ(result.code, 1) << says;
    EXPECT_EQ(result.out, "") << says;
    EXPECT_EQ(result.err.find("cria: error: "), 0U) << result.err;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(count_lines(result.err), 1U) << result.err;
  }
  EXPECT_EQ(cria({"inspect", f16, "--check"}).code, 0) << "the input is intact";
  EXPECT_EQ(files_in(directory), 3);
}

TEST(Quantize, KilledOrInterruptedLeavesNothing) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const TempDirectory directory;
    const std::string input = many_tensors(directory), out = directory.write("out.gguf", "old");
    Child child(Child::Kind::Terminal, {"quantize", input, out, "Q8_0", "-v", "-t", "2"});
    ASSERT_TRUE(
        child.wait_for("matrix0"));  // the program blocks once the terminal's buffer is full
    child.signal(signal);
    EXPECT_EQ(child.exit_code(), signal == SIGINT ? 130 : 128 + signal);
    EXPECT_EQ(read_file(out), "old");
    EXPECT_EQ(files_in(directory), 2);
  }
}

TEST(Quantize, FailedWritesKeepTheOldFile) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory), out = directory.write("out.gguf", "old");
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small = {.rlim_cur = 1 << 20, .rlim_max = limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);  // inherited by the program
  const Result result = cria({"quantize", f16, out, "Q8_0"});
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "cria: error: " + out + ": cannot write: File too large\n");
  EXPECT_EQ(read_file(out), "old");
  EXPECT_EQ(files_in(directory), 2);
}

TEST(Quantize, LooksAtTheDiskFirst) {
  const TempDirectory directory;
  constexpr std::uint64_t kValues = std::uint64_t{1} << 40;  // 4 TiB in F32; in IQ1_S a sparse file
  const std::string header =
      Bytes().header(1, 0).tensor("a.weight", {kValues, 1}, 19, 0).pad().data;
  const std::string input = directory.write("in.gguf", header);
  fs::resize_file(input, header.size() + kValues / 256 * 50);
  const Result result = cria({"quantize", input, directory.path("out.gguf"), "F32"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("not enough space on the disk: expected 4398046511"), std::string::npos)
      << result.err;
  EXPECT_EQ(files_in(directory), 1);
}

TEST(Quantize, TakesTensorsOfAnyName) {
  const TempDirectory directory;
  for (const char* const name : {"attn_k", "attn_k.weight", "blk.0.attn_k", ".weight", "q"}) {
    const std::string header = Bytes().header(1, 0).tensor(name, {32, 2}, 0, 0).pad().data;
    const std::string input = directory.write("in.gguf", header + std::string(256, '\0'));
    const Result result = cria({"quantize", input, directory.path("out.gguf"), "Q8_0"});
    EXPECT_EQ(result.code, 0) << name << ": " << result.err;
  }
}

TEST(Quantize, TakesASplitModel) {
  const TempDirectory directory;
  const std::string f16 = demo_f16(directory);
  ASSERT_EQ(cria({"split", f16, directory.path("part"), "--max-tensors", "30"}).code, 0);
  ASSERT_EQ(
      cria({"quantize", directory.path("part-00001-of-00003.gguf"), directory.path("a"), "Q8_0"})
          .code,
      0);
  ASSERT_EQ(cria({"quantize", f16, directory.path("b"), "Q8_0"}).code, 0);
  EXPECT_EQ(read_file(directory.path("a")), read_file(directory.path("b")));
  const Result same = cria({"quantize", directory.path("part-00001-of-00003.gguf"),
                            directory.path("part-00003-of-00003.gguf"), "Q8_0"});
  EXPECT_NE(same.err.find("it is the input itself"), std::string::npos) << same.err;
}

}  // namespace
}  // namespace cria::test
