// The frame of the program: help, version, wrong usage, and what is generated from its
// declarations.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/tools/hf_directory.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

const std::vector<std::string> kSubcommands = {
    "chat",   "run",     "tokenize", "embed", "rerank", "perplexity", "sweep",
    "logits", "dequant", "inspect",  "bench", "plan",   "edit",       "completion",
    "man",    "list",    "config",   "help",  "version"};

TEST(CommandLine, VersionIsOneLine) {
  const Result result = cria({"--version"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.find("cria 0."), 0U);
  EXPECT_NE(result.out.find(", scalar"),
            std::string::npos);  // the instruction sets, the last of them
  EXPECT_EQ(count_lines(result.out), 1U);
}

TEST(CommandLine, EverySubcommandHasHelpWithAnExample) {
  const std::string overview = cria({"--help"}).out;
  for (const std::string& name : kSubcommands) {
    EXPECT_NE(overview.find("\n  " + name), std::string::npos) << name;
    const Result help = cria({name, "--help"});
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_EQ(help.err, "") << name;
    const std::size_t example = help.out.find("Example");
    ASSERT_NE(example, std::string::npos) << name;
    EXPECT_NE(help.out.find(name, example), std::string::npos) << name;
    EXPECT_EQ(help.out.find(" N:"), std::string::npos) << "a check names itself: " << help.out;
  }
}

// The first screen has what one needs; --help-all has the rest.
TEST(CommandLine, HelpBeginsWithTheCommonOptions) {
  const Result first = cria({"run", "--help"}), all = cria({"run", "--help-all"});
  EXPECT_LE(count_lines(first.out), 70U) << first.out;
  for (const std::string option : {"--model", "--temp", "--max-tokens", "--help-all", "Examples:"})
    EXPECT_NE(first.out.find(option), std::string::npos) << option;
  EXPECT_EQ(first.out.find("--yarn-beta-fast"), std::string::npos);
  EXPECT_NE(all.out.find("--yarn-beta-fast"), std::string::npos);
  const std::string embed = cria({"embed", "--help"}).out;
  EXPECT_NE(embed.find("--pooling"), std::string::npos);
  EXPECT_EQ(embed.find("--rope-scale"), std::string::npos);
  EXPECT_NE(embed.find("--help-all shows 19 more options: Model and memory"), std::string::npos);
  EXPECT_EQ(cria({"list", "--help-all"}).out, cria({"list", "--help"}).out);
}

TEST(CommandLine, HelpShowsDefaultsOfListsInOneBracket) {
  const std::string help = cria({"plan", "--help"}).out;
  EXPECT_NE(help.find(" [1,2,4,8,16,32]"), std::string::npos) << help;
}

TEST(CommandLine, WrongUsageIsOneLineAndExitCode2) {
  const std::vector<std::vector<std::string>> wrong = {
      {"run", "--no-such-option"},
      {"run", "-p", "a", "-t", "0"},
      {"run", "-p", "a", "-t", "1025"},
      {"run", "-p", "a", "-b", "4097"},
      {"bench", "--threads-prefill", "1025"},
      {"bench", "-b", "4097"},
      {"run", "-p", "a", "--temp", "warm"},
      {"run", "-p", "a", "-f", "b"},
      {"run", "-p", "a", "--kv-type", "f64"},
      {"run", "-p", "a", "--logit-bias", "x"},
      {"run", "-p", "a", "--logit-bias", "5"},
      {"run", "-p", "a", "--logit-bias", "5+"},
      {"logits", "-o", "x"},
      {"logits", "--tokens", "1"},
      {"dequant"},
      {"dequant", "Q9_Z"},
      {"completion", "powershell"},
      {"inspect", "a.gguf", "-m", "b.gguf"},
      {"edit", "a.gguf"},
      {"edit", "a.gguf", "b.gguf"},
  };
  for (const auto& arguments : wrong) {
    const Result result = cria(arguments);
    const std::string label = arguments.empty() ? "nothing" : arguments.back();
    EXPECT_EQ(result.code, 2) << label;
    EXPECT_EQ(result.out, "") << label;
    EXPECT_EQ(result.err.find("cria: error: "), 0U) << label << ": " << result.err;
    EXPECT_EQ(count_lines(result.err), 1U) << label << ": " << result.err;
  }
}

// An option that would have no effect is an error.
TEST(CommandLine, RejectsOptionsWithoutEffect) {
  const std::vector<std::vector<std::string>> wrong = {
      {"bench", "-p", "8,16", "-n", "2", "--parallel", "2"},
      {"bench", "-n", "2,4", "--speculate-rates", "50"},
      {"bench", "-p", "8,16", "--tune"},
      {"bench", "-d", "0,4", "--verify", "2"},
      {"bench", "-p", "8", "--verify", "2"},
      {"bench", "-d", "4", "--parallel", "2"},
      {"bench", "--threads-prefill", "1", "--parallel", "2"},
      {"bench", "--json", "--md"},
      {"bench", "--csv", "--md"},
      {"bench", "--write", "file"},
      {"plan", "--json", "--csv"},
      {"run", "--logprobs", "2", "hi"},
      {"serve", "--profile"},
      {"inspect", kDemo, "--diff", kDemo, "--check"},
      {"inspect", kDemo, "--diff", kDemo, "--kv"},
      {"chat", "--no-template", "--chat-template", "chatml"},
      {"merge", kDemo, "out", "--type", "f16"},
      {"tokenize", "--json", "--ids", "-p", "a"},
      {"tokenize", "--decode", "--no-bos", "-p", "4"},
  };
  for (const auto& arguments : wrong) {
    const Result result = cria(arguments);
    const std::string label = arguments[0] + " " + arguments.back();
    EXPECT_EQ(result.code, 2) << label;
    EXPECT_EQ(result.out, "") << label;
    EXPECT_EQ(count_lines(result.err), 1U) << label << ": " << result.err;
  }
}

TEST(CommandLine, RefusesToWriteModelsToStdout) {
  const std::vector<std::vector<std::string>> wrong = {
      {"quantize", kDemo, "-", "Q4_0"},
      {"merge", kDemo, "-"},
      {"edit", kDemo, "-", "--remove", "x"},
      {"convert", ".", "-o", "-"},
      {"imatrix", "-o", "-"},
  };
  for (const auto& arguments : wrong) {
    const Result result = cria(arguments);
    EXPECT_EQ(result.code, 2) << arguments[0];
    EXPECT_NE(result.err.find("this is not written to stdout"), std::string::npos) << result.err;
  }
}

TEST(CommandLine, UnknownInstructionSetIsNamed) {
  const Result result = cria({"run", "-p", "a"}, "", {"CRIA_ISA=abacus"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err.find("cria: error: CRIA_ISA=abacus names no instruction set"), 0U)
      << result.err;
  EXPECT_NE(result.err.find("scalar"), std::string::npos) << result.err;
  EXPECT_EQ(cria({"inspect", "--cpu"}, "", {"CRIA_ISA=abacus"}).err, result.err);
}

// Includes commands that load no model or need kernels late. None leaves files behind.
TEST(CommandLine, EveryComputingCommandNamesAnUnknownIsa) {
  const TempDirectory directory, hugging_face;
  const std::string out = directory.path("out"),
                    text = directory.write("text", std::string(3000, 'a'));
  const std::vector<std::vector<std::string>> commands = {
      {"quantize", kDemo, out, "Q4_0", "--allow-requantize"},
      {"convert", HfDirectory().write(hugging_face), "-o", out},
      {"export", kDemo, "-o", out},
      {"imatrix", "-f", text, "-o", out},
      {"perplexity", "-f", text},
      {"sweep", "-m", kDemo, "-f", text, "-o", out, "--types", "Q4_0"},
      {"bench", "-p", "8", "-n", "1", "-r", "1"},
      {"bench", "--tune", "-p", "8", "-n", "1", "-r", "1"}};
  for (const auto& arguments : commands) {
    const Result result = cria(arguments, "", {"CRIA_ISA=abacus"});
    EXPECT_EQ(result.code, 2) << arguments[0];
    EXPECT_EQ(result.out, "") << arguments[0];
    EXPECT_EQ(result.err.find("cria: error: CRIA_ISA=abacus names no instruction set"), 0U)
        << arguments[0] << ": " << result.err;
    EXPECT_FALSE(std::filesystem::exists(out)) << arguments[0];
  }
}

TEST(CommandLine, CompletionsKnowSubcommandsOptionsAndChoices) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Result result = cria({"completion", shell});
    EXPECT_EQ(result.code, 0);
    for (const std::string& name : kSubcommands)
      EXPECT_NE(result.out.find(name), std::string::npos) << shell << name;
    EXPECT_NE(result.out.find("repeat-penalty"), std::string::npos) << shell;
    EXPECT_NE(result.out.find("f16 f32 q8_0"), std::string::npos) << shell;
  }
}

