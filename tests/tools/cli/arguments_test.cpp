// Unknown names, names of llama.cpp and invalid values: the message, and exit code 2.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/process.h"
#include "tools/cli/command_line.h"
#include "tools/options/values.h"

namespace cria::test {
namespace {

/// Expects a usage error with all these texts in it.
void expect_usage_error(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& texts) {
  const Result result = cria(arguments);
  const std::string label = arguments.empty() ? "nothing" : arguments.back();
  EXPECT_EQ(result.code, 2) << label << result.err;
  EXPECT_EQ(result.out, "") << label;
  EXPECT_EQ(result.err.find("cria: error: "), 0U) << result.err;
  for (const std::string& text : texts)
    EXPECT_NE(result.err.find(text), std::string::npos)
        << "no \"" << text << "\" in: " << result.err;
}

TEST(Arguments, UnknownCommandsAreNamedWithTheNearestAndAList) {
  expect_usage_error({}, {"a command is missing", "\n  chat ", "\n  list "});
  expect_usage_error({"rnu"},
                     {"unknown command: rnu; did you mean run? (cria help lists the commands)"});
  expect_usage_error({"perplexty"}, {"did you mean perplexity?"});
  expect_usage_error({"-m", "x.gguf"},
                     {"put a command before -m, for example: cria run -m x.gguf (cria help lists"});
  expect_usage_error({"--"}, {"put a command before --, for example: cria run --"});
  expect_usage_error({"--list"}, {"cria has no option --list; did you mean cria list?"});
  expect_usage_error({"--models"}, {"cria has no option --models; did you mean list?"});
  expect_usage_error({"Hi there"},
                     {"unknown command: Hi there; did you mean cria run 'Hi there'?"});
  expect_usage_error({"help", "rnu"}, {"did you mean run?"});
  expect_usage_error({"config", "rnu"}, {"did you mean run?"});
}

TEST(Arguments, HelpAndVersionAreCommandsToo) {
  EXPECT_EQ(cria({"help"}).out, cria({"--help"}).out);
  EXPECT_EQ(cria({"help", "quantize"}).out, cria({"quantize", "--help"}).out);
  EXPECT_EQ(cria({"version"}).out, cria({"--version"}).out);
  const std::vector<std::vector<std::string>> versions = {
      {"-v"}, {"-V"}, {"run", "--version"}, {"bench", "-V"}};
  for (const auto& asked : versions)
    EXPECT_EQ(cria(asked).out, cria({"--version"}).out) << asked.front();
  EXPECT_EQ(cria({"help"}).code, 0);
}

TEST(Arguments, UnknownOptionsAreNamedWithTheNearest) {
  expect_usage_error({"run", "--tmep", "0"},
                     {"cria run has no option --tmep; did you mean --temp?"});
  expect_usage_error({"run", "--temprature", "0"}, {"did you mean --temperature?"});
  expect_usage_error({"run", "--tmep=0"}, {"no option --tmep; did you mean --temp?"});
  expect_usage_error({"perplexity", "--chunk", "3"}, {"did you mean --chunks?"});
  expect_usage_error({"dequant", "--wibbly"}, {"cria dequant has no option --wibbly"});
  EXPECT_EQ(cria({"dequant", "--wibbly"}).err.find("did you mean"), std::string::npos);
  expect_usage_error({"run", "- one"},
                     {"no option - one (put -- before a text that begins with a hyphen)"});
  expect_usage_error({"run", "-hello"}, {"did you mean --help? (put -- before a text that begins"});
  EXPECT_EQ(cria({"run", "-n", "1", "--", "- one"}).code, 0);
  EXPECT_EQ(cria({"tokenize", "- one"}).err.find("put --"), std::string::npos);
  expect_usage_error({"tokenize", "one"}, {"unexpected argument: one (-p TEXT takes a text)"});
  expect_usage_error({"merge", "a", "b", "c"}, {"unexpected argument: c (the first part of a"});
  expect_usage_error({"list", "one", "two"}, {"unexpected argument: two (see cria list --help)"});
}

TEST(Arguments, HintsOfTheProgramItself) {
  expect_usage_error({"--hlep"}, {"cria has no option --hlep; did you mean --help?"});
  expect_usage_error({"-help"}, {"did you mean --help?"});
  expect_usage_error({"serve", "--slots"},
                     {"--slots: needs a value: N, requests answered at once"});
  expect_usage_error({"run", "--rope-scale", "x"}, {"(see cria run --help-all)"});
  expect_usage_error({"run", "--temp", "x"}, {"(see cria run --help)"});
  expect_usage_error({"perplexity", "--kl-divergence"}, {"--compare FILE reads"});
  EXPECT_EQ(cria({"run", "-N", "5", "hi"}).err.find("did you mean"), std::string::npos);
  EXPECT_EQ(cria({"run", "Hi", "--tools", "[]", "-n", "1"}).code, 0);
  const Result repository = cria({"run", "Qwen/Qwen3-0.6B-GGUF", "Hi", "-n", "1"});
  EXPECT_NE(repository.err.find("-m Qwen/Qwen3-0.6B-GGUF would choose a model"), std::string::npos);
}

TEST(Arguments, FilesInPlaceOfTexts) {
  const TempDirectory directory;
  const std::string file = directory.write("kind.txt", "Be kind.");
  EXPECT_NE(cria({"run", "-s", file, "Hi", "-n", "1"}).err.find("\"$(cat " + file + ")\""),
            std::string::npos);
  EXPECT_EQ(cria({"tokenize", "-f", "/dev/stdin"}, "Hi").err, "");
  EXPECT_EQ(
      cria({"run", "--messages", "/dev/stdin", "-n", "1"}, R"([{"role": "user", "content": "Hi"}])")
          .code,
      0);
  const Result both = cria({"run", "Repeat:", "-", "-n", "1", "--show-prompt"}, "a word");
  EXPECT_NE(both.err.find("a word\n\nRepeat:"), std::string::npos) << both.err;
  EXPECT_EQ(both.err.find("Repeat: -"), std::string::npos);
}

TEST(Arguments, NotesTextsGivenTwice) {
  const std::vector<std::string> run = {"run", "-n", "1", "-p", "Hi"};
  const auto notes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), run.begin(), run.end());
    return cria(more).err;
  };
  const std::string note = "--system is given several times; the last one counts";
  EXPECT_NE(notes({"-s", "Be kind.", "-s", "Be short."}).find(note), std::string::npos);
  EXPECT_EQ(notes({"-s", "Be kind.", "-s", "Be kind."}).find("several times"), std::string::npos);
  EXPECT_EQ(notes({"--temp", "1", "--temp", "0"}).find("several times"), std::string::npos);
}

