#include "tools/options/llama_cpp_options.h"

#include <algorithm>
#include <string>

namespace cria::tools {
namespace {

constexpr std::string_view kNoGpu = "cria computes on the CPU: there is no GPU to use";
constexpr std::string_view kNoDownload =
    "cria does not download models; -m FILE names one that is here";
constexpr std::string_view kOneWay = "attention is computed in one way only, whose result is exact";
constexpr std::string_view kPhysicalBatch =
    "--batch alone sets how many tokens are evaluated at once";
constexpr std::string_view kNuma = "memory is placed by the system (see numactl)";
constexpr std::string_view kKept =
    "a context shift keeps the system message and what begins a text";
constexpr std::string_view kAffinity = "threads are placed by the system (see taskset)";

constexpr std::string_view
    kOneAnswer = "cria run answers one message",
    kTalk = "cria chat is the conversation",
    kForgets = "from a pipe, cria chat forgets the oldest part when the context is full";

constexpr ForeignName kNames[] = {
    // Where a command does otherwise; below, the others do so anyway.
    {"-st", "", kOneAnswer, 0, "chat"},
    {"--single-turn", "", kOneAnswer, 0, "chat"},
    {"-i", "", kTalk, 0, "run"},
    {"--interactive", "", kTalk, 0, "run"},
    {"--log-disable", "", "2>/dev/null silences what is written to stderr", 0, "serve"},
    {"--no-context-shift", "", kForgets, 0, "chat", true},
    {"--n-predict", "--max-tokens", {}},
    {"--predict", "--max-tokens", {}},
    {"--ctx-size", "--ctx", {}},
    {"--batch-size", "--batch", {}},
    {"--threads-batch", "--threads-prefill", {}},
    {"-tb", "--threads-prefill", {}},
    {"--temperature", "--temp", {}},
    {"--typical-p", "--typical", {}},
    {"--system-prompt", "--system", {}},
    {"-sys", "--system", {}},
    {"--cache-type-k", "--kv-type", {}},
    {"--cache-type-v", "--kv-type", {}},
    {"-ctk", "--kv-type", {}},
    {"-ctv", "--kv-type", {}},
    {"--prompt-cache", "--session", {}},
    {"--chat-template-file", "--chat-template", {}},
    {"--reverse-prompt", "--stop", {}},
    {"-r", "--stop", {}},
    {"--ppl-stride", "--stride", {}},
    {"--kl-divergence-base", "--compare", {}},
    {"--n-prompt", "--prompt", {}},
    {"--n-gen", "--decode", {}},
    {"--split-max-size", "--max-size", {}},
    {"--split-max-tensors", "--max-tensors", {}},
    {"--in-file", "--merge", {}},
    {"--keep-split", "", "the output is one file; cria split divides it again", 0},
    {"--leave-output-tensor", "",
     "--output-type sets the type of the output matrix, for example F16", 0},
    {"--process-output", "", "", 0},
    {"--no-ppl", "", "", 0},
    {"--output-frequency", "", "the state is kept by --state", 1},
    {"-sysf", "", "-s \"$(cat FILE)\" takes the system message from a file", 1},
    {"--system-prompt-file", "", "-s \"$(cat FILE)\" takes the system message from a file", 1},
    {"-cnv", "--chat", {}},
    {"--conversation", "--chat", {}},
    {"-no-cnv", "--raw", {}},
    {"--no-conversation", "--raw", {}},
    {"-st", "", "", 0},
    {"--single-turn", "", "", 0},
    {"--jinja", "", "", 0},
    {"--color", "", "", 0},
    {"-co", "", "", 0},
    {"--no-display-prompt", "", "", 0},
    {"--simple-io", "", "", 0},
    {"--log-disable", "", "", 0},
    {"--no-context-shift", "", "", 0},
    {"--no-warmup", "", "", 0},
    {"--offline", "", "", 0},
    {"-i", "", "", 0},
    {"--interactive", "", "", 0},
    {"-ngl", "", kNoGpu, 1},
    {"--gpu-layers", "", kNoGpu, 1},
    {"--n-gpu-layers", "", kNoGpu, 1},
    {"-sm", "", kNoGpu, 1},
    {"--split-mode", "", kNoGpu, 1},
    {"-ts", "", kNoGpu, 1},
    {"--tensor-split", "", kNoGpu, 1},
    {"-mg", "", kNoGpu, 1},
    {"--main-gpu", "", kNoGpu, 1},
    {"-dev", "", kNoGpu, 1},
    {"--device", "", kNoGpu, 1},
    {"-nkvo", "", kNoGpu, 0},
    {"--no-kv-offload", "", kNoGpu, 0},
    {"-ot", "", kNoGpu, 1},
    {"--override-tensor", "", kNoGpu, 1},
    {"-cmoe", "", kNoGpu, 0},
    {"--cpu-moe", "", kNoGpu, 0},
    {"-ncmoe", "", kNoGpu, 1},
    {"--n-cpu-moe", "", kNoGpu, 1},
    {"--no-op-offload", "", kNoGpu, 0},
    {"-fa", "", kOneWay, 0},
    {"--flash-attn", "", kOneWay, 0},
    {"-ub", "", kPhysicalBatch, 1},
    {"--ubatch-size", "", kPhysicalBatch, 1},
    {"--numa", "", kNuma, 1},
    {"--keep", "", kKept, 1},
    {"--yarn-ext-factor", "", "YaRN's frequencies are mixed as its paper says", 1},
    {"--poll", "", kAffinity, 1},
    {"--prio", "", kAffinity, 1},
    {"--cpu-mask", "", kAffinity, 1},
    {"--cpu-range", "", kAffinity, 1},
    {"-hf", "", kNoDownload, 1},
    {"-hfr", "", kNoDownload, 1},
    {"--hf-repo", "", kNoDownload, 1},
    {"-hff", "", kNoDownload, 1},
    {"--hf-file", "", kNoDownload, 1},
    {"-mu", "", kNoDownload, 1},
    {"--model-url", "", kNoDownload, 1},
};

}  // namespace

const ForeignName* find_foreign_name(std::string_view name, std::string_view command) {
  std::string wanted(name);
  std::ranges::replace(wanted, '_', '-');
  const auto* const found = std::ranges::find_if(kNames, [&](const ForeignName& known) {
    return known.name == wanted && (known.command.empty() || known.command == command);
  });
  return found == std::end(kNames) ? nullptr : found;
}

}  // namespace cria::tools
