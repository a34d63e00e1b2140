// Faults of the system: truncated files, full disks, refused memory, signals, closed readers, old
// locales. The program writes one clear line or nothing, and never a partial file.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <set>

#include "model/gguf/gguf.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

using Output = Surroundings::Output;
using Arguments = std::vector<std::string>;

const Arguments kEndless = {"run",    "--raw", "-p",           " The river",
                            "--temp", "0",     "--ignore-eos", "--context-shift"};

Arguments operator+(Arguments list, const Arguments& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

void expect_one_line(const Result& result, const std::string& says, const std::string& label) {
  EXPECT_EQ(result.code, 1) << label << result.err;
  EXPECT_EQ(result.err.find("cria: error: "), 0U) << label << result.err;
  EXPECT_NE(result.err.find(says), std::string::npos) << label << result.err;
  EXPECT_EQ(count_lines(result.err), 1U) << label << result.err;
}

std::string prose() {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += " The river rises in the mountains and flows into the sea .";
  return text;
}

/// Commands that answer on stdout, with small work.
std::vector<Arguments> answering(const TempDirectory& directory) {
  const std::string text = directory.write("text", prose());
  return {
      {"run", "-p", "Hello", "-n", "2"},
      {"run", "-p", "Hello", "-n", "2", "--json"},
      {"chat", "-n", "2"},
      {"tokenize", "-p", "Hello"},
      {"template", "-p", "Hello"},
      {"inspect", kDemo, "--tensors"},
      {"perplexity", "-f", text, "-c", "32", "--chunks", "1"},
      {"bench", "-p", "4", "-n", "1", "-r", "1"},
      {"imatrix", "-f", text, "-c", "32", "--chunks", "1", "-o", directory.path("imatrix.gguf")},
      {"quantize", kDemo, directory.path("out.gguf"), "Q8_0", "--dry-run"},
      {"completion", "bash"},
      {"man"},
      {"--help"},
      {"run", "--help"},
      {"--version"}};
}

/// A command whose text is a file reads no stdin.
std::string_view input_of(const Arguments& arguments) {
  return std::ranges::find(arguments, "-f") == arguments.end() ? "hello\n" : "";
}

TEST(Faults, AFullStdoutIsOneLine) {
  const TempDirectory directory;
  for (const Arguments& arguments : answering(directory))
    expect_one_line(cria_in({.input = input_of(arguments), .output = Output::Full}, arguments),
                    "stdout: cannot be written: No space left on device", arguments[0] + ": ");
}

TEST(Faults, AClosedStdoutIsOneLine) {
  const TempDirectory directory;
  for (const Arguments& arguments : answering(directory))
    expect_one_line(cria_in({.input = input_of(arguments), .output = Output::Closed}, arguments),
                    "stdout: cannot be written: Bad file descriptor", arguments[0] + ": ");
}

TEST(Faults, AClosedPipeIsSuccess) {
  const TempDirectory directory;
  for (const Arguments& arguments : answering(directory)) {
    const Result result =
        cria_in({.input = input_of(arguments), .output = Output::NoReader}, arguments);
    EXPECT_EQ(result.code, 141) << arguments[0];
    EXPECT_EQ(result.err, "") << arguments[0];
  }
  const Result endless = cria_in({.output = Output::NoReader}, kEndless);
  EXPECT_EQ(endless.code, 141);
  EXPECT_EQ(endless.err, "");
}

TEST(Faults, OutputFilesDoNotTakeThePlaceOfClosedDescriptors) {
  const TempDirectory directory;
  const auto logits = [&](const std::string& name, const Surroundings& around) {
    const Result result =
        cria_in(around, {"logits", "--tokens", "1,300,301", "-o", directory.path(name), "-v"});
    EXPECT_EQ(result.code, 0) << result.err;
    return read_file(directory.path(name));
  };
  const std::string want = logits("whole", {});
  EXPECT_EQ(want.size(), 3U * 4096 * 4);
  EXPECT_EQ(logits("no stdout", {.output = Output::Closed}), want);
  EXPECT_EQ(logits("neither", {.output = Output::Closed, .input_closed = true}), want);
}

TEST(Faults, AClosedStdinIsAnErrorOfReading) {
  expect_one_line(cria_in({.input_closed = true}, {"run", "-n", "1"}), "stdin: cannot be read", "");
}

class ShrinkingFile : public testing::Test {
 protected:
  void shrink() const { std::filesystem::resize_file(model_, 1 << 16); }
  void expect_message(const std::string& text) const {
    EXPECT_NE(text.find("cria: error: " + std::filesystem::canonical(model_).string() +
                        ": the file shrank, or its disk failed, while it was in use (at byte "),
              std::string::npos)
        << text;
  }

  const TempDirectory directory_;
  const std::string model_ = directory_.write("model.gguf", read_file(kDemo));
};

TEST_F(ShrinkingFile, IsReportedInOneLine) {
  for (const std::string threads : {"1", "2"}) {
    directory_.write("model.gguf", read_file(kDemo));
    const std::string errors = directory_.path("err" + threads);
    Child child(Child::Kind::Pipe, kEndless + Arguments{"-m", model_, "-t", threads}, {}, errors);
    ASSERT_TRUE(child.wait_for(" "));
    shrink();
    EXPECT_EQ(child.exit_code(), 1);
    expect_message(read_file(errors));
    EXPECT_EQ(count_lines(read_file(errors)), 1U);
  }
}

TEST_F(ShrinkingFile, LeavesTheTerminalAsItWas) {
  Child child(Child::Kind::Terminal, {"chat", "-m", model_, "--temp", "0"},
              {"TERM=xterm", "NO_COLOR=1", "HOME=" + directory_.path(),
               "XDG_STATE_HOME=" + directory_.path()});
  ASSERT_TRUE(child.wait_for("> "));
  shrink();
  child.send("hello\r");
  EXPECT_EQ(child.exit_code(), 1);
  expect_message(child.output());
  EXPECT_TRUE(child.terminal_is_cooked());
}

TEST_F(ShrinkingFile, MattersNotWhereItWasRead) {
  Child child(Child::Kind::Pipe, kEndless + Arguments{"-m", model_, "--no-mmap"});
  ASSERT_TRUE(child.wait_for(" "));
  shrink();
  ASSERT_TRUE(child.wait_for(" "));
  child.signal(SIGTERM);
  EXPECT_EQ(child.exit_code(), 143);
}

TEST(Faults, ABusErrorOfAnotherKindIsTheSystems) {
  Child child(Child::Kind::Pipe, kEndless);
  ASSERT_TRUE(child.wait_for(" "));
  child.signal(SIGBUS);
  EXPECT_EQ(child.exit_code(), 128 + SIGBUS);
}

/// Writes the demo model with a NaN as a scale of one tensor.
std::string with_bad_scale(const TempDirectory& directory, std::string_view tensor) {
  std::string bytes = read_file(kDemo);
  const GgufFile file = GgufFile::open(kDemo);
  for (const TensorView& view : file.tensors()) {
    if (view.name != tensor) continue;
    const std::string_view data(reinterpret_cast<const char*>(view.data), view.bytes);
    bytes.replace(bytes.find(data), 2, "\x00\x7E", 2);  // the first block's scale: a NaN in F16
  }
  return directory.write("bad.gguf", bytes);
}

TEST(Faults, EveryCommandReportsNansInOneLine) {
  const TempDirectory directory;
  const std::string model = with_bad_scale(directory, "blk.3.ffn_down.weight");
  const std::string text = directory.write("text", prose()), out = directory.path("out");
  for (const Arguments& arguments :
       std::vector<Arguments>{{"run", "-p", "Hello", "-n", "2"},
                              {"chat", "-n", "2"},
                              {"perplexity", "-f", text, "-c", "32", "--chunks", "1"},
                              {"logits", "--tokens", "1,300", "-o", out},
                              {"bench", "-p", "4", "-n", "1", "-r", "1"},
                              {"imatrix", "-f", text, "-c", "32", "--chunks", "1", "-o", out}}) {
    const Result result = cria(arguments + Arguments{"-m", model}, input_of(arguments));
    expect_one_line(result, model + ": ", arguments[0] + ": ");
    EXPECT_NE(result.err.find("(node blk."), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "") << arguments[0];
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

/// A model's file without its chat template: the key has another name.
std::string without_template(const TempDirectory& directory, std::string bytes) {
  const std::string key = "tokenizer.chat_template";
  bytes.replace(bytes.find(key), key.size(), "tokenizer.no_template_!");
  return directory.write("bare.gguf", bytes);
}

TEST(Faults, ReportsAMissingTemplate) {
  const TempDirectory directory;
  const std::string bare = without_template(directory, read_file(kDemo));
  const Arguments plain = {"run", "-p", "hello", "-n", "1", "--temp", "0", "-m", bare};
  const Result without = cria(plain);
  EXPECT_EQ(without.err, "");
  for (const Arguments& more : {Arguments{"--no-think"},
                                {"--think"},
                                {"--reasoning-effort", "low"},
                                {"--chat-template-kwargs", "{}"},
                                {"--tool-format", "hermes"}}) {
    const Result result = cria(plain + more);
    EXPECT_EQ(result.out, without.out);
    EXPECT_EQ(result.err,
              "cria: note: " + more[0] +
                  " changes nothing: this model has no chat template (--chat uses a plain one)\n");
  }
}

TEST(Faults, ANoteOfTheTemplateDoesNotPrecedeAnError) {
  const TempDirectory directory;
  const std::string good = without_template(directory, read_file(kDemo));
  for (const Arguments& arguments :
       {Arguments{"run", "--chat", "-p", "hello", "-n", "1", "-m", good},
        {"chat", "-n", "1", "-m", good}}) {
    const Result result = cria(arguments, "hello\nhello\n");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err.find("cria: note: the model has no chat template"), 0U) << result.err;
    EXPECT_EQ(count_lines(result.err), 1U) << result.err;
    expect_one_line(cria(arguments + Arguments{"-c", "2"}, "hello\n"), "", arguments[0] + ": ");
  }
  const std::string bad =
      without_template(directory, read_file(with_bad_scale(directory, "blk.3.ffn_down.weight")));
  for (const Arguments& arguments :
       {Arguments{"run", "--chat", "-p", "hello", "-m", bad}, {"chat", "-m", bad}})
    expect_one_line(cria(arguments, "hello\n"), "not a finite number", arguments[0] + ": ");
}

TEST(Faults, FullDisksLeaveNoFile) {
  const TempDirectory directory;
  const std::string text = directory.write("text", prose()), out = directory.path("out");
  const std::vector<Arguments> writing = {
      {"quantize", kDemo, out, "Q8_0"},
      {"imatrix", "-f", text, "-c", "32", "--chunks", "1", "-o", out},
      {"logits", "--tokens", "1,300,301", "-o", out},
      {"perplexity", "-f", text, "-c", "32", "--chunks", "2", "--save-logits", out},
      {"run", "-p", "Hello", "-n", "1", "--session", out},
      {"split", kDemo, out, "--max-tensors", "40"},
  };
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(directory.path()), {});
  };
  for (const Arguments& arguments : writing) {
    const Result result = cria_in({.file_size = 4096}, arguments);
    expect_one_line(result, "File too large", arguments[0] + ": ");
    EXPECT_EQ(files(), 1) << arguments[0];
    expect_one_line(
        cria_in({.output = Output::Full}, {"logits", "--tokens", "1", "-o", "/dev/full"}),
        "/dev/full: cannot write: No space left on device", "");
  }
}