TEST(Arguments, NamesOfLlamaCppMeanTheSame) {
  const Result ours = cria({"run", "-p", "The river", "--max-tokens", "4", "--ctx", "64", "--batch",
                            "8", "--threads", "1", "--temp", "0", "--kv-type", "f32"});
  const Result theirs =
      cria({"run", "--prompt", "The river", "--n-predict", "4", "--ctx-size", "64", "--batch-size",
            "8", "--threads", "1", "--temp=0", "--color", "-ctk", "f32", "--no-display-prompt"});
  EXPECT_EQ(theirs.code, 0) << theirs.err;
  EXPECT_NE(theirs.out, "");
  EXPECT_EQ(theirs.out, ours.out);
  EXPECT_EQ(cria({"run", "-p", "The river", "-n", "4", "--temp", "0", "--top_k", "3"}).code, 0);
  const Result system =
      cria({"chat", "-sys", "You are kind.", "--show-prompt", "--temp", "0", "-n", "1"}, "Hi\n");
  EXPECT_NE(system.err.find("You are kind."), std::string::npos) << system.err;
  const TempDirectory directory;
  EXPECT_EQ(
      cria(
          {"split", "--split-max-size", "3M", kDemo, directory.path("part"), "--json", "--dry-run"})
          .out,
      cria({"split", "--max-size", "3M", kDemo, directory.path("part"), "--json", "--dry-run"})
          .out);
}