TEST(CommandLine, BashCompletesIt) {
  const TempDirectory directory;
  const std::string script = directory.write("completion", cria({"completion", "bash"}).out);
  const std::string out = directory.path("out");
  const std::string command =
      "bash -c '. " + script +
      "; COMP_WORDS=(cria run --repeat-p); COMP_CWORD=2; _cria; echo ${COMPREPLY[@]}; "
      "COMP_WORDS=(cria run --kv-type q); COMP_CWORD=3; _cria; echo ${COMPREPLY[@]}; "
      "COMP_WORDS=(cria completion b); COMP_CWORD=2; _cria; echo ${COMPREPLY[@]}; "
      "COMP_WORDS=(cria tok); COMP_CWORD=1; _cria; echo ${COMPREPLY[@]}' > " +
      out;
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_file(out), "--repeat-penalty\nq8_0\nbash\ntokenize\n");
}

TEST(CommandLine, BashCompletesFilesTypesAndTemplates) {
  const TempDirectory directory;
  const std::string script = directory.write("completion", cria({"completion", "bash"}).out);
  const std::string out = directory.path("out");
  const std::string work = directory.path("work");
  const std::string test = directory.write("test", ". " + script + R"(
complete_last() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cria; printf '[%s]' "${COMPREPLY[@]}"; echo; }
mkdir )" + work + R"( && cd )" + work + R"( && touch 'my model.gguf' 'my text.txt'
complete_last cria run -m my
complete_last cria run -m 'my\ mo'
complete_last cria run -f my
complete_last cria quantize 'my model.gguf' out.gguf Q4_K_
complete_last cria sweep --types IQ4_
complete_last cria dequant TQ
complete_last cria chat --chat-template chatm
complete_last cria run --preset ex
complete_last cria help perp
)");
  ASSERT_EQ(std::system(("bash " + test + " > " + out).c_str()), 0);
  EXPECT_EQ(read_file(out),
            "[my model.gguf]\n[my model.gguf]\n[my model.gguf][my text.txt]\n[Q4_K_M][Q4_K_S]\n"
            "[IQ4_NL][IQ4_XS][IQ4_KS][IQ4_K][IQ4_KSS]\n[TQ1_0][TQ2_0]\n[chatml]\n[exact]\n["
            "perplexity]\n");
}