TEST(Faults, ReportsFilesWithoutPermission) {
  const TempDirectory directory;
  const std::string model = directory.write("model.gguf", read_file(kDemo));
  chmod(model.c_str(), 0);
  for (const Arguments& arguments : {Arguments{"run", "-m", model, "-p", "x"},
                                     Arguments{"inspect", model}, Arguments{"run", "-f", model}})
    expect_one_line(cria_in({.obeys_permissions = true}, arguments), "Permission denied", "");
  std::filesystem::create_directory(directory.path("locked"));
  const std::string out = directory.path("locked/out");
  chmod(directory.path("locked").c_str(), 0500);
  for (const Arguments& arguments :
       {Arguments{"quantize", kDemo, out, "Q8_0"}, Arguments{"logits", "--tokens", "1", "-o", out},
        Arguments{"run", "-p", "x", "-n", "1", "--session", out}})
    expect_one_line(cria_in({.obeys_permissions = true}, arguments), "Permission denied",
                    arguments[0] + ": ");
}

#ifndef CRIA_SANITIZED  // sanitizers need an address space without limit
// From what barely holds the program to enough: an answer or one line.
TEST(Faults, WithoutMemoryThereIsOneLine) {
  const Arguments arguments = {"run", "-p", "Hello", "--temp", "0", "-n", "4", "-t", "3"};
  const std::string want = cria(arguments).out;
  std::set<int> codes;
  // The libraries take 9 MiB beside the program.
  const std::size_t least = (std::filesystem::file_size(program_path()) >> 20) + 9;
  for (std::size_t mib = least; mib <= 640; mib += mib < 64 ? 4 : mib < 160 ? 16 : 96) {
    const Result result = cria_in({.address_space = mib << 20}, arguments);
    const std::string label = std::to_string(mib) + " MiB: ";
    codes.insert(result.code);
    if (result.code == 0) {
      EXPECT_EQ(result.out, want) << label;
    } else {
      expect_one_line(result, "", label);
    }
  }
  EXPECT_EQ(codes, (std::set<int>{0, 1}));
}