TEST(Arguments, NamesInapplicableOptions) {
  expect_usage_error({"quantize", "--keep-split", kDemo, "x.gguf", "F16"},
                     {"--keep-split does not apply", "cria split"});
  expect_usage_error({"quantize", "--leave-output-tensor", kDemo, "x.gguf", "F16"},
                     {"--output-type"});
  expect_usage_error({"run", "-hff", "x.gguf"}, {"-hff does not apply", "does not download"});
  const Result hub = cria({"run", "-hf", "org/name-GGUF:Q8_0", "-p", "Hi"});
  EXPECT_EQ(hub.code, 1);
  EXPECT_NE(hub.err.find("hf download org/name-GGUF --include '*Q8_0*'\n"), std::string::npos)
      << hub.err;
}

// An option may be the default of one command and not apply to another.
TEST(Arguments, ExplainsLlamaCppNamesByCommand) {
  expect_usage_error({"serve", "--log-disable"}, {"--log-disable does not apply", "2>/dev/null"});
  expect_usage_error({"chat", "--no-context-shift"},
                     {"--no-context-shift does not apply", "from a pipe"});
  expect_usage_error({"chat", "-st"}, {"-st does not apply: cria run answers one message"});
  expect_usage_error({"run", "--interactive"}, {"--interactive does not apply: cria chat"});
  EXPECT_EQ(cria({"run", "-st", "--no-context-shift", "--log-disable", "-n", "1", "a"}).code, 0);
  EXPECT_EQ(cria({"chat", "-i", "-n", "1"}, "a\n").code, 0);
}

// The answer is the same without them.
TEST(Arguments, ReportsHarmlessLlamaCppFlags) {
  const Result plain = cria({"run", "a", "-n", "4", "--temp", "0"});
  const Result more = cria({"run", "a", "-n", "4", "--temp", "0", "-ngl", "99", "-fa", "on", "-ub",
                            "512", "--device=none"});
  EXPECT_EQ(more.code, 0) << more.err;
  EXPECT_EQ(more.out, plain.out);
  EXPECT_NE(more.err.find("note: -ngl is ignored: cria runs on the CPU"), std::string::npos)
      << more.err;
}

// Keys and values have one type, so two different ones cannot be had.
TEST(Arguments, RejectsTwoValuesOfOneSetting) {
  expect_usage_error({"run", "-ctk", "f32", "-ctv", "q8_0", "a"},
                     {"-ctk f32 and -ctv q8_0 differ", "--kv-type"});
  EXPECT_EQ(cria({"run", "-ctk", "f32", "-ctv", "f32", "-n", "1", "a"}).code, 0);
  EXPECT_EQ(cria({"run", "-ctk", "f32", "-ctk", "q8_0", "-n", "1", "a"}).code, 0) << "the last";
}

TEST(Arguments, SaysWhatToDoForOtherValues) {
  expect_usage_error({"run", "-ctk", "q4_0", "a"}, {"f16, f32, q8_0", "q8_0 is the smallest"});
  expect_usage_error({"convert", "d", "--outtype", "q4_k_m"}, {"q8_0", "cria quantize"});
  expect_usage_error({"convert", "d", "--outfile", "m-{ftype}.gguf"}, {"{ftype} is not replaced"});
  expect_usage_error({"completion"}, {"SHELL is missing; choose bash, zsh, fish"});
}