TEST(CommandLine, ZshSourcesIt) {
  const std::string script = cria({"completion", "zsh"}).out;
  EXPECT_EQ(script.find("#compdef cria\n"), 0U);
  EXPECT_NE(script.find("\n  compdef _cria cria\n"), std::string::npos)
      << "for a script that is sourced";
  EXPECT_EQ(script.find("\n_cria \"$@\"\n"), std::string::npos) << "called by completion alone";
}

// _arguments takes at most one rest argument, which must come last.
TEST(CommandLine, ZshKnowsThePlacesOfArguments) {
  const std::string script = cria({"completion", "zsh"}).out;
  const auto arguments = [&](const std::string& name) {
    const std::size_t begin = script.find("\n    " + name + ")\n");
    std::istringstream lines(script.substr(begin, script.find(";;\n", begin) - begin));
    std::string all;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("        '") && line[10] == ':') all += line[9];
    return all;
  };
  EXPECT_EQ(arguments("quantize"), "123");
  EXPECT_EQ(arguments("merge"), "12");
  EXPECT_EQ(arguments("inspect"), "1");
  EXPECT_EQ(arguments("sweep"), "*");
}

TEST(CommandLine, ManualListsEverySubcommandAndOption) {
  const Result result = cria({"man"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.find(".TH CRIA 1"), 0U);
  for (const std::string& name : kSubcommands)
    EXPECT_NE(result.out.find(".SS cria " + name), std::string::npos) << name;
  EXPECT_NE(result.out.find("\\-\\-repeat\\-penalty"), std::string::npos);
  EXPECT_NE(result.out.find(".SH EXIT STATUS"), std::string::npos);
}

TEST(CommandLine, ManualFitsATerminal) {
  std::istringstream lines(cria({"man"}).out);
  bool broken_here = true;  // by troff; else lines are shown as they stand
  for (std::string line; std::getline(lines, line);) {
    if (line == ".nf" || line == ".fi") broken_here = line == ".fi";
    std::size_t columns = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\\' && line[++i] == '&') continue;  // nothing; "\-" and "\e" are a character
      columns += (static_cast<unsigned char>(line[i]) & 0xC0) == 0x80 ? 0 : 1;
    }
    EXPECT_TRUE(broken_here || columns <= 72) << line;
  }
}

}  // namespace
}  // namespace cria::test
