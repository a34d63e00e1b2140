// The options of llama.cpp, ik_llama.cpp, llamafile, ollama and vLLM: each is one of cria's, or has
// a note or an error that says what to do.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/process.h"
#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"

namespace cria::test {
namespace {

struct PeerFlags {
  std::string_view commands;  ///< of cria, for the same purpose
  std::string_view flags;     ///< separated by blanks
};

constexpr std::string_view kLlamaCommon =
    "-h --help --usage --version -t --threads -tb --threads-batch -C --cpu-mask -Cr --cpu-range "
    "--cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch "
    "--prio-batch --poll-batch -c --ctx-size -b --batch-size -ub --ubatch-size --keep --swa-full "
    "-fa --flash-attn --perf --no-perf --rope-scaling --rope-scale --rope-freq-base "
    "--rope-freq-scale --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow "
    "--yarn-beta-fast -kvo --kv-offload -nkvo --no-kv-offload --repack -nr --no-repack --no-host "
    "-ctk --cache-type-k -ctv --cache-type-v -dt --defrag-thold --rpc -lm --load-mode -lzm "
    "--lazy-mode --mlock --mmap --no-mmap -dio --direct-io --numa -dev --device --list-devices -ot "
    "--override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn -ngl "
    "--gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split -mg --main-gpu -fit --fit "
    "-fitt --fit-target -fitc --fit-ctx --check-tensors --override-kv --op-offload "
    "--no-op-offload --lora --lora-scaled --control-vector --control-vector-scaled "
    "--control-vector-layer-range -m --model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo "
    "-hff --hf-file -hft --hf-token --log-disable --log-file --log-colors -v --verbose "
    "--log-verbose --offline -lv --verbosity --log-verbosity --log-prefix --no-log-prefix "
    "--log-timestamps --no-log-timestamps --log-jsonl --no-log-jsonl -cl --cache-list "
    "--completion-bash";
constexpr std::string_view kLlamaSampling =
    "--samplers --seed --sampler-seq --sampling-seq --ignore-eos --temp --temperature --top-k "
    "--top-p --min-p --top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical "
    "--typical-p --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty "
    "--dry-multiplier --dry-base --dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker "
    "--adaptive-target --adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr "
    "--mirostat-ent -l --logit-bias --grammar --grammar-file -j --json-schema -jf "
    "--json-schema-file -bs --backend-sampling -n --predict --n-predict";
constexpr std::string_view kLlamaDrafts =
    "-md --model-draft --spec-draft-model --spec-draft-hf -hfd -hfrd --hf-repo-draft -td "
    "--threads-draft -tbd --threads-batch-draft --spec-draft-threads -ctkd --cache-type-k-draft "
    "-ctvd --cache-type-v-draft --spec-draft-n-max --spec-draft-n-min --spec-draft-p-split "
    "--draft-p-split --spec-draft-p-min --draft-p-min --spec-draft-device -devd --device-draft "
    "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-type --spec-default "
    "--spec-ngram-mod-n-min --spec-ngram-mod-n-max --spec-ngram-mod-n-match "
    "--spec-ngram-simple-size-n --spec-ngram-map-k-size-m --spec-ngram-map-k4v-min-hits "
    "--draft-max --draft-n --draft-min --draft-n-min -otd --override-tensor-draft -cmoed "
    "--cpu-moe-draft -ncmoed --n-cpu-moe-draft --spec-draft-sampling -lcs --lookup-cache-static "
    "-lcd --lookup-cache-dynamic";
constexpr std::string_view kLlamaChat =
    "-s -sys --system-prompt -sysf --system-prompt-file -p --prompt -cnv --conversation -no-cnv "
    "--no-conversation -st --single-turn -i --interactive -if --interactive-first -mli "
    "--multiline-input --in-prefix --in-suffix --simple-io -co --color --no-display-prompt "
    "--verbose-prompt --context-shift --no-context-shift -sp --jinja --no-jinja --chat-template "
    "--chat-template-file --chat-template-kwargs --skip-chat-parsing --reasoning-format -rea "
    "--reasoning --reasoning-effort --reasoning-budget --reasoning-budget-message -r "
    "--reverse-prompt --warmup --no-warmup --no-escape -mm --mmproj --image --audio --no-mmproj "
    "--mmproj-url --infill --format --hidethinking --keepalive --nowordwrap --think --verbose "
    "-f --file -e --escape --gpu --server --cli --fast --precise --recompile --nologo --ascii "
    "--trust-remote-code";
constexpr std::string_view kLlamaServer =
    "--kv-unified-per-slot -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step "
    "-cram --cache-ram -kvu --kv-unified -no-kvu --no-kv-unified --cache-idle-slots "
    "--no-cache-idle-slots --spm-infill --pooling -np --parallel -cb --cont-batching -nocb "
    "--no-cont-batching -mm --mmproj --image-min-tokens --media-path -a --alias --tags "
    "--embd-normalize --host --port --reuse-port --path --cors-origins --cors-methods "
    "--cors-headers --cors-credentials --no-cors-credentials --api-prefix --ui-config "
    "--webui-config --ui-config-file --ui-mcp-proxy --no-ui-mcp-proxy --tools --tools-runtime "
    "--mcp-servers-config --mcp-servers-json -ag --agent -no-ag --no-agent --ui --webui --no-ui "
    "--no-webui --embedding --embeddings --rerank --reranking --api-key --api-key-file "
    "--ssl-key-file --ssl-cert-file --chat-template-kwargs -to --timeout --sse-ping-interval "
    "--threads-http --cache-prompt --no-cache-prompt --cache-reuse --metrics --props --slots "
    "--no-slots --slot-save-path --models-dir --models-preset --models-max --models-autoload "
    "--no-models-autoload --jinja --no-jinja --reasoning-format -rea --reasoning "
    "--reasoning-effort --reasoning-budget --reasoning-budget-message --reasoning-preserve "
    "--no-reasoning-preserve --chat-template --chat-template-file --skip-chat-parsing "
    "--prefill-assistant --no-prefill-assistant -sps --slot-prompt-similarity "
    "--lora-init-without-apply --sleep-idle-seconds --log-prompts-dir --warmup --no-warmup";
constexpr std::string_view kVllm =
    "--model --tokenizer --tokenizer-mode --trust-remote-code --download-dir --revision "
    "--load-format --config-format --hf-config-path --hf-overrides --dtype --max-model-len "
    "--quantization --kv-cache-dtype --block-size --swap-space --gpu-memory-utilization "
    "--cpu-offload-gb --enforce-eager --compilation-config --max-num-seqs "
    "--max-num-batched-tokens --enable-chunked-prefill --enable-prefix-caching "
    "--no-enable-prefix-caching -tp --tensor-parallel-size -pp --pipeline-parallel-size -dp "
    "--data-parallel-size --distributed-executor-backend --served-model-name --seed --host --port "
    "--api-key --allowed-origins --allowed-methods --allowed-headers --allow-credentials "
    "--ssl-keyfile --ssl-certfile --ssl-ca-certs --root-path --middleware --chat-template "
    "--chat-template-content-format --default-chat-template-kwargs --response-role "
    "--enable-auto-tool-choice --tool-call-parser --reasoning-parser --enable-reasoning "
    "--tool-server --enable-lora --lora-modules --max-loras --max-lora-rank "
    "--speculative-config --generation-config --override-generation-config --max-logprobs "
    "--guided-decoding-backend --structured-outputs-config --limit-mm-per-prompt "
    "--allowed-local-media-path --task --runner --uvicorn-log-level --enable-log-requests "
    "--disable-log-requests --disable-log-stats --api-server-count "
    "--disable-frontend-multiprocessing --async-scheduling";
constexpr std::string_view kIkLlama =
    "-mla --mla-use -amb --attention-max-batch -fmoe --fused-moe -no-fmoe -ger "
    "--grouped-expert-routing -no-fug --no-fused-up-gate -rcache --rope-cache -gr --graph-reuse "
    "-no-gr -ser --smart-expert-reduction -rtr --run-time-repack -thp --transparent-huge-pages "
    "-vq --validate-quants -mqkv --merge-qkv -muge -khad --k-cache-hadamard -cuda --cuda-params "
    "-op --offload-policy -sas --scheduler-async -mtp --max-gpu --defer-experts -ctx-ckpt "
    "-cram -gan --grp-attn-n -gaw -dkvc --banned-string-file --banned-n --suffix-corpus "
    "--spec-autotune --tfs --penalize-nl --cfg-scale -ngld --draft-params";

constexpr std::string_view kKoboldCpp =
    "--model --port --host --launch --config --threads --usecuda --usecublas --usehipblas "
    "--usevulkan --usecpu --contextsize --gpulayers --tensorsplit --maingpu --splitmode "
    "--batchsize "
    "--blasbatchsize --blasthreads --batchthreads --lora --noshift --nofastforward --useswa "
    "--smartcontext --smartcache --ropeconfig --usemmap --usemlock --noavx2 --failsafe --debugmode "
    "--onready --benchmark --prompt --cli --multiuser --multiplayer --remotetunnel --highpriority "
    "--foreground --preloadstory --savedatafile --quiet --ssl --mmproj --draftmodel --draftamount "
    "--draftgpulayers --password --chatcompletionsadapter --jinja --flashattention --lowvram "
    "--quantkv --moeexperts --moecpu --defaultgenamt --showgui --skiplauncher --admin --admindir "
    "--embeddingsmodel --sdmodel --whispermodel --ttsmodel --hordemodelname --downloaddir";
constexpr std::string_view kLlamaCppPython =
    "--model_alias --n_gpu_layers --split_mode --main_gpu --tensor_split --seed --n_ctx --n_batch "
    "--n_ubatch --n_threads --n_threads_batch --flash_attn --embedding --lora --numa --chat_format "
    "--clip_model_path --cache --cache_type --cache_size --hf_model_repo_id --draft_model "
    "--verbose --host --port --api_key --interrupt_requests --config_file";

constexpr PeerFlags kPeers[] = {
    {"serve", kKoboldCpp},
    {"serve", kLlamaCppPython},
    {"serve", "--ttl --estimate-only --context-shift --think --no-think --gpt-oss-20b-default"},
    {"merge,split,edit,convert,export", "-m --model"},
    {"inspect", "--no-tensors --json --json-array --verbose"},
    {"edit",
     "--general-name --general-description --chat-template --chat-template-file --pre-tokenizer "
     "--remove-metadata --special-token --special-token-by-id"},
    {"run,chat,serve,perplexity,imatrix,embed", kLlamaCommon},
    {"run,chat,serve", kLlamaSampling},
    {"run,chat,serve", kLlamaDrafts},
    {"run,chat", kLlamaChat},
    {"serve", kLlamaServer},
    {"serve", kVllm},
    {"run,serve", kIkLlama},
    {"serve", "--nobrowser --unsecure --gpu --listen -p --addr --url"},
    {"perplexity,imatrix,embed,rerank,logits,bench,sweep", "--seed --temp"},
    {"run", "--prompt-cache --prompt-cache-all --prompt-cache-ro -f --file -bf -e --escape"},
    {"run,chat,serve",
     "--max-new-tokens --num-predict --num-ctx --n-ctx --repetition-penalty --stop-sequences "
     "--model-path --num-threads --stream --quiet -q --log-level --no-color"},
    {"run,chat", "--no-stream --response-format -o --output --prompt-file --context-length"},
    {"serve", "--context-length --identifier --uds --bind --cors --workers"},
    {"rerank", "-q --query -d --documents"},
    {"edit,merge", "-o --output --outfile"},
    {"batch", "-f --file --input-file --output-file -s --system"},
    {"template", "-f --file --chat-template --chat-template-file"},
    {"logits", "-p --prompt -f --file"},
    {"perplexity,imatrix,sweep", "-p --prompt"},
    {"chat", "--messages"},
    {"tokenize",
     "--ids -d --count --stdin --no-bos --no-escape --no-parse-special --show-count --detokenize "
     "--log-disable -p -f -m"},
    {"embed",
     "--pooling --embd-normalize --embd-output-format --embd-separator -p -f --truncate "
     "--dimensions"},
    {"perplexity",
     "-f --ppl-stride --ppl-output-type --chunks --kl-divergence "
     "--kl-divergence-base --save-all-logits --hellaswag --winogrande "
     "--multiple-choice --multiple-choice-tasks"},
    {"imatrix",
     "-f -o --output -ofreq --output-frequency --save-frequency --process-output "
     "--no-ppl --chunk --chunks --from-chunk --in-file --show-statistics "
     "--output-format --parse-special"},
    {"quantize",
     "-m -i -o -q --type --quant --qtype --bits "
     "--allow-requantize --leave-output-tensor --pure --imatrix --include-weights "
     "--exclude-weights --output-tensor-type --token-embedding-type --tensor-type "
     "--tensor-type-file --prune-layers --keep-split --override-kv --dry-run --custom-q "
     "--attn-q-type --ffn-down-type --hide-imatrix --ignore-imatrix-rules --partial-requant"},
    {"split",
     "--split --merge --split-max-size --split-max-tensors --no-tensor-first-split "
     "--dry-run"},
    {"convert",
     "--outfile --outtype --model-name --dry-run --verbose --vocab-only --bigendian "
     "--use-temp-file --no-lazy --remote --mistral-format --metadata --split-max-size "
     "--split-max-tensors --print-supported-models --base -q"},
    {"bench",
     "-m --model -p --n-prompt -n --n-gen -d --n-depth -pg -b --batch-size -ub --ubatch-size -ctk "
     "--cache-type-k -t --threads -C --cpu-mask --cpu-strict --poll -ngl --n-gpu-layers -sm "
     "--split-mode -mg --main-gpu -nkvo --no-kv-offload -fa --flash-attn -dev --device -mmp "
     "-embd -ts --tensor-split -ot --override-tensor -r --repetitions --prio --delay -o --output "
     "-oe --output-err --numa --list-devices --no-warmup --progress -npp -ntg -npl"},
};

TEST(ForeignNames, EveryOptionOfPeersHasAMeaningOrAHint) {
  tools::Program program;
  tools::add_commands(program);
  for (const PeerFlags& peer : kPeers)
    for (const std::string& name : tools::parts_of(peer.commands)) {
      const tools::Command& command = *program.find(name);
      for (const std::string& flag : tools::parts_of(peer.flags, ' ')) {
        if (flag == "--version" || command.find(flag) != nullptr) continue;
        std::string hyphens = flag;
        std::ranges::replace(hyphens, '_', '-');
        if (command.find(hyphens) != nullptr) continue;
        const tools::ForeignName* const foreign = tools::find_foreign_name(flag, name);
        EXPECT_NE(foreign, nullptr) << "cria " << name << " " << flag;
        EXPECT_TRUE(foreign == nullptr || foreign->ours.empty() ||
                    command.find(foreign->ours) != nullptr)
            << "cria " << name << " " << flag << " is " << foreign->ours;
      }
    }
}

// Notes and errors, with and without values.
TEST(ForeignNames, AreIgnoredOrRefusedWithAReason) {
  const auto err = [](std::vector<std::string> words) { return cria(std::move(words)).err; };
  const Result noted = cria({"run", "-n", "4", "--temp", "0", "--poll", "50", "--spec-type",
                             "ngram-mod", "--swa-full", "-lv", "3", "a"});
  EXPECT_EQ(noted.code, 0) << noted.err;
  EXPECT_EQ(noted.out, cria({"run", "-n", "4", "--temp", "0", "a"}).out);
  for (const char* const name : {"--poll", "--spec-type", "--swa-full", "-lv"})
    EXPECT_NE(noted.err.find("note: " + std::string(name) + " is ignored: "), std::string::npos)
        << noted.err;
  EXPECT_NE(err({"serve", "--ssl-key-file", "k"}).find("a proxy adds TLS"), std::string::npos);
  EXPECT_NE(err({"serve", "--tools", "all"}).find("runs no tools"), std::string::npos);
  EXPECT_NE(err({"serve", "--port", "0", "--models-dir", "/nowhere"}).find("--models: "),
            std::string::npos);
  EXPECT_NE(err({"serve", "--max-model-len", "x"}).find("--ctx: "), std::string::npos);
  EXPECT_NE(err({"bench", "-o", "json"}).find("--json, --csv and --md"), std::string::npos);
  // The value of an ignored option is dropped with it, but not another option behind it.
  for (const tools::Words& words :
       {tools::Words{"--color", "always"}, tools::Words{"-fa", "0,1"},
        tools::Words{"--log-colors", "--seed", "1"}, tools::Words{"--numa", "distribute"}}) {
    tools::Words all = {"run", "-n", "4", "--temp", "0"};
    all.insert(all.end(), words.begin(), words.end());
    all.emplace_back("a");
    EXPECT_EQ(cria(all).out, noted.out) << words.front();
  }
  EXPECT_NE(err({"run", "--think", "high", "a"}).find("write --reasoning-effort high"),
            std::string::npos);
  EXPECT_NE(err({"serve", "--system-prompt", "x"}).find("its first message"), std::string::npos);
  EXPECT_NE(err({"convert", "d", "--split-max-size", "2G"}).find("cria split"), std::string::npos);
  // Values that ask for what cria does are taken.
  const Result usual = cria({"run", "-n", "4", "--temp", "0", "--reasoning-format", "deepseek",
                             "--reasoning-budget=-1", "--yarn-ext-factor", "-1.0", "a"});
  EXPECT_EQ(usual.code, 0) << usual.err;
  EXPECT_EQ(usual.out, noted.out);
  EXPECT_NE(err({"run", "--reasoning-format", "none", "a"}).find("--show-thinking"),
            std::string::npos);
  EXPECT_NE(err({"run", "--reasoning-budget", "0", "a"}).find("--no-think"), std::string::npos);
  const Result chat = cria({"run", "-cnv", "-p", "a", "-n", "4", "--temp", "0"});
  EXPECT_EQ(chat.code, 0) << chat.err;
  EXPECT_NE(chat.err.find("note: -cnv is --chat here: "), std::string::npos) << chat.err;
}

TEST(ForeignNames, CommandsOfPeersHaveHints) {
  for (const char* const name :
       {"ls",     "import", "log",       "load",        "unload",        "get",
        "search", "status", "gguf-dump", "export-lora", "batched-bench", "show",
        "ps",     "stop",   "pull",      "push",        "create",        "rm",
        "cp",     "server", "llama-cli", "complete",    "run-batch",     "collect-env",
        "signin", "launch", "embedding", "gguf-split",  "webui",         "speculative",
        "tts"})
    EXPECT_NE(tools::foreign_command_hint(name), "") << name;
  EXPECT_EQ(tools::foreign_command_hint("run"), "");
  for (const char* const name :
       {"gguf-split", "llama-gguf-split", "gguf_split", "Llama-GGUF-Split", "gguf_split.py"})
    EXPECT_EQ(tools::foreign_command_hint(name), "did you mean split or merge?") << name;
  EXPECT_EQ(tools::foreign_command_hint("llama-completion"), "did you mean run --raw?");
}

}  // namespace
}  // namespace cria::test