TEST(Arguments, TakesAModelAsFirstArgument) {
  const Result named = cria({"run", "-m", kDemo, "Hi", "there", "-n", "4", "--temp", "0"});
  EXPECT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(cria({"run", kDemo, "Hi there", "-n", "4", "--temp", "0"}).out, named.out);
  EXPECT_EQ(cria({kDemo, "Hi", "there", "-n", "4", "--temp", "0"}).out, named.out);
  EXPECT_EQ(cria({"tokenize", kDemo, "--ids", "-p", "a"}).code, 0);
  EXPECT_EQ(cria({"run", "no-such.gguf"}).code, 1) << "it is not a prompt";
  const Result bench = cria({"bench", "cria-demo", "-p", "8", "-n", "0", "-r", "1"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_NE(cria({"serve", "Org/Name"}).err.find("hf download Org/Name"), std::string::npos);
  const Result text = cria({"run", "llama3.2", "Hi", "-n", "1"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.err.find("note: llama3.2 is part of the prompt; -m llama3.2"), std::string::npos);
  const Result part = cria({"run", "cria-dem", "Hi", "-n", "1"});
  EXPECT_NE(part.err.find("note: cria-dem is part of the prompt; -m cria-dem"), std::string::npos)
      << part.err;
  EXPECT_EQ(cria({"run", "Llamas", "eat", "-n", "1"}).err, "");
}

// Scripts with line ends of Windows.
TEST(Arguments, NameCarriageReturns) {
  const std::vector<std::vector<std::string>> scripts = {{"run\r"},
                                                         {"run", "Hi", "\r"},
                                                         {"run", "-m", "x.gguf\r"},
                                                         {"run", "a", "--temp=0\r"},
                                                         {"list", "--json\r"},
                                                         {"run", "a", "-n", "8\r"},
                                                         {"inspect", "x.gguf\r"}};
  for (const auto& words : scripts)
    expect_usage_error(words, {"ends with a carriage return", "sed -i"});
  const Result text = cria({"run", "-n", "1", "Hi\r"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.err.find("note: the text of PROMPT ends with a carriage return"),
            std::string::npos)
      << text.err;
}

// A long option with one hyphen is not a short one with a value.
TEST(Arguments, NameLongOptionsWithOneHyphen) {
  expect_usage_error({"run", "-verbose", "a"}, {"no option -verbose; did you mean --verbose?"});
  expect_usage_error({"run", "-model", "x"}, {"no option -model; did you mean --model?"});
  expect_usage_error({"run", "-prompt", "x"}, {"no option -prompt; did you mean --prompt?"});
  expect_usage_error({"run", "-temp", "0"}, {"no option -temp; did you mean --temp?"});
  expect_usage_error({"run", "-n-predict", "4"}, {"no option -n-predict"});
  expect_usage_error({"run", "-hello"}, {"no option -hello"});
  expect_usage_error({"run", "-sps", "0.5", "a"}, {"no option -sps"});
  EXPECT_EQ(cria({"run", "-vn1", "a"}).code, 0);
}

TEST(Arguments, HintsAtHabitsFromOtherPrograms) {
  expect_usage_error({"run", "--think=high", "a"}, {"--reasoning-effort high sets"});
  expect_usage_error({"serve", "--slots", "-a", "x"}, {"--slots: needs a value"});
  expect_usage_error({"run", "--sampling-seq", "kfypmxt", "a"}, {"is an order"});
  EXPECT_EQ(cria({"run", "--top-nsigma", "-1", "-n", "1", "a"}).code, 0);
  expect_usage_error({"export", "x", "dir"}, {"unexpected argument: dir (-o NAME is the output)"});
  expect_usage_error({"llama-quantize"}, {"did you mean quantize?"});
  expect_usage_error({"run", "-o", "x", "a"}, {"> FILE writes the answer"});
  expect_usage_error({"run", "-f", "x", "a"}, {"; \"$(cat FILE)\" puts a file into a text"});
  expect_usage_error({"template", "Hi"}, {"-p TEXT takes a text"});
  expect_usage_error({"batch", "x.jsonl"}, {"unexpected argument: x.jsonl (-i FILE takes"});
  expect_usage_error({"edit", "x", "general.name", "y"}, {"--set KEY=TYPE:VALUE"});
  expect_usage_error({"bench", "-p", "16-64+16"}, {"a list is written 16,32,64"});
  expect_usage_error({"bench", "-b", "64,128"}, {"it takes one value"});
  expect_usage_error({"quantize", "Q4_K_M", "a", "b"}, {"the order is IN OUT TYPE"});
  expect_usage_error({"quantize", kDemo, "b.gguf", "15"}, {"did you mean Q4_K_M?"});
  const std::pair<const char*, const char*> mixes[] = {
      {"q4km", "Q4_K_M"},       {"int4", "Q4_K_M"},        {"4bit", "Q4_K_M"},
      {"4", "Q4_K_M"},          {"AWQ", "Q4_K_M"},         {"W8A8", "Q8_0"},
      {"fp16", "F16"},          {"bfloat16", "BF16"},      {"int8", "Q8_0"},
      {"UD-Q4_K_XL", "Q4_K_M"}, {"ud-iq2_xxs", "IQ2_XXS"}, {"Q6_K_L", "Q6_K"},
      {"UD-Q8_K_XL", "Q8_0"},   {"q5_k_l", "Q5_K_M"},      {"Q4_0_4_4", "Q4_0"},
      {"IQ2_K_R4", "IQ2_K"},    {"MXFP4_MOE", "MXFP4"}};
  for (const auto& [theirs, ours] : mixes)
    expect_usage_error({"quantize", kDemo, "b.gguf", theirs},
                       {"did you mean " + std::string(ours) + "?"});
  expect_usage_error({"quantize", "-q", "Q4_K_M", kDemo}, {"the order is IN OUT TYPE"});
  expect_usage_error({"convert", "--remote", "a/b"}, {"hf download USER/REPO --local-dir DIR"});
  expect_usage_error({"convert", "--bigendian", "a"}, {"little-endian"});
  expect_usage_error({"serve", ":8081"}, {"set it by --port 8081"});
  expect_usage_error({"serve", "http://localhost:8081/"}, {"--host localhost --port 8081"});
  expect_usage_error({"serve", "--host", "localhost:8081"},
                     {"without the port, which --port sets", "; write --host localhost --port"});
  expect_usage_error({"serve", "--host", "[::1]:8081"}, {"without the port, which --port sets"});
  expect_usage_error({"serve", "--port", "localhost:8081"},
                     {"; write --host localhost --port 8081"});
  expect_usage_error({"serve", "--port", ":8081"}, {"; write --port 8081"});
  expect_usage_error({"serve", "-p", "8081"}, {"--host and --port set the address"});
  expect_usage_error({"serve", "-np", "-1"}, {"; the default is 4"});
  expect_usage_error({"serve", "--slots", "auto"}, {"; the default is 4"});
  expect_usage_error({"run", "--lora-scaled", "a.gguf", "0.5"}, {"write a.gguf:0.5"});
  expect_usage_error({"run", "--lora", "a.gguf,b.gguf"}, {"give --lora once for each"});
  const TempDirectory directory;
  const std::string out = directory.path("out.gguf");
  EXPECT_EQ(cria({"edit", kDemo, "-o", out, "--set", "x=u8:1"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(out));
  expect_usage_error({"template", "-f", "a"}, {"-p \"$(cat FILE)\""});
  expect_usage_error({"logits", "-p", "a"}, {"cria tokenize --ids -p TEXT"});
  expect_usage_error({"perplexity", "-p", "a"}, {"-f FILE is the text (-f -: stdin)"});
  expect_usage_error({"chat", "--messages", "a"}, {"cria run --messages FILE"});
  expect_usage_error({"quantize", kDemo, "b.gguf", "COPY"}, {"cp copies a model"});
  const Result context = cria({"run", "-c", "0", "-n", "1", "a"});
  EXPECT_EQ(context.code, 0) << context.err;
  EXPECT_NE(context.err.find("-c 0 is the default"), std::string::npos) << context.err;
  expect_usage_error({"run", "-s", "42", "a"}, {"--seed 42 sets the seed"});
  expect_usage_error({"ls"}, {"did you mean list?"});
  expect_usage_error({"pull", "x"}, {"does not download models"});
  expect_usage_error({"CHAT"}, {"did you mean chat?"});
  expect_usage_error({"run", "--draft", "16", "a"}, {"expected the file of a draft model, got 16"});
  expect_usage_error({"run", "--reasoning-budget", "0", "a"}, {"--no-think"});
}

// A word that may be a value or a text, and the first of two texts.
TEST(Arguments, LosesNoText) {
  expect_usage_error({"run", "--think", "on", "a"}, {"--think on: write --think=on, or --"});
  expect_usage_error({"run", "-v", "auto", "a"}, {"write --verbose=on or --verbose=off"});
  expect_usage_error({"run", "--jinja", "true", "a"}, {"--jinja true: write --jinja=true"});
  expect_usage_error({"serve", "--trust-remote-code", "True"}, {"write --trust-remote-code=True"});
  expect_usage_error({"list", "--json", "off"}, {"--json off: write --json=off"});
  const Result plain = cria({"run", "a", "-n", "4", "--temp", "0"});
  const Result colored = cria({"run", "--color", "on", "a", "-n", "4", "--temp", "0"});
  EXPECT_EQ(colored.out, plain.out) << colored.err;
  EXPECT_EQ(cria({"tokenize", "--ids", "--color=on", "yes"}).out,
            cria({"tokenize", "--ids", "yes"}).out);
  EXPECT_EQ(cria({"run", "--raw", "-n", "1", "--", "on"}).code, 0);
  const std::vector<std::vector<std::string>> twice = {
      {"run", "-p", "a", "-p", "b"},
      {"run", "--messages", "a", "--messages", "b"},
      {"template", "--messages", "a", "--messages", "b"},
      {"perplexity", "-f", "a", "-f", "b"},
      {"chat", "-p", "a", "-p", "b"}};
  for (const auto& words : twice)
    expect_usage_error(words, {" is given twice, and only one would count"});
  for (const char* const flag : {"-f", "--session", "--messages", "-m", "--tools"})
    expect_usage_error({"run", flag, ""}, {"the name of the file is empty (an unset variable?)"});
  const TempDirectory directory;
  const std::string a = directory.write("a", "\xEF\xBB\xBFThe river\n"),
                    b = directory.write("b", "rises");
  EXPECT_EQ(cria({"run", "-f", a, "-f", b, "-n", "4", "--temp", "0"}).out,
            cria({"run", "The river\nrises", "-n", "4", "--temp", "0"}).out);
  EXPECT_EQ(cria({"chat", "-f", a, "-f", b, "-n", "4", "--temp", "0"}).out,
            cria({"chat", "The river\nrises", "-n", "4", "--temp", "0"}).out);
  EXPECT_EQ(cria({"tokenize", "--ids", "-f", b, "-f", b}).out,
            cria({"tokenize", "--ids", "-p", "risesrises"}).out);
}

TEST(Arguments, ReadsToolsAndTemplatesFromText) {
  const std::string
      tools = R"([{"name": "f", "parameters": {}}])",
      form = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].function.name }}";
  const TempDirectory directory;
  const Result result = cria({"template", "--chat-template", form, "--tools", tools, "-p", "Hi "});
  EXPECT_EQ(result.out, "Hi f") << result.err;
  EXPECT_EQ(cria({"template", "--template", directory.write("form", form), "--tools",
                  directory.write("tools", tools), "-p", "Hi "})
                .out,
            "Hi f");
}

// Files that were meant to be read.
TEST(Arguments, NotesNamesOfFilesInPrompts) {
  const TempDirectory directory;
  const std::string file = directory.write("notes.txt", "a");
  for (const std::string& word : {file, "@" + file})
    EXPECT_NE(cria({"run", word, "-n", "1"})
                  .err.find("note: " + word + " is part of the prompt; -f " + file +
                            " would read the file"),
              std::string::npos);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"Summarize", file}, {"Summarize @" + file + " now"}})
    EXPECT_NE(cria([&] {
                std::vector<std::string> all = {"run", "-n", "1"};
                all.insert(all.end(), words.begin(), words.end());
                return all;
              }())
                  .err.find("is part of the prompt; < " + file + " would read the file"),
              std::string::npos);
  EXPECT_EQ(cria({"run", "Summarize " + file, "-n", "1"}).err, "");
  EXPECT_EQ(cria({"run", "-n", "1"}, "\n").err, "cria: note: the prompt is empty\n");
}