TEST(Faults, RejectsAnOversizedContext) {
  expect_one_line(
      cria_in({.address_space = std::size_t{600} << 20}, {"run", "-p", "x", "-c", "16777216"}),
      "not enough memory", "");
}
#endif

/// Long commands and what they may leave in their directory when a signal ends them.
struct LongCommand {
  Arguments arguments;
  std::set<std::string> leaves;
};

TEST(Faults, SignalsLeaveCompleteFilesOrNone) {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (unsigned moment = 0; moment < 6; ++moment) {
      const TempDirectory directory;
      const std::string text = directory.write("text", prose() + prose());
      const std::vector<LongCommand> commands = {
          {kEndless, {}},
          {kEndless + Arguments{"--session", directory.path("session")}, {"session"}},
          {{"perplexity", "-f", text, "-c", "64", "--save-logits", directory.path("logits")}, {}},
          {{"imatrix", "-f", text, "-c", "64", "-o", directory.path("imatrix.gguf"), "--state",
            directory.path("state")},
           {"state"}},
          {{"logits", "--tokens", "1,2,3,4", "-o", directory.path("out.f32")}, {"out.f32"}},
          {{"bench", "-p", "512", "-n", "64", "-r", "50"}, {}},
      };
      for (const LongCommand& command : commands) {
        const std::string errors = directory.path("stderr");
        Child child(Child::Kind::Pipe, command.arguments, {}, errors);
        usleep(moment * moment * 3000);
        child.signal(signal);
        const int code = child.exit_code();
        EXPECT_TRUE(code == 128 + signal || code == 0) << command.arguments[0] << ": " << code;
        EXPECT_EQ(read_file(errors).find("error"), std::string::npos) << read_file(errors);
        for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
          const std::string name = entry.path().filename().string();
          EXPECT_TRUE(name == "text" || name == "stderr" || command.leaves.contains(name) ||
                      (code == 0 && !name.ends_with(".tmp")))
              << command.arguments[0] << " leaves " << name;
          if (name != "text") std::filesystem::remove(entry.path());
        }
      }
    }
  }
}

