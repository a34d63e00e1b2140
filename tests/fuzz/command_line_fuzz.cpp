// Command lines: one argument per line, parsed without running anything; and values that are parsed
// later.
#include "engine/quantize/plan.h"
#include "model/error.h"
#include "tests/fuzz/target.h"
#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"

namespace cria::fuzz {
namespace {

template <class Parse>
void unless_wrong(Parse parse) {
  try {
    parse();
  } catch (const tools::UsageError&) {
  } catch (const Error&) {
  }
}

void parse_values(const std::string& text) {
  unless_wrong([&] {
    for (const TokenId id : tools::parse_ids(text, 300)) require(id >= 0 && id < 300, "invalid id");
  });
  unless_wrong([&] {
    tools::SamplingOptions sampling;
    sampling.biases = {text};
    require(sampling.resolve().sampler.logit_bias.front().first >= 0, "a bias for no token");
  });
  static_cast<void>(find_mix(text));
  static_cast<void>(find_dtype(std::string_view(text)));
  unless_wrong([&] { static_cast<void>(parse_kv_type(text)); });
}

void run_command_line(std::string_view input) {
  std::vector<std::string> arguments;
  while (!input.empty() && arguments.size() < 64) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    arguments.emplace_back(input.substr(0, end));
    std::erase(arguments.back(), '\0');  // arguments have no NUL
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  for (const std::string& argument : arguments) parse_values(argument);
  unless_wrong([&] {
    tools::Program program;
    tools::add_commands(program);
    tools::Command* const command = tools::read_arguments(program, arguments);
    if (command != nullptr) tools::set_values(*command);
  });
}

std::vector<std::string> command_line_seeds() {
  return {"run\n-m\nx.gguf\n-p\nHello\n-n\n5\n--temp\n0.5\n--top-k\n40",
          "run\n-p\nHello\n--logit-bias\n15-2.5\n--stop\nx\n--seed=7",
          "chat\n-s\nBe brief\n--no-template\n-t\n2\n-c\n512\n--kv-type\nq8_0",
          "tokenize\n-p\ntext\n--ids\n--no-bos",
          "template\n--template\nx.jinja\n--messages\nm.json\n--date\n2024-01-02",
          "perplexity\n-f\nx\n-c\n512\n--stride\n100\n--chunks\n3\n--json",
          "bench\n-m\na\nb\n-p\n512\n-n\n128\n-t\n1,2",
          "quantize\nin\nout\nQ4_K_M\n--tensor-type\nffn=Q8_0\n--pure",
          "imatrix\n-m\nx\n-f\ny\n-o\nz",
          "split\nin\nout\n--max-size\n2G",
          "logits\n-m\nx\n--tokens\n1,2 3\n-o\ny",
          "dequant\nQ4_K",
          "inspect\nx\n--tensors\n--json",
          "inspect\n--cpu",
          "sweep\n-m\nx\n-f\ny\n--types\nQ4_0,Q8_0\n-o\nd",
          "convert\nd\n-o\nx\n--type\nf16",
          "export\nx\n-o\nd",
          "completion\nbash",
          "man",
          "--version",
          "run\n--help",
          "15+inf",
          "15-nan",
          "1,2,3",
          "-1",
          "merge\na\nb"};
}

std::vector<std::string> command_line_words() {
  std::vector<std::string> out = {"--",  "-",     "=",    "\n",    "1e999",
                                  "nan", "inf",   "0x10", "1_000", "'a",
                                  "\"",  "[1,2]", "{}",   "%%",    "99999999999999999999",
                                  "-1",  "true",  "@file"};
  tools::Program program;
  tools::add_commands(program);
  for (const tools::Command& command : program.commands) {
    out.push_back(command.name + "\n");
    for (const tools::Flag& flag : command.flags)
      for (const std::string& name : flag.all_names()) out.push_back("\n" + name + "\n");
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

const Target kCommandLine{"command_line", run_command_line, command_line_seeds, nullptr,
                          command_line_words};

}  // namespace cria::fuzz