TEST(Arguments, ReadsMessagesFromText) {
  const Result result =
      cria({"run", "--messages", R"([{"role":"user","content":"Hi"}])", "-n", "4"});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(Arguments, WrongValuesSayWhatWasExpected) {
  expect_usage_error({"run", "-p", "a", "--temp", "warm"},
                     {"--temp: expected a number", "got warm"});
  expect_usage_error({"run", "-p", "a", "-t", "2.5"},
                     {"--threads: expected a whole number from 1 to", "2.5"});
  expect_usage_error({"run", "-p", "a", "-n"}, {"--max-tokens: needs a value"});
  expect_usage_error({"run", "-p", "a", "-c", "-1"}, {"; the default is the model's, up to 4096"});
  expect_usage_error({"run", "-p", "a", "-t", "-1"}, {"; the default is the physical cores"});
  expect_usage_error({"perplexity", kDemo, "a.txt"}, {"unexpected argument: a.txt (-f FILE"});
  expect_usage_error({"quantize", "a.gguf", "b.gguf", "Q4_0", "4"}, {"(-t 4 sets the threads)"});
  expect_usage_error({"quantize", "Q4_K_M"}, {"IN is missing; cria quantize IN [OUT] Q4_K_M"});
  expect_usage_error({"run", "-p", "a", "-f", "b"},
                     {"--prompt cannot be used together with --file"});
  expect_usage_error({"logits", "-o", "x"}, {"--tokens is missing"});
  expect_usage_error({"logits", "--tokens", "1,x", "-o", "/dev/null"}, {"not a token id", "got x"});
  expect_usage_error({"dequant", "q4k"}, {"unknown tensor type q4k", "Q4_K"});
  expect_usage_error({"quantize", kDemo, "/dev/null", "Q4_L"},
                     {"unknown quantization Q4_L", "Q4_K_M"});
  expect_usage_error({"sweep", "-m", kDemo, "-f", "x", "-o", "y", "--types", "Q4_L"},
                     {"unknown quantization Q4_L"});
  expect_usage_error({"bench", "--synthetic", "9b:Q4_K"}, {"unknown shape 9b", "1.1b"});
  expect_usage_error({"bench", "--synthetic", "1.1b"}, {"expected SHAPE:TYPE"});
  expect_usage_error({"bench", "-p", "many"}, {"--prompt: expected a whole number", "many"});
  expect_usage_error({"split", kDemo, "x", "--max-size", "much"}, {"--max-size: expected a size"});
  expect_usage_error({"export", kDemo, "-o", "x", "--shard-size", "5XB"},
                     {"--shard-size: expected a size"});
  expect_usage_error({"template", "--messages", "x", "--date", "today"},
                     {"--date: expected YYYY-MM-DD"});
}

TEST(Arguments, SizesAreReadInOneWay) {
  EXPECT_EQ(tools::parse_size("--max-size", "2G"), 2'000'000'000U);
  EXPECT_EQ(tools::parse_size("--max-size", "500MB"), 500'000'000U);
  EXPECT_EQ(tools::parse_size("--max-size", "5MiB"), 5U << 20);
  EXPECT_EQ(tools::parse_size("--max-size", "3kib"), 3U << 10);
  EXPECT_EQ(tools::parse_size("--max-size", "77"), 77U);
  EXPECT_EQ(tools::parse_size("--size", "1.5G"), 1'500'000'000U);
  EXPECT_EQ(tools::parse_size("--size", "4.5 GiB"), 9ULL << 29);
  for (const char* wrong :
       {"", "0", "-1", "nan", "inf", "0.5", "5X", "5 M x", "99999999999T", "MiB"})
    EXPECT_ANY_THROW((void)tools::parse_size("--max-size", wrong)) << wrong;
  const TempDirectory directory;
  EXPECT_EQ(cria({"split", kDemo, directory.path("part"), "--max-size", "3MiB", "--dry-run"}).code,
            0);
}

TEST(Nearest, NamesWithinAThirdOfTheLettersOrBeginnings) {
  EXPECT_EQ(tools::edit_distance("tmep", "temp"), 1U);
  EXPECT_EQ(tools::edit_distance("", "abc"), 3U);
  EXPECT_EQ(tools::nearest_name("rnu", {"chat", "run"}), "run");
  EXPECT_EQ(tools::nearest_name("perp", {"chat", "perplexity"}), "perplexity");
  EXPECT_EQ(tools::nearest_name("xyzzy", {"chat", "run"}), "");
  EXPECT_EQ(tools::nearest_name("--n", {"--no-think"}), "") << "a letter begins most names";
}

}  // namespace
}  // namespace cria::test