TEST(Faults, KeepsOutputFromBeforeASignal) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}}) {
    Child child(Child::Kind::Pipe, kEndless);
    ASSERT_TRUE(child.wait_for(" "));
    child.signal(signal);
    EXPECT_EQ(child.exit_code(), code);
    EXPECT_GT(child.output().size(), 1U);
  }
}

// The pipe is full and its reader sleeps. The program is blocked in write, and must end
// nevertheless.
TEST(Faults, SignalsEndABlockedProgram) {
  Child child(Child::Kind::Pipe,
              {"logits", "--tokens", "1,2,3,4,5,6,7,8,9,10", "-o", "/dev/stdout"});
  ASSERT_TRUE(child.wait_for(std::string_view("\0", 1)));
  child.signal(SIGTERM);
  child.signal(SIGTERM);
  EXPECT_EQ(child.exit_code(), 143);
}

TEST(Faults, ContinuesAfterSleeping) {
  const Arguments arguments = {"run", "--raw",        "-p", " The river", "--temp",
                               "0",   "--ignore-eos", "-n", "60"};
  const std::string want = cria(arguments).out;
  Child child(Child::Kind::Pipe, arguments);
  for (int i = 0; i < 20; ++i) {
    child.signal(SIGSTOP);
    child.signal(SIGCONT);
    child.signal(SIGWINCH);
    usleep(2000);
  }
  EXPECT_EQ(child.exit_code(), 0);
  EXPECT_EQ(child.output(), want);
}

