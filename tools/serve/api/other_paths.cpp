// Paths of other servers. The error of each says what this one has instead.
#include <utility>

#include "tools/serve/api/protocols.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

constexpr const char* kTextOnly = "this server reads and writes text only";
constexpr const char* kHealth = "/health says if the server is ready";
constexpr const char* kTokenize = "/tokenize turns text into token ids";
constexpr const char* kProps = "use /props";
constexpr const char* kOpenAi = "use /v1, which has OpenAI's API";
constexpr const char* kCloses = "an answer stops when its connection is closed";
constexpr const char* kBatch = "cria batch answers a file of requests";
constexpr const char* kStateless = "this server keeps responses of /v1/responses, and nothing else";

/// Path, what to use instead.
constexpr std::pair<const char*, const char*> kOtherPaths[] = {
    {"/completion", "use /v1/completions"},
    {"/chat", "use /v1/chat/completions"},
    {"/v1/chat", "use /v1/chat/completions"},
    {"/api/chat/completions", "use /v1/chat/completions"},
    {"/v1/complete", "use /v1/messages"},
    {"/v1/chat/completion", "use /v1/chat/completions"},
    {"/v1/completion", "use /v1/completions"},
    {"/v1/tokenize", "use /tokenize"},
    {"/v1/detokenize", "use /detokenize"},
    {"/v1/apply-template", "use /apply-template"},
    {"/v1/infill", "use /infill"},
    {"/v1/props", "use /props"},
    {"/generate", "use /v1/completions"},
    {"/generate_stream", "use /v1/completions"},
    {"/api/v1/generate", "use /v1/completions"},
    {"/invocations", "use /v1/chat/completions"},
    {"/embedding", "use /v1/embeddings"},
    {"/embed", "use /v1/embeddings"},
    {"/v1/embedding", "use /v1/embeddings"},
    {"/score", "use /v1/rerank"},
    {"/v1/score", "use /v1/rerank"},
    {"/v1/v1/{rest}", "leave /v1 out of the base URL"},
    {"/v1/api/{rest}", "leave /v1 out of the base URL"},
    {"/api/v0/{rest}", kOpenAi},
    {"/api/v1/info/version", kProps},
    {"/api/v1/config/max_context_length", kProps},
    {"/api/v1/{rest}", kOpenAi},
    {"/api/extra/version", kProps},
    {"/api/extra/true_max_context_length", kProps},
    {"/api/extra/perf", "/metrics has times and counts"},
    {"/api/extra/tokencount", kTokenize},
    {"/api/extra/abort", kCloses},
    {"/api/extra/{rest}", kOpenAi},
    {"/v1beta/{rest}", kOpenAi},
    {"/v2/chat", "use /v1/chat/completions"},
    {"/v2/embed", "use /v1/embeddings"},
    {"/v1/embed", "use /v1/embeddings"},
    {"/pooling", "use /v1/embeddings"},
    {"/classify", "/v1/rerank scores texts, and /v1/decisions chooses between options"},
    {"/v1/generate", "use /v1/completions"},
    {"/v1/edits", "use /v1/chat/completions"},
    {"/v1/internal/encode", kTokenize},
    {"/v1/internal/token-count", kTokenize},
    {"/v1/internal/{rest}", kProps},
    {"/v1/chat/completions/input_tokens", "use /v1/responses/input_tokens"},
    {"/abort", kCloses},
    {"/abort_request", kCloses},
    {"/v1/load_lora_adapter", "--lora FILE of cria serve loads an adapter"},
    {"/server_info", kProps},
    {"/reset_prefix_cache", "the prefix cache gives the same answers as none; it needs no reset"},
    {"/tokenizer_info", kProps},
    {"/models/load", "models of --models are loaded when a request names them"},
    {"/models/unload", "idle models are unloaded (--models-idle, or \"keep_alive\")"},
    {"/v1/realtime", kTextOnly},
    {"/v1/fine_tuning/jobs", "cria does not train models"},
    {"/v1/responses/compact", "use /v1/responses"},
    {"/healthz", kHealth},
    {"/livez", kHealth},
    {"/readyz", kHealth},
    {"/ready", kHealth},
    {"/live", kHealth},
    {"/ping", kHealth},
    {"/version", "/props and /metrics have the version"},
    {"/info", kProps},
    {"/get_model_info", kProps},
    {"/slots/{id}", "slots are not kept in files; the prefix cache keeps prompts"},
    {"/v1/batches", kBatch},
    {"/v1/messages/batches", kBatch},
    {"/v1/files", kStateless},
    {"/v1/conversations", kStateless},
    {"/v1/assistants", kStateless},
    {"/v1/threads", kStateless},
    {"/v1/audio/speech", kTextOnly},
    {"/v1/audio/transcriptions", kTextOnly},
    {"/v1/images/generations", kTextOnly},
    {"/v1/images/edits", kTextOnly},
    {"/v1/audio/translations", kTextOnly},
    {"/v1/moderations", "no model here judges texts; /v1/decisions asks the one that is served"},
};

}  // namespace

std::vector<Route> other_routes() {
  std::vector<Route> all;
  for (const auto& [path, hint] : kOtherPaths) {
    const auto refuse = [hint = hint](const std::shared_ptr<Exchange>& exchange) {
      const Request& request = exchange->request();
      exchange->fail(
          404, error_body(request, 404, "not found: " + request.path + "; " + hint, "not_found"));
    };
    for (const char* const method : {"GET", "POST"}) all.push_back({method, path, refuse});
  }
  return all;
}

}  // namespace cria::serve
