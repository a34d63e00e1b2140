// The name that someone may have meant: one near the word, or a command of another program.
#include "tools/cli/command_line.h"

#include <algorithm>

#include "model/file/utf8.h"

namespace cria::tools {

std::string plain_command_name(std::string_view name) {
  constexpr std::string_view kLlama = "llama-";
  std::string plain = lower_case(name);
  std::ranges::replace(plain, '_', '-');
  if (plain.starts_with(kLlama)) plain.erase(0, kLlama.size());
  if (plain.ends_with(".py")) plain.resize(plain.size() - 3);
  return plain;
}

std::string_view foreign_command_hint(std::string_view name) {
  constexpr std::string_view kServer = "cria serve is a process of its own; its log shows requests";
  constexpr std::string_view kPull =
      "cria does not download models; try hf download or ollama pull";
  constexpr std::pair<std::string_view, std::string_view> kHints[] = {
      {"ls,models", "did you mean list?"},
      {"search", "cria list shows the models on this machine; huggingface.co has others"},
      {"show,info,metadata,gguf,gguf-dump", "did you mean inspect?"},
      {"cli,interactive,repl,main", "did you mean chat?"},
      {"llama-completion", "did you mean run --raw?"},
      {"generate,complete,completions,simple,ask,prompt,query", "did you mean run?"},
      {"server,start,up,daemon,web,webui,ui,api,vllm,llama-cpp.server", "did you mean serve?"},
      {"speculative", "did you mean run --draft FILE?"},
      {"lookup", "did you mean run --speculate lookup?"},
      {"tts,mtmd,mtmd-cli,llava-cli", "cria reads and writes text only"},
      {"infill", "cria serve has the endpoint /infill"},
      {"parallel", "did you mean bench --parallel?"},
      {"fit-params", "did you mean plan?"},
      {"cvector-generator,control-vector", "cria has no control vectors"},
      {"gguf-hash", "cria inspect --check reads all of a file"},
      {"lms,ollama", "the commands are cria's own"},
      {"whoami", "cria has no account"},
      {"tune", "did you mean bench --tune?"},
      {"benchmark,batched-bench", "did you mean bench?"},
      {"export-lora", "did you mean merge? It takes --lora"},
      {"convert-lora-to-gguf", "--lora takes the GGUF file that it makes"},
      {"import", "did you mean convert? A GGUF file needs no import: -m FILE"},
      {"gguf-set-metadata,gguf-new-metadata,set", "did you mean edit?"},
      {"detokenize,decode", "did you mean tokenize --decode?"},
      {"eval,evaluate", "did you mean perplexity?"},
      {"run-batch", "did you mean batch?"},
      {"embedding,embeddings", "did you mean embed?"},
      {"score,rank,reranking", "did you mean rerank?"},
      {"ppl", "did you mean perplexity?"},
      {"gguf-split", "did you mean split or merge?"},
      {"convert-hf-to-gguf", "did you mean convert?"},
      {"collect-env", "cria version and cria inspect --cpu show what is here"},
      {"ps,status", kServer},
      {"log,logs", "cria serve writes its log to stderr"},
      {"stop,kill", "Ctrl-C or SIGTERM ends cria serve"},
      {"load,unload", "each command loads its model (-m FILE); cria serve keeps it loaded"},
      {"update,upgrade", "a newer package or build replaces the program"},
      {"lora,adapter", "--lora FILE applies an adapter, and cria merge makes one model of both"},
      {"train,finetune", "cria does not train models; --lora takes adapters"},
      {"pull,download,get,install", kPull},
      {"push", "cria does not upload models"},
      {"signin,signout,login", "cria has no account"},
      {"launch", "cria serve --help says how programs find it"},
      {"create", "cria edit changes metadata, cria quantize and cria convert make models"},
      {"rm", "models are files: rm FILE removes one (cria list --paths shows them)"},
      {"cp", "models are files: cp copies one (cria list --paths shows them)"},
  };
  const std::string plain = plain_command_name(name);
  const auto* const found = std::ranges::find_if(kHints, [&](const auto& hint) {
    const Words names = parts_of(hint.first);
    return std::ranges::count(names, plain) != 0 || std::ranges::count(names, name) != 0;
  });
  return found == std::end(kHints) ? std::string_view() : found->second;
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
    const bool begins =
        word.size() > (word.starts_with('-') ? 3 : 2) && name.starts_with(word) && name != word;
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