TEST(Faults, ChatOnATerminalEndsWithTheSignalAndLeavesItCooked) {
  const TempDirectory directory;
  const Arguments environment = {"TERM=xterm", "NO_COLOR=1", "HOME=" + directory.path(),
                                 "XDG_STATE_HOME=" + directory.path()};
  for (const bool answering : {false, true}) {
    for (const auto& [signal, code] : {std::pair{SIGTERM, 143}, {SIGHUP, 129}}) {
      Child child(Child::Kind::Terminal, {"chat", "--temp", "0", "--ignore-eos", "--context-shift"},
                  environment);
      ASSERT_TRUE(child.wait_for("> "));
      child.send(answering ? "hello\r" : "half a line");
      ASSERT_TRUE(child.wait_for(answering ? "Hello!" : "line"));
      child.signal(signal);
      EXPECT_EQ(child.exit_code(), code);
      EXPECT_TRUE(child.terminal_is_cooked());
    }
  }
}

TEST(Faults, InputInPiecesIsTheSameInput) {
  const std::string text =
      "Grüße aus Zürich: ein Fluß — 水は流れる 🦙 und mehr.\n" + prose().substr(0, 60);
  for (const Arguments& arguments : {Arguments{"tokenize", "--ids"}, Arguments{"tokenize"},
                                     Arguments{"run", "-n", "3", "--temp", "0"}})
    EXPECT_EQ(cria_in({.input = text, .piecemeal = true}, arguments).out,
              cria(arguments, text).out);
  const std::string blocks = read_file(kDemo).substr(1 << 20, 34 * 10);
  EXPECT_EQ(cria_in({.input = blocks, .piecemeal = true}, {"dequant", "Q8_0"}).out,
            cria({"dequant", "Q8_0"}, blocks).out);
  const std::string talk = "hello\nWhat colour is grass?\n";
  EXPECT_EQ(cria_in({.input = talk, .piecemeal = true}, {"chat", "--temp", "0"}).out,
            cria({"chat", "--temp", "0"}, talk).out);
}

// Text is bytes of UTF-8 whatever the locale calls letters.
TEST(Faults, TheLocaleChangesNoByte) {
  const TempDirectory directory;
  const std::string latin1 = directory.path("xx_XX.ISO-8859-1");
  const std::string make = "localedef -c -i de_DE -f ISO-8859-1 " + latin1 + " >/dev/null 2>&1";
  std::vector<Arguments> locales = {{"LC_ALL=C"}, {"LC_ALL=no_SUCH.locale"}, {"LC_ALL=", "LANG="}};
  if (std::system(make.c_str()) ==
      0)  // where the sources of locales are installed: one whose comma is decimal
    locales.push_back({"LOCPATH=" + directory.path(), "LC_ALL=xx_XX.ISO-8859-1"});
  const std::string text = "Grüße — 水 \xE4\xFF 🦙";
  const std::vector<Arguments> commands = {
      {"tokenize", "-p", text},
      {"tokenize", "--json", "-p", text},
      {"run", "--temp", "0", "-n", "8", "-p", text},
      {"run", "--temp", "0.7", "--top-p", "0.95", "--seed", "7", "-n", "8", "-p", text},
      {"inspect", kDemo, "--json"},
      {"chat", "--temp", "0"}};
  for (const Arguments& command : commands) {
    const Result want = cria(command, "Wie heißt du? 水\n", {"LC_ALL=C.UTF-8"});
    EXPECT_EQ(want.code, 0) << want.err;
    for (const Arguments& locale : locales) {
      const Result got = cria(command, "Wie heißt du? 水\n", locale);
      EXPECT_EQ(got.out, want.out) << command[0] << " with " << locale.back();
      EXPECT_EQ(got.err, want.err) << command[0] << " with " << locale.back();
    }
  }
}

TEST(Faults, ALineTypedInAnotherLocaleIsUtf8) {
  const TempDirectory directory;
  const std::string talk = directory.path("talk.json");
  Child child(Child::Kind::Terminal, {"chat", "--temp", "0", "-n", "1"},
              {"TERM=xterm", "NO_COLOR=1", "LC_ALL=C", "HOME=" + directory.path(),
               "XDG_STATE_HOME=" + directory.path()});
  ASSERT_TRUE(child.wait_for("> "));
  child.send("Grüße 水\r");
  ASSERT_TRUE(child.wait_for("\n> ")) << child.output();
  child.send("/save " + talk + "\r");
  ASSERT_TRUE(child.wait_for("saved")) << child.output();
  EXPECT_NE(read_file(talk).find("Grüße 水"), std::string::npos) << read_file(talk);
}

}  // namespace
}  // namespace cria::test
