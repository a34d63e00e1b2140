// The options of llama.cpp, ik_llama.cpp, llamafile, llama-cpp-python, koboldcpp, ollama, LM Studio
// and vLLM.
#include <algorithm>

#include "tools/cli/command_line.h"

namespace cria::tools {
namespace {

constexpr std::string_view kNoGpu = "cria runs on the CPU only";
constexpr std::string_view kNoDownload =
    "cria does not download models; -m USER/REPO:Q4_K_M finds one that is here, or tells how to "
    "get it";
constexpr std::string_view kOneWay = "cria chooses how to compute; the result is exact";
constexpr std::string_view kPhysicalBatch =
    "--batch alone sets how many tokens are evaluated at once";
constexpr std::string_view kSystemPlaces =
    "the system places threads and memory (see taskset, numactl, nice)";
constexpr std::string_view kCache = "cria manages the KV cache itself";
constexpr std::string_view kDrafts =
    "cria chooses how many tokens to draft, which never changes an answer (see --speculate)";
constexpr std::string_view kLog = "messages go to stderr; 2>FILE writes them to a file";
constexpr std::string_view kMmap = "the file is mapped; --no-mmap and --mlock change that";
constexpr std::string_view kRanks = "mpirun -n N cria computes on N machines";
constexpr std::string_view kTextOnly = "cria reads and writes text only";
constexpr std::string_view kOneFile = "a GGUF file holds model, tokenizer and settings";
constexpr std::string_view kTls = "cria serve speaks HTTP; a proxy adds TLS (see --public-url)";
constexpr std::string_view kRunsNoTools = "cria serve runs no tools; clients do";
constexpr std::string_view kTemplate = "the chat template does that (see --chat-template)";
constexpr std::string_view kConstrain = "--grammar, --regex and --logit-bias constrain an answer";
constexpr std::string_view kNoSampler =
    "cria does not know this sampler; --help-all lists its samplers at --samplers";
constexpr std::string_view kTypes = "--tensor-type 'attn_q=Q6_K' sets the type of such tensors";
constexpr std::string_view kSystemFile = "-s \"$(cat FILE)\" takes the system message from a file";
constexpr std::string_view kPerLine = "each line is a text; --json prints JSON";
constexpr std::string_view kAnswerForm = "answers come as thinking, text and tool calls";
constexpr std::string_view kSlotFiles = "slots are not kept in files; --cache-mib keeps prompts";
constexpr std::string_view kMetadata = "cria edit changes metadata";
constexpr std::string_view kSystemField =
    "a request has its own: its first message, with the role \"system\"";
constexpr std::string_view kModelArgument = "the model is an argument, without an option";
constexpr std::string_view kSplitAfter = "cria split divides the file afterwards";
constexpr std::string_view kSizes = "-p, -n and -d of cria bench take lists of sizes";

/// The same option by another name.
constexpr ForeignName same(std::string_view names, std::string_view ours,
                           std::string_view commands = {}) {
  return {names, ours, {}, 0, commands};
}
/// cria always does so.
constexpr ForeignName usual(std::string_view names, std::string_view commands = {}) {
  return {names, {}, {}, 0, commands};
}
/// Changes no answer: a note.
constexpr ForeignName harmless(std::string_view names, std::string_view why, unsigned values,
                               std::string_view commands = {}) {
  return {names, {}, why, values, commands, false, true};
}
/// An error that says what to do instead.
constexpr ForeignName refused(std::string_view names, std::string_view why,
                              std::string_view commands = {}) {
  return {names, {}, why, 0, commands};
}

/// The same, but some values ask for what cria does.
constexpr ForeignName refused_except(std::string_view neutral, std::string_view names,
                                     std::string_view why, std::string_view commands = {}) {
  return {names, {}, why, 0, commands, false, false, neutral};
}

// Rows of some commands stand before the rows of all others.
constexpr ForeignName kForeignNames[] = {
    // A conversation
    refused("-st,--single-turn", "cria run answers one message", "chat"),
    refused("--load", "/load FILE in the chat reads a conversation", "chat"),
    refused("--dimensions,--normalize", "cria embed makes vectors", "run,chat"),
    refused("--license", "cria inspect shows what the file says", "run,chat"),
    same("--ignore-chat-template", "--raw", "run"),
    same("--max-completion-tokens", "--max-tokens"),
    same("--stats", "--verbose", "run,chat"),
    harmless("--experimental,--dont-fetch-catalog", "cria does not need it", 0, "run,chat"),
    refused("--kv-bits,--max-kv-size", "--kv-type and --ctx set the type and size of the KV cache"),
    refused("--num-draft-tokens", kDrafts),
    refused("--adapter-path", "--lora FILE applies an adapter that is a GGUF file"),
    refused("--extra-eos-token", "--stop TEXT ends an answer, too"),
    refused("--context-file", "-f FILE is the prompt; a text from stdin comes before it"),
    usual("-st,--single-turn", "run"),
    refused("-i,--interactive,-if,--interactive-first,-ins,--instruct",
            "cria chat is the conversation", "run"),
    usual("-i,--interactive,-if,--interactive-first,-ins,--instruct,-cnv,--conversation", "chat"),
    {"-cnv,--conversation", "--chat",
     "cria run answers one message, and cria chat is the conversation", 0, "run", false, true},
    same("-no-cnv,--no-conversation", "--no-template", "chat"),
    same("-no-cnv,--no-conversation", "--raw"),
    {"--no-context-shift",
     {},
     "from a pipe, cria chat forgets the oldest part when the context is full",
     0,
     "chat",
     true},
    usual("--no-context-shift"),
    harmless("--no-color,--nocolor", "NO_COLOR=1 leaves styles out", 0),
    harmless("--color,-co", "a terminal shows messages and thinking dimmed", 0),
    usual("--nowordwrap,--simple-io,--no-display-prompt,--ascii,--nologo,--cli"),
    usual("-mli,--multiline-input", "run,chat"),
    same("--verbose-prompt", "--show-prompt", "run,chat"),
    refused("--verbose-prompt,--show-prompt", "--log-prompts logs requests", "serve"),
    harmless("--show-timings,--no-show-timings", "-v prints tokens/s after an answer", 0,
             "run,chat"),
    refused("--special", "answers are printed without control tokens", "run,chat"),
    same("--enable-thinking", "--think", "run,chat"),
    refused("--tools", "cria run --tools FILE lets the model call tools", "chat"),
    refused("--version", "cria --version prints it"),
    harmless("-ptc,--print-token-count", "-v prints the number of tokens", 1, "run,chat"),
    same("--hidethinking", "--hide-thinking", "chat"),
    same("--raw", "--no-template", "chat"),
    refused("--json,--stream-json", "cria run prints JSON", "chat"),
    refused("-e,--escape", "-f FILE has a message of several lines", "chat"),
    usual("--hidethinking", "run"),
    refused("-sys,--system-prompt,-sysf,--system-prompt-file,-s,--system", kSystemField,
            "batch,serve"),
    same("--system-prompt,-sys", "--system"),
    refused("-sysf,--system-prompt-file", kSystemFile),
    refused("--in-prefix,--in-suffix,--in-prefix-bos", kTemplate),
    refused("--image,--audio,--video,--mmproj,-mm,--mmproj-url,-mmu,--media-path,"
            "--image-min-tokens,--image-max-tokens,--limit-mm-per-prompt,-mv,--model-vocoder,"
            "--allowed-local-media-path,--clip-model-path,--sdmodel,--whispermodel,--ttsmodel",
            kTextOnly),
    harmless("--no-mmproj,--mmproj-auto,--no-mmproj-auto,--mmproj-offload,--no-mmproj-offload",
             kTextOnly, 0),
    // Prompts
    usual("--jinja,--no-escape,--prompt-cache-all"),
    refused("--no-jinja", "chat templates are Jinja templates; --chat-template chatml is plain"),
    same("--chat-template,--chat-template-file", "--template", "template,edit"),
    same("--chat-template-file", "--chat-template"),
    refused("--chat-format,--chatcompletionsadapter",
            "--chat-template FILE or NAME sets the template"),
    refused("--default-chat-template-kwargs", "requests have chat_template_kwargs", "serve"),
    refused("--chat-template-kwargs", "requests have chat_template_kwargs", "serve"),
    harmless("--chat-template-content-format", "cria finds out what the template takes", 1),
    refused("--prompt-cache", kSlotFiles, "serve"),
    same("--prompt-cache", "--session"),
    refused("--prompt-cache-ro", "--session FILE is read and written"),
    same("-bf,--binary-file,--prompt-file", "--file"),
    refused("-o,--output,--output-file", "> FILE writes the answer to a file", "run,chat"),
    usual("--spm-infill", "serve"),
    refused("--infill", "cria serve fills in the middle at /infill"),
    refused("--server,--v2", "cria serve is the server", "run,chat"),
    // Thinking
    refused_except("auto,-1", "-rea,--reasoning,--reasoning-budget",
                   "requests turn thinking off, with reasoning_effort none", "serve"),
    refused("--reasoning-budget-message,--reasoning-tokens",
            "requests turn thinking off, with reasoning_effort none", "serve"),
    refused("--reasoning-effort", "requests have reasoning_effort", "serve"),
    refused("--think,--no-think,--enable-thinking",
            "requests have enable_thinking and reasoning_effort", "serve"),
    refused_except("auto,-1", "-rea,--reasoning,--reasoning-budget",
                   "--no-think turns thinking off; --think turns it on"),
    refused("--reasoning-budget-message,--reasoning-tokens",
            "--no-think turns thinking off; --think turns it on"),
    refused_except("auto,deepseek", "--reasoning-format",
                   "answers have the thinking in reasoning_content", "serve"),
    refused_except("auto,deepseek", "--reasoning-format",
                   "thinking is dimmed, and --hide-thinking hides it", "chat"),
    refused_except("auto,deepseek", "--reasoning-format",
                   "--json puts the thinking into reasoning_content, and --show-thinking shows it"),
    harmless("--reasoning-parser,--tool-call-parser",
             "cria finds the form in the chat template (see --tool-format)", 1),
    harmless("--reasoning-preserve,--no-reasoning-preserve", kTemplate, 0),
    usual("--enable-auto-tool-choice,--enable-reasoning,--no-prefill-assistant,-ptcall,"
          "--parallel-tool-calls"),
    refused("--prefill-assistant", "requests of cria serve have continue_final_message"),
    refused("--skip-chat-parsing", kAnswerForm),
    // Sampling and the form of answers
    same("--n-predict,--predict,--num-predict,--max-new-tokens,--max-length,--defaultgenamt",
         "--max-tokens"),
    same("--repetition-penalty", "--repeat-penalty"),
    same("--stop-sequences,--stop-sequence,--stop-words", "--stop"),
    usual("--stream,--quiet,-q,--silent", "run,chat,serve"),
    harmless("--no-stream", "answers are printed as they are written", 0, "run,chat"),
    same("--temperature", "--temp"),
    same("--typical-p", "--typical"),
    same("--top-nsigma", "--top-n-sigma"),
    same("--reverse-prompt,-r", "--stop"),
    refused("--sampling-seq,--sampler-seq", "--samplers \"top_k;top_p;temperature\" is an order"),
    same("-l", "--logit-bias"),
    refused_except("1,1.0", "--tfs,--cfg-scale", kNoSampler),
    refused("--adaptive-target,--adaptive-decay,--adaptive-updt-w-cur,--penalize-nl,"
            "--cfg-negative-prompt,--cfg-negative-prompt-file",
            kNoSampler),
    refused("--banned-string-file,--banned-n,--allowlist-unicode-rule,--allowlist-pieces,"
            "--allowlist-keyword,--allowlist-keyword-delay,--expiring-logit-bias-file,"
            "--logits-processors",
            kConstrain),
    refused("-j,--json-schema,-jf,--json-schema-file,--grammar,--grammar-file",
            "requests have response_format and grammar", "serve"),
    same("--grammar-file", "--grammar"),
    same("-j,--json-schema-file,-jf,--schema", "--json-schema"),
    same("--n,--num-return-sequences,--best-of", "--choices-of", "run"),
    refused("--output-format", "--json prints the answer as a JSON object", "run"),
    refused("--format,--response-format,--json-mode",
            R"(--json-schema '{"type": "object"}' constrains the answer to JSON)"),
    refused("-sp", "answers are printed without control tokens", "run,chat,serve"),
    harmless("-bs,--backend-sampling", kNoGpu, 0),
    refused("--override-generation-config", "--temp and the other sampling options are defaults"),
    harmless("--generation-config",
             "--temp and the other sampling options are defaults of requests", 1),
    harmless("--guided-decoding-backend,--structured-outputs-config",
             "there is one way of constraining answers; requests say how by response_format", 1),
    harmless("--max-logprobs", "a request may ask for up to 20", 1),
    // Models and adapters
    // Finds what the cache of Hugging Face has, or says how to get it
    same("-hf,-hfr,--hf-repo,--model-path", "--model"),
    same("-hfd,-hfrd,--hf-repo-draft,--spec-draft-hf", "--draft"),
    refused("-hff,--hf-file,-hft,--hf-token,-mu,--model-url,-dr,--docker-repo,"
            "--download-dir,--revision,--hf-model-repo-id,--downloaddir,--gpt-oss-20b-default,"
            "--gpt-oss-120b-default,--embd-gemma-default,--vision-gemma-4b-default,"
            "--vision-gemma-12b-default,--fim-qwen-1.5b-default,--fim-qwen-3b-default,"
            "--fim-qwen-7b-default,--fim-qwen-7b-spec,--fim-qwen-14b-spec,--fim-qwen-30b-default",
            kNoDownload),
    usual("--offline,--trust-remote-code,--warmup,--no-warmup,--insecure"),
    refused("-cl,--cache-list", "cria list shows the models on this machine"),
    refused("--list-devices", "cria inspect --cpu shows this machine"),
    same("--outtype,--dtype", "--type", "convert"),
    refused("--hf-path", "the model's directory is an argument, without an option", "convert"),
    refused("--tokenizer,--hf-config-path", kOneFile),
    harmless("--tokenizer-mode,--load-format,--config-format,--tokenizer-revision,--dtype,"
             "--model-impl",
             kOneFile, 1),
    refused("--hf-overrides", "--override-kv replaces a value of the metadata"),
    refused("--quantization", "cria quantize makes a smaller file", "run,chat,serve"),
    same("--lora-scaled", "--lora"),
    refused("--lora-init-without-apply", "--lora FILE:0 loads an adapter without applying it"),
    refused("--lora-modules", "--lora FILE adds an adapter"),
    usual("--enable-lora"),
    harmless("--max-loras,--max-lora-rank", "adapters of any rank and number work", 1),
    refused("--control-vector,--control-vector-scaled,--control-vector-layer-range",
            "cria has no control vectors; --lora adds an adapter"),
    refused("--check-tensors,-vq,--validate-quants", "cria inspect --check checks every value"),
    harmless("-lm,--load-mode,-lzm,--lazy-mode,--defer-experts", kMmap, 1),
    harmless("--mmap,-dio,--direct-io,--no-direct-io,-ndio,-thp,--transparent-huge-pages,--usemmap",
             kMmap, 0),
    same("--usemlock", "--mlock"),
    same("--nommap", "--no-mmap"),
    {"-mmp", {}, "--no-mmap reads the file into memory", 1},
    // Context and cache
    same("--ctx-size,--max-model-len,--context-length,--num-ctx,--n-ctx,--ctx-len,--contextsize",
         "--ctx"),
    same("--cache-type-k,-ctk,--cache-type-v,-ctv", "--kv-type"),
    refused_except("auto", "--kv-cache-dtype", "--kv-type q8_0 halves the KV cache"),
    refused_except("0", "--quantkv", "--kv-type q8_0 halves the KV cache"),
    refused("--ropeconfig", "--rope-scale N and --rope-freq-base N set it"),
    refused("--context-shift", "an answer ends when the context is full", "serve"),
    refused_except("1", "-gan,--grp-attn-n", "--rope-scale extends the context"),
    refused("-gaw,--grp-attn-w", "--rope-scale extends the context"),
    refused_except("-1,-1.0", "--yarn-ext-factor",
                   "YaRN's frequencies are mixed as its paper says"),
    harmless("--keep", "a context shift keeps the system message and what begins a text", 1),
    same("-cram,--cache-ram", "--cache-mib", "serve"),
    refused("--no-cache-prompt,--no-enable-prefix-caching,--nofastforward",
            "--cache-mib 0 turns the cache off", "serve"),
    usual("--cache-prompt,--enable-prefix-caching,--enable-chunked-prefill"),
    harmless("-cram,--cache-ram,--cache-reuse,-ctxcp,--ctx-checkpoints,--swa-checkpoints,-cms,"
             "--checkpoint-min-step,-dt,--defrag-thold,--block-size,--swap-space,-crs,"
             "--cache-ram-similarity,-cram-n-min,--cache-ram-n-min,-ctx-ckpt,-ctx-ckpt-i,"
             "--num-gpu-blocks-override,--cache,--cache-size,--cache-type,"
             "--ctx-checkpoints-interval,-ctx-ckpt-t,--ctx-checkpoints-tolerance,-ctx-ckpt-e,"
             "--ctx-checkpoints-eviction",
             kCache, 1),
    harmless("--swa-full,-kvu,--kv-unified,-no-kvu,--no-kv-unified,--cache-idle-slots,"
             "--no-cache-idle-slots,-dkvc,--dump-kv-cache,-khad,--k-cache-hadamard,-vhad,"
             "--v-cache-hadamard,--swa-compress,--smartcontext,--smartcache,--useswa,--noshift",
             kCache, 0),
    // Threads and the way of computing
    same("--batch-size,--n-batch,--batchsize,--blasbatchsize", "--batch"),
    same("--num-threads,--n-threads", "--threads"),
    same("--threads-batch,-tb,--n-threads-batch,--blasthreads,--batchthreads", "--threads-prefill"),
    harmless("-ub,--ubatch-size,--n-ubatch,--max-num-batched-tokens", kPhysicalBatch, 1),
    harmless("--numa,--poll,--poll-batch,--prio,--prio-batch,-C,--cpu-mask,-Cr,--cpu-range,"
             "--cpu-strict,-Cb,--cpu-mask-batch,-Crb,--cpu-range-batch,--cpu-strict-batch",
             kSystemPlaces, 1),
    harmless("-ngl,--gpu-layers,--n-gpu-layers,-sm,--split-mode,-ts,--tensor-split,-mg,--main-gpu,"
             "-dev,--device,-ot,--override-tensor,-ncmoe,--n-cpu-moe,-ncffn,--n-cpu-ffn,"
             "--moe-cache-mib,-fit,--fit,-fitt,--fit-target,-fitc,--fit-ctx,--fit-margin,-mmdev,"
             "--mmproj-device,--gpu,--max-gpu,-gfm,--gpu-fit-margin,-cuda,--cuda-params,"
             "--gpu-memory-utilization,--cpu-offload-gb,--compilation-config,--offload-policy,-op,"
             "-grt,--graph-reduce-type,-gap,--graph-attn-precision,--gpulayers,--maingpu,"
             "--splitmode,--tensorsplit,--draftgpulayers,--max-seq-len-to-capture",
             kNoGpu, 1),
    harmless("-nkvo,--no-kv-offload,-kvo,--kv-offload,-cmoe,--cpu-moe,--op-offload,"
             "--no-op-offload,--no-host,--enforce-eager,--recompile,--tinyblas,-sas,"
             "--scheduler-async,-smgs,--split-mode-graph-scheduling,-smf16,--split-mode-f16,"
             "-smf32,--split-mode-f32,-no-ooae,--no-offload-only-active-experts,--usecublas,"
             "--usecuda,--usehipblas,--usevulkan,--usecpu,--noblas,--lowvram,--moecpu,"
             "--disable-custom-all-reduce",
             kNoGpu, 0),
    harmless("-fa,--flash-attn,-no-fa,--no-flash-attn,--repack,-nr,--no-repack,-rtr,"
             "--run-time-repack,-fmoe,--fused-moe,-no-fmoe,--no-fused-moe,-ger,"
             "--grouped-expert-routing,-no-fug,--no-fused-up-gate,-no-mmad,"
             "--no-fused-mul-multiadd,-rcache,--rope-cache,-gr,--graph-reuse,-no-gr,"
             "--no-graph-reuse,-mqkv,--merge-qkv,-muge,--merge-up-gate-experts,-fidx,"
             "--fused-indexer-topk,--fast,--precise,--async-scheduling,--flashattention,--noavx2,"
             "--failsafe,--use-v2-block-manager",
             kOneWay, 0),
    harmless("-mla,--mla-use,-amb,--attention-max-batch,-wgt,--worst-graph-tokens,-fdn,"
             "--fused-delta-net,-mea,--max-extra-alloc,--prefetch-experts,"
             "--prefetch-experts-threads,-ictk,--indexer-cache-type-k",
             kOneWay, 1),
    refused(
        "-ser,--smart-expert-reduction,-dsatk,--dsa-top-k,--moeexperts,--disable-sliding-window",
        "it changes answers, and cria computes what the model says"),
    harmless("--rpc,-rpc,-tp,--tensor-parallel-size,-pp,--pipeline-parallel-size,-dp,"
             "--data-parallel-size,--distributed-executor-backend",
             kRanks, 1),
    // Drafts
    same("-md,--model-draft,--spec-draft-model,--draftmodel,--draft-model", "--draft"),
    harmless("--draft-max,--draft-n,--draft-min,--draft-n-min,--draft-p-min,--draft-p-split,-ps,"
             "--p-split,--spec-draft-n-max,--spec-draft-n-min,--spec-draft-p-min,"
             "--spec-draft-p-split,--spec-type,--spec-draft-sampling,--spec-stage,"
             "--spec-ngram-size-n,--spec-ngram-size-m,--spec-ngram-min-hits,"
             "--spec-ngram-mod-n-min,--spec-ngram-mod-n-max,--spec-ngram-mod-n-match,"
             "--spec-ngram-simple-size-n,--spec-ngram-simple-size-m,--spec-ngram-simple-min-hits,"
             "--spec-ngram-map-k-size-n,--spec-ngram-map-k-size-m,--spec-ngram-map-k-min-hits,"
             "--spec-ngram-map-k4v-size-n,--spec-ngram-map-k4v-size-m,"
             "--spec-ngram-map-k4v-min-hits,-td,--threads-draft,-tbd,--threads-batch-draft,"
             "--spec-draft-threads,--spec-draft-threads-batch,-cd,--ctx-size-draft,-ctkd,"
             "--cache-type-k-draft,--spec-draft-type-k,-ctvd,--cache-type-v-draft,"
             "--spec-draft-type-v,-ngld,--gpu-layers-draft,--n-gpu-layers-draft,--spec-draft-ngl,"
             "-devd,--device-draft,--spec-draft-device,-otd,--override-tensor-draft,-ncmoed,"
             "--n-cpu-moe-draft,-lcs,--lookup-cache-static,-lcd,--lookup-cache-dynamic,"
             "--speculative-config,--speculative-model,--num-speculative-tokens,"
             "--suffix-pattern-len,--suffix-max-depth,--suffix-corpus,-draft,--draft-params,"
             "--draftamount",
             kDrafts, 1),
    harmless("--spec-default,-cmoed,--cpu-moe-draft,-mtp,--multi-token-prediction,-no-mtp,"
             "--no-multi-token-prediction,--spec-autotune,--spec-draft-backend-sampling,"
             "--no-spec-draft-backend-sampling",
             kDrafts, 0),
    // Messages and help
    same("--usage", "--help"),
    same("--perf,--log-verbose,--debugmode", "--verbose"),
    refused("--config,--config-file",
            "CRIA_CONFIG=FILE names a configuration file (see cria config)", "run,chat,serve"),
    refused("--completion-bash", "cria completion bash prints the script"),
    refused("--log-disable", "2>/dev/null silences what is written to stderr", "serve"),
    usual("--log-disable,--no-perf"),
    harmless("--log-file,--log-level,-lv,--verbosity,--log-verbosity,--log-colors,--logdir,-ld,"
             "--log-format,--uvicorn-log-level",
             kLog, 1),
    same("--log-jsonl", "--log-json", "serve"),
    harmless("--log-prefix,--no-log-prefix,--log-timestamps,--no-log-timestamps,--log-jsonl,"
             "--no-log-jsonl,--enable-log-requests,--disable-log-requests,--disable-log-stats,"
             "--no-enable-log-requests",
             kLog, 0),
    refused("--log-prompts-dir", "--log-prompts writes prompts to the log", "serve"),
    // The server
    same("-np,--parallel,--max-num-seqs", "--slots", "serve"),
    harmless("-np", "one prompt is answered at a time; cria batch answers many", 1, "run,chat"),
    refused("--port,--host", "cria serve listens on a port", "run,chat,batch"),
    refused("--multiuser,--max-concurrent-requests", "--slots N answers N requests at once",
            "serve"),
    refused("--admin,--admindir,--embeddingsmodel", "--models PLACE serves several models",
            "serve"),
    refused("--ttl", "--models PLACE --models-idle S unloads idle models", "serve"),
    refused("--estimate-only", "cria plan predicts memory and speed", "serve"),
    refused("--prompt,-f,--file", "cria run answers a prompt", "serve"),
    refused("--benchmark", "cria bench measures the speed", "serve"),
    refused("--onready", "/health says if the server is ready", "serve"),
    refused("--remotetunnel", "--public-url is the address of a proxy in front", "serve"),
    refused("--preloadstory,--savedatafile", "clients keep conversations", "serve"),
    harmless("--launch", "the first line of the log has the address of the chat page", 0, "serve"),
    harmless("--workers", "one process answers all; --slots N is how many at once", 1, "serve"),
    same("-a,--served-model-name,--identifier,--model-alias", "--alias", "serve"),
    same("--password", "--api-key", "serve"),
    same("--no-webui,--no-ui", "--no-web", "serve"),
    same("--cors-origins,--cors-allow-origins", "--cors-origin", "serve"),
    refused("--cors", "--cors-origin ORIGIN allows a page of that origin", "serve"),
    same("--bind", "--host", "serve"),
    same("--models-dir", "--models", "serve"),
    usual("-cb,--cont-batching,--embedding,--embeddings,--rerank,--reranking,--metrics,--ui,"
          "--webui,--models-autoload,--no-ui-mcp-proxy,--no-webui-mcp-proxy,-no-ag,--no-agent,"
          "--nobrowser,--unsecure,--disable-frontend-multiprocessing,--skiplauncher,"
          "--enable-prompt-tokens-details,--multiplayer",
          "serve"),
    harmless("--props,--cors-credentials,--no-cors-credentials,"
             "--allow-credentials,--reuse-port,-nocb,--no-cont-batching,--enable-sleep-mode,"
             "--showgui,--highpriority,--foreground",
             "cria serve does not need it", 0, "serve"),
    harmless("--threads-http,-sps,--slot-prompt-similarity,--tags,--cors-methods,--cors-headers,"
             "--allowed-methods,--allowed-headers,--response-role,--api-server-count,--task,"
             "--runner,--ui-config,--webui-config,--ui-config-file,--webui-config-file,"
             "--interrupt-requests,--scheduling-policy,--hordemodelname",
             "cria serve does not need it", 1, "serve"),
    harmless("-to,--timeout", "--read-timeout, --write-timeout and --request-timeout limit times",
             1, "serve"),
    harmless("--sse-ping-interval", "cria serve writes to a silent stream every 10 s", 1, "serve"),
    harmless("--sleep-idle-seconds", "--models PLACE --models-idle S unloads idle models", 1,
             "serve"),
    refused("--kv-unified-per-slot", "-c is the context of each slot", "serve"),
    refused("--ssl-key-file,--ssl-cert-file,--ssl-keyfile,--ssl-certfile,--ssl-ca-certs,--ssl",
            kTls, "serve"),
    refused("--path,--api-prefix,--root-path", "a proxy can add other paths (see --public-url)",
            "serve"),
    refused("--allowed-origins", "--cors-origin ORIGIN allows one; it may be repeated", "serve"),
    refused("--tools,--tools-runtime,-ag,--agent,--mcp-servers-config,--mcp-servers-json,"
            "--ui-mcp-proxy,--webui-mcp-proxy,--tool-server",
            kRunsNoTools, "serve"),
    refused("--middleware", "a proxy can change requests", "serve"),
    refused("--no-slots", "--api-key protects /slots", "serve"),
    refused("--slot-save-path", kSlotFiles, "serve"),
    refused("--models-preset", "--preset NAME takes options from the configuration file", "serve"),
    refused("--no-models-autoload", "models of --models are loaded when a request names them",
            "serve"),
    refused("--listen,--uds,--addr,--address,--url,-p", "--host and --port set the address",
            "serve"),
    harmless("--keepalive,--keep-alive", "the model is loaded for one command", 1),
    refused("-f,--file", "-p \"$(cat FILE)\" is a message; --messages FILE is a conversation",
            "template"),
    refused("-p,--prompt,-f,--file",
            "--tokens \"$(cria tokenize --ids -p TEXT)\" has the tokens of a text", "logits"),
    refused("--messages", "cria run --messages FILE answers it; /load FILE continues it here",
            "chat"),
    same("-f,--file,--input-file", "--input", "batch"),
    same("--output-file", "--output", "batch"),
    refused("-d,--documents",
            "-p TEXT is a document, and may be repeated; -f FILE has one per line", "rerank"),
    refused("-q,--query", "the query is an argument: cria rerank QUERY", "rerank"),
    // Tokens
    usual("--no-parse-special,--stdin", "tokenize"),
    same("--parse-special", "--special", "tokenize"),
    same("--detokenize", "--decode", "tokenize"),
    same("-d", "--decode", "tokenize"),
    refused("--show-count,--count", "cria tokenize --ids … | wc -w counts the tokens", "tokenize"),
    // Vectors
    refused_except("2", "--embd-normalize", "vectors have length 1"),
    refused("--embd-output-format,--embd-separator", kPerLine),
    refused("--dimensions", "vectors have all dimensions of the model", "embed"),
    usual("--truncate,--embedding,--embeddings,--normalize", "embed"),
    refused("--attention,--cls-separator", "cria computes as the file says", "embed,rerank"),
    // Perplexity and importance matrices
    harmless("--seed,--temp", "nothing is sampled here", 1,
             "perplexity,imatrix,embed,rerank,logits,bench,sweep"),
    refused("-p,--prompt", "-f FILE is the text (-f -: stdin)", "perplexity,imatrix,sweep"),
    same("--ppl-stride", "--stride"),
    same("--kl-divergence-base", "--save-logits", "perplexity"),
    refused("--kl-divergence",
            "--compare FILE reads the log-probabilities that --save-logits FILE wrote",
            "perplexity"),
    same("--save-all-logits,--all-logits", "--save-logits", "perplexity"),
    refused("--hellaswag,--winogrande,--multiple-choice,--hellaswag-tasks,--winogrande-tasks,"
            "--multiple-choice-tasks",
            "--choices FILE scores questions with several answers", "perplexity"),
    usual("--perplexity", "perplexity"),
    harmless("--ppl-output-type", "--json prints all figures", 1, "perplexity"),
    same("--in-file", "--merge"),
    usual("--process-output,--no-ppl"),
    {"--output-frequency,-ofreq,--save-frequency", {}, "the state is kept by --state", 1},
    refused("--chunk,--from-chunk", "--chunks N takes the first N", "imatrix"),
    refused("--show-statistics", "cria shows no statistics of an importance matrix", "imatrix"),
    harmless("--output-format", "the file is a GGUF file", 1, "imatrix"),
    refused("--parse-special", "control tokens in the text are read as text", "imatrix"),
    // Files
    refused("--no-tensor-first-split,--split-max-size,--split-max-tensors", kSplitAfter, "convert"),
    same("--split-max-size", "--max-size"),
    same("--split-max-tensors", "--max-tensors"),
    refused("-m,--model", kModelArgument, "merge,split,edit,convert,export"),
    usual("--split", "split"),
    usual("--merge", "merge"),
    refused("--merge", "cria merge joins the parts of a model", "split"),
    refused("--no-tensor-first-split", "the first part has tensors, too", "split"),
    usual("-v,--verbose,--no-tensors", "inspect"),
    refused("--json-array", "--json prints all elements of arrays", "inspect"),
    same("--remove-metadata", "--remove", "edit"),
    refused("--metadata,--general-name,--general-description,--pre-tokenizer,--special-token,"
            "--special-token-by-id",
            "--set KEY=TYPE:VALUE sets a key, such as general.name=string:cria", "edit"),
    refused("--modelfile,--parameters,--license,--system", "cria inspect shows them all",
            "inspect"),
    refused("--keep-split", "the output is one file; cria split divides it again"),
    refused("--leave-output-tensor",
            "--output-type sets the type of the output matrix, for example F16"),
    same("-o,--output,--outfile", "OUT", "edit,merge"),
    same("-o,--output", "PREFIX", "split"),
    refused("-m,--model,-i,--input,-o,--output,--outfile,--outtype,--type,--quant,--quantization,"
            "-q,--qtype,--quant-type,--bits",
            "the order is IN OUT TYPE, without options", "quantize"),
    same("--output-tensor-type", "--output-type", "quantize"),
    same("--custom-q", "--tensor-type", "quantize"),
    refused("--attn-q-type,--attn-k-type,--attn-v-type,--attn-qkv-type,--attn-output-type,"
            "--ffn-gate-type,--ffn-down-type,--ffn-up-type,--ffn-gate-inp-type,"
            "--extra-output-tensor,--per-layer-token-embedding-type,--tensor-type-file",
            kTypes, "quantize"),
    refused("--include-weights,--exclude-weights",
            "an importance matrix counts for all matrices that it has", "quantize"),
    refused("--hide-imatrix,--ignore-imatrix-rules,"
            "--partial-requant,--prune-layers,--repack-pattern",
            "cria quantizes all matrices, by the rules of --mixes -v", "quantize"),
    refused("--override-kv", kMetadata, "quantize"),
    same("--outfile", "--output", "convert"),
    same("--model-name", "--name", "convert"),
    usual("--use-temp-file,--no-lazy", "convert"),
    refused("--remote",
            "cria does not download models; hf download USER/REPO --local-dir DIR, then cria "
            "convert DIR",
            "convert"),
    refused("--bigendian", "cria writes and reads little-endian files", "convert"),
    refused("--vocab-only", "the file has the tokenizer and the tensors", "convert"),
    refused("--mistral-format", "cria reads config.json and *.safetensors as transformers does",
            "convert"),
    refused("--print-supported-models", "cria convert --help lists them", "convert"),
    refused("--base,--base-model-id,--lora",
            "cria reads adapters that are GGUF files (--lora FILE)", "convert"),
    refused("-q,--quantize,--q-bits", "cria quantize makes other types of the converted file",
            "convert"),
    refused("--metadata", kMetadata, "convert"),
    // Measurements
    same("--n-prompt", "--prompt", "bench"),
    same("--n-gen", "--decode", "bench"),
    same("--n-depth", "--depth", "bench"),
    refused("-npl", "--parallel 1,8,32 decodes that many sequences at once", "bench"),
    refused("-pps", "--shared-prompt is for sequences with one prompt", "bench"),
    refused("-pg,-gp,-npp,-ntg", kSizes, "bench"),
    harmless("-nopo,--no-op-offload", kNoGpu, 1, "bench"),
    harmless("-v,--verbose", "--profile shows where the time goes", 0, "bench"),
    refused("-o,--output,-oe,--output-err", "--json, --csv and --md choose the form", "bench"),
    harmless("-w,-embd,--delay,-tgb,--threads-gen-batch", "cria bench does not need it", 1,
             "bench"),
    usual("--progress", "bench"),
};

bool lists(std::string_view list, std::string_view word) {
  const Words parts = parts_of(list);
  return std::ranges::find(parts, word) != parts.end();
}

}  // namespace

const ForeignName* find_foreign_name(std::string_view name, std::string_view command) {
  std::string wanted(name);
  std::ranges::replace(wanted, '_', '-');
  const auto* const found = std::ranges::find_if(kForeignNames, [&](const ForeignName& known) {
    return lists(known.names, wanted) && (known.commands.empty() || lists(known.commands, command));
  });
  return found == std::end(kForeignNames) ? nullptr : found;
}

Words foreign_names_of(const Command& command) {
  Words names;
  for (const ForeignName& one : kForeignNames)
    if (!one.ours.empty() && (one.commands.empty() || lists(one.commands, command.name)))
      for (std::string& name : parts_of(one.names))
        if (name.starts_with("--") && command.find(one.ours) != nullptr)
          names.push_back(std::move(name));
  return names;
}

}  // namespace cria::tools
