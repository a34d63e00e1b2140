#include "tools/cli/command_line.h"

#include <algorithm>

namespace cria::tools {
namespace {

constexpr std::string_view kNoGpu = "cria runs on the CPU only";
constexpr std::string_view kNoDownload =
    "cria does not download models; -m USER/REPO:Q4_K_M finds one that is here, or tells how to "
    "get it";
constexpr std::string_view kOneWay = "attention is computed in one way only, whose result is exact";
constexpr std::string_view kPhysicalBatch =
    "--batch alone sets how many tokens are evaluated at once";
constexpr std::string_view kNuma = "the system places memory (see numactl)";
constexpr std::string_view kKept =
    "a context shift keeps the system message and what begins a text";
constexpr std::string_view kAffinity = "the system places threads (see taskset)";

constexpr std::string_view
    kOneAnswer = "cria run answers one message",
    kTalk = "cria chat is the conversation",
    kForgets = "from a pipe, cria chat forgets the oldest part when the context is full";

constexpr ForeignName harmless(std::string_view name, std::string_view why, unsigned values) {
  return {name, {}, why, values, {}, false, true};
}

constexpr ForeignName kForeignNames[] = {
    // Rows of one command stand before the rows of all others.
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
    {"--no-escape", "", "", 0},
    {"--nowordwrap", "", "", 0},
    {"--perf", "--verbose", {}},
    {"--verbose-prompt", "--show-prompt", {}},
    {"-md", "--draft", {}},
    {"--model-draft", "--draft", {}},
    {"-np", "--slots", {}, 0, "serve"},
    {"--parallel", "--slots", {}, 0, "serve"},
    {"-a", "--alias", {}, 0, "serve"},
    {"--no-webui", "--no-web", {}, 0, "serve"},
    {"--embedding", "", "", 0, "serve"},
    {"--embeddings", "", "", 0, "serve"},
    {"--metrics", "", "", 0, "serve"},
    {"-cb", "", "", 0},
    {"--cont-batching", "", "", 0},
    {"-mmp", "", "--no-mmap reads the file into memory", 1},
    {"--grammar-file", "--grammar", {}},
    {"-j", "--json-schema", {}},
    {"--json-schema-file", "--json-schema", {}},
    {"--sampling-seq", "--samplers", {}},
    {"--sampler-seq", "--samplers", {}},
    {"--outfile", "--output", {}, 0, "convert"},
    {"--outtype", "--type", {}, 0, "convert"},
    {"--reasoning-format", "", "answers have the thinking in reasoning_content", 1, "serve"},
    {"--reasoning-budget", "", "requests turn thinking off, with reasoning_effort none", 1,
     "serve"},
    {"--reasoning-format", "", "--json puts the thinking into reasoning_content", 1},
    {"--reasoning-budget", "", "--no-think turns thinking off", 1},
    {"--format", "", "--json-schema constrains the answer to JSON", 1},
    {"--keepalive", "", "the model is loaded for one command", 1},
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
    harmless("-ngl", kNoGpu, 1),
    harmless("--gpu-layers", kNoGpu, 1),
    harmless("--n-gpu-layers", kNoGpu, 1),
    harmless("-sm", kNoGpu, 1),
    harmless("--split-mode", kNoGpu, 1),
    harmless("-ts", kNoGpu, 1),
    harmless("--tensor-split", kNoGpu, 1),
    harmless("-mg", kNoGpu, 1),
    harmless("--main-gpu", kNoGpu, 1),
    harmless("-dev", kNoGpu, 1),
    harmless("--device", kNoGpu, 1),
    harmless("-nkvo", kNoGpu, 0),
    harmless("--no-kv-offload", kNoGpu, 0),
    harmless("-ot", kNoGpu, 1),
    harmless("--override-tensor", kNoGpu, 1),
    harmless("-cmoe", kNoGpu, 0),
    harmless("--cpu-moe", kNoGpu, 0),
    harmless("-ncmoe", kNoGpu, 1),
    harmless("--n-cpu-moe", kNoGpu, 1),
    harmless("--no-op-offload", kNoGpu, 0),
    harmless("-fa", kOneWay, 0),
    harmless("--flash-attn", kOneWay, 0),
    harmless("-ub", kPhysicalBatch, 1),
    harmless("--ubatch-size", kPhysicalBatch, 1),
    harmless("--numa", kNuma, 1),
    harmless("--keep", kKept, 1),
    {"--yarn-ext-factor", "", "YaRN's frequencies are mixed as its paper says", 1},
    harmless("--poll", kAffinity, 1),
    harmless("--prio", kAffinity, 1),
    harmless("--cpu-mask", kAffinity, 1),
    harmless("--cpu-range", kAffinity, 1),
    {"-hf", "", kNoDownload, 1},
    {"-hfr", "", kNoDownload, 1},
    {"--hf-repo", "", kNoDownload, 1},
    {"-hff", "", kNoDownload, 1},
    {"--hf-file", "", kNoDownload, 1},
    {"-mu", "", kNoDownload, 1},
    {"--model-url", "", kNoDownload, 1},
};

}  // namespace

std::string_view foreign_command_hint(std::string_view name) {
  constexpr std::string_view kServer = "cria serve is a process of its own; its log shows requests";
  constexpr std::pair<std::string_view, std::string_view> kHints[] = {
      {"ls", "did you mean list?"},
      {"models", "did you mean list?"},
      {"show", "did you mean inspect?"},
      {"info", "did you mean inspect?"},
      {"cli", "did you mean chat?"},
      {"generate", "did you mean run?"},
      {"complete", "did you mean run?"},
      {"server", "did you mean serve?"},
      {"ps", kServer},
      {"stop", kServer},
      {"pull", "cria does not download models; try hf download or ollama pull"},
      {"download", "cria does not download models; try hf download or ollama pull"},
      {"push", "cria does not upload models"},
      {"create", "cria edit changes metadata, cria quantize and cria convert make models"},
      {"rm", "models are files: rm FILE removes one (cria list --paths shows them)"},
      {"cp", "models are files: cp copies one (cria list --paths shows them)"},
  };
  const auto* const found =
      std::ranges::find(kHints, name, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kHints) ? std::string_view() : found->second;
}

const ForeignName* find_foreign_name(std::string_view name, std::string_view command) {
  std::string wanted(name);
  std::ranges::replace(wanted, '_', '-');
  const auto* const found = std::ranges::find_if(kForeignNames, [&](const ForeignName& known) {
    return known.name == wanted && (known.command.empty() || known.command == command);
  });
  return found == std::end(kForeignNames) ? nullptr : found;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] =
          std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 64;
  if (word.empty() || word.size() > kLongest) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool begins = word.size() > 2 && name.starts_with(word);
    const std::size_t distance = begins ? 1 : edit_distance(word, name);
    if (distance < least) least = distance, best = name;
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::string name = nearest_name(word, names);
  return name.empty() ? "" : "; did you mean " + name + "?";
}

}  // namespace cria::tools
