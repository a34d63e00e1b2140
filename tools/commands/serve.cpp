// `cria serve`: a model for many clients, over HTTP.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/model.h"
#include "model/error.h"
#include "tokenizer/chat/partial_marker.h"
#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/serve/api/api.h"
#include "tools/serve/serve.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// A model behind the server: the service that computes, and the endpoints that ask it.
class ModelBackend final : public serve::Backend {
 public:
  /// Throws Error if memory is too small. The metrics must outlive it.
  ModelBackend(serve::ServedModel model, const serve::ServiceOptions& service,
               serve::ApiOptions api, serve::Metrics& metrics)
      : name_(model.id),
        service_(*model.model, service, metrics),
        api_(std::move(model), service_, std::move(api)) {}
  ~ModelBackend() override { service_.stop(); }  // its calls use the API's threads

  std::vector<serve::Route> routes() override { return api_.routes(); }
  [[nodiscard]] std::string summary() const override { return service_.summary(); }
  [[nodiscard]] std::string model_name() const override { return name_; }
  void shut_down(std::chrono::milliseconds grace) override { service_.shut_down(grace); }

 private:
  const std::string name_;
  serve::Service service_;
  serve::Api api_;
};

struct ServeCommand {
  ModelOptions model;
  SamplingOptions sampling;
  serve::ServeOptions serve;
  std::string alias, chat_template, tool_format, key_file;
  std::string cache_scope = "key", pooling;
  std::size_t slots = 4, queue = 64, prefill_chunk = 128, cache_mib = 512, store_mib = 64;
  double read_timeout = 30, write_timeout = 30, keep_alive = 75, request_timeout = 600, grace = 10;
  bool strict_model = false, no_web = false;
};

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

/// Keys of a file, one a line. Their texts stand in no error.
std::vector<std::string> read_keys(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error(path, "cannot be read");
  std::vector<std::string> keys;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = std::string(without_spaces(line));
    if (line.empty()) continue;
    if (!serve::is_api_key(line))
      throw Error(path, "expected a key of visible characters without blanks",
                  "line " + std::to_string(number));
    keys.push_back(line);
  }
  if (keys.empty()) throw Error(path, "holds no key");
  return keys;
}

serve::ServiceOptions service_options(const ServeCommand& options, const Model& model) {
  serve::ServiceOptions service;
  EngineOptions& engine = service.engine;
  engine = engine_options(options.model);
  engine.rope_ctx = engine.n_ctx == 0 ? model.context_length() : engine.n_ctx;
  engine.sequences = static_cast<std::uint32_t>(options.slots);
  // A step has a token of every answer that is being written, and some of a prompt.
  engine.n_batch = std::max(engine.n_batch, engine.sequences + 1);
  engine.prefix_cache_bytes = std::uint64_t{options.cache_mib} << 20;
  service.scheduler.prompt_tokens = options.prefill_chunk;
  service.queue = options.queue;
  service.request_timeout = milliseconds(options.request_timeout);
  return service;
}

/// Defaults of fields that requests leave out. Without --seed each request gets its own seed.
GenerateOptions default_answer(const ServeCommand& options, const Model& model) {
  GenerateOptions defaults = options.sampling.resolve();
  options.sampling.follow(model.file(), defaults.sampler);
  defaults.sampler.seed = options.sampling.generate.sampler.seed;
  return defaults;
}

std::unique_ptr<serve::Backend> open_backend(const ServeCommand& options, serve::Metrics& metrics) {
  const auto model = load_model(options.model);
  warn_of_long_context(*model, options.model);
  auto chat_template = std::make_shared<const ChatTemplate>(
      choose_template(options.chat_template, model->vocabulary()));
  std::string note = chat_template->note();
  print_and_clear(note);
  serve::ApiOptions api;
  api.defaults = default_answer(options, *model);
  api.strict_model = options.strict_model;
  api.store_bytes = options.store_mib << 20;
  api.pooling = options.pooling.empty() ? default_pooling(*model) : parse_pooling(options.pooling);
  if (api.pooling != Pooling::None) check_output(*model, api.pooling);
  api.log_prompts = options.serve.server.log.texts;
  api.note = [log = options.serve.server.log](const std::string& text) {
    print_line(serve::message_line(serve::escaped_text(text), log));
  };
  return std::make_unique<ModelBackend>(
      serve::ServedModel::of(model, std::move(chat_template), call_form_named(options.tool_format),
                             options.alias),
      service_options(options, *model), std::move(api), metrics);
}

int run_serve(ServeCommand& options) {
  options.model.model = find_model(options.model.model);
  if (options.alias.empty()) options.alias = serve::file_name(options.model.model);
  serve::ServerOptions& server = options.serve.server;
  server.read_timeout = milliseconds(options.read_timeout);
  server.write_timeout = milliseconds(options.write_timeout);
  server.keep_alive = milliseconds(options.keep_alive);
  server.access.share_scopes = options.cache_scope == "all";
  if (!options.key_file.empty())
    for (std::string& key : read_keys(options.key_file))
      server.access.keys.push_back(std::move(key));
  options.serve.web = !options.no_web;
  options.serve.grace = milliseconds(options.grace);
  return serve::serve(options.serve, [&](serve::Metrics& metrics) {
    metrics.set_build(CRIA_VERSION, options.alias);
    return open_backend(options, metrics);
  });
}

void check_origin_pattern(const std::string& text) {
  if (!serve::is_origin_pattern(text))
    throw Error("",
                "expected SCHEME://HOST, SCHEME://HOST:PORT, SCHEME://* (not of http), null or "
                "*, got " +
                    without_controls(text));
}

void check_origin(const std::string& text) {
  if (!serve::is_origin(text))
    throw Error("", "expected SCHEME://HOST or SCHEME://HOST:PORT, got " + without_controls(text));
}

void check_key(const std::string& key) {
  if (!serve::is_api_key(key))
    throw Error("", "expected visible characters without blanks, at most 512");
}

/// Flags of the address and of access.
Flags access_flags(ServeCommand& o) {
  serve::ServerOptions& server = o.serve.server;
  serve::AccessOptions& access = server.access;
  return {
      {"--host", "ADDR",
       "address to listen on; if other machines can reach it, set a key (--api-key-file)",
       into::text(server.host)},
      {"--port", "N", "port (0: any free one)", into::number(server.port, 0, 65535)},
      {"--public-url", "URL",
       "the server's address behind a proxy, such as https://chat.example.org; pages from there "
       "may call the API",
       into::text(access.public_url, check_origin)},
      {"--alias", "NAME", "the model's name for clients (default: the name of its file)",
       into::text(o.alias)},
      {"--strict-model", "", "refuse requests that name another model", into::flag(o.strict_model)},
      {"--api-key", "KEY",
       "key that clients must send (safer in a file, or as $CRIA_API_KEY); may be repeated",
       into::each(access.keys, check_key)},
      {"--api-key-file", "FILE", "file of such keys, one per line", into::text(o.key_file)},
      {"--cors-origin", "ORIGIN",
       "web origin whose pages may call the API, such as https://app.example or "
       "vscode-webview://*; "
       "* for all; may be repeated",
       into::each(access.cors_origins, check_origin_pattern)},
      {"--allowed-host", "HOST",
       "additional host name that clients may use for a server on a loopback address; may be "
       "repeated",
       into::each(access.allowed_hosts)},
  };
}

/// Slots, the prefix cache, and limits of requests.
Flags limit_flags(ServeCommand& o) {
  serve::ServerOptions& server = o.serve.server;
  return {
      {"--slots", "N", "requests answered at once, each with a context of -c tokens",
       into::number(o.slots, 1, 1024)},
      {"--queue", "N", "requests that may wait for a slot; more are refused",
       into::number(o.queue, 0, 1 << 20)},
      {"--prefill-chunk", "N",
       "prompt tokens evaluated per step while other answers are decoded; fewer slow those down "
       "less",
       into::number(o.prefill_chunk, 1, 1 << 20)},
      {"--cache-mib", "N", "MiB of memory for the prefix cache",
       into::number(o.cache_mib, 0, 1 << 20)},
      {"--store-mib", "N", "MiB of memory for responses that later requests may continue (0: none)",
       into::number(o.store_mib, 0, 1 << 20)},
      {"--cache-scope", "",
       "which requests share cached prefixes: those with the same API key, or all",
       into::choice(o.cache_scope, {"key", "all"})},
      {"--pooling", "",
       "embeddings: the mean of all tokens, the first (cls) or the last one; default: as the file "
       "says",
       into::choice(o.pooling, {"mean", "cls", "last"})},
      {"--max-body", "BYTES", "largest size of a request's body, in bytes",
       into::number(server.max_body, 1, 4294967296.0)},
      {"--max-connections", "N", "connections at once",
       into::number(server.max_connections, 1, 1 << 16)},
      {"--read-timeout", "S", "seconds within which a request must have arrived completely",
       into::number(o.read_timeout, 0.01, 1e6)},
      {"--write-timeout", "S", "seconds after which a client that reads nothing is disconnected",
       into::number(o.write_timeout, 0.01, 1e6)},
      {"--keep-alive", "S", "seconds after which an idle connection is closed",
       into::number(o.keep_alive, 0.01, 1e6)},
      {"--request-timeout", "S",
       "time limit in seconds for waiting, and again for running (0: none)",
       into::number(o.request_timeout, 0, 1e6)},
      {"--grace", "S", "seconds that running answers get to finish after Ctrl-C or SIGTERM",
       into::number(o.grace, 0, 1e6)},
  };
}

}  // namespace

void add_serve(Program& program) {
  Command& command =
      program.add("serve", "Serve the HTTP APIs of OpenAI, Anthropic and Ollama, and a chat page");
  auto options = std::make_shared<ServeCommand>();
  ServeCommand& o = *options;
  o.sampling.command = &command;
  command.add(access_flags(o));
  command.add({template_flag(o.chat_template), call_form_flag(o.tool_format)});
  command.add(limit_flags(o));
  command.add({
      {"--no-web", "", "do not serve the chat page", into::flag(o.no_web)},
      {"--log-json", "", "write log lines as JSON objects", into::flag(o.serve.server.log.json)},
      {"--log-prompts", "", "write prompts and answers to the log, too",
       into::flag(o.serve.server.log.texts)},
  });
  command.add(without(model_flags(o.model), "--profile"));
  command.add(speculation_flags(o.model, o.sampling.generate));
  command.add(o.sampling.flags());
  command.notes =
      "Clients of these protocols work unchanged. A request has the same answer in each of them.\n"
      "  OpenAI, chat completions and Responses: base URL http://127.0.0.1:8080/v1\n"
      "  Codex, in config.toml: base_url = \"http://127.0.0.1:8080/v1\", wire_api = \"responses\"\n"
      "  Anthropic, Messages: ANTHROPIC_BASE_URL=http://127.0.0.1:8080\n"
      "  Ollama: OLLAMA_HOST=http://127.0.0.1:8080\n"
      "  Editors that fill in the middle: endpoint http://127.0.0.1:8080/infill\n"
      "  Rerankers: http://127.0.0.1:8080/v1/rerank; decisions: /v1/decisions and /v1/systemone\n"
      "The chat page is at http://127.0.0.1:8080. The sampling options apply where a request "
      "leaves "
      "them out. The same request and seed give the same bytes, whatever else is being "
      "answered.\n\n"
      "Examples:\n"
      "  cria serve\n"
      "  cria serve -m model.gguf --slots 8 -c 8192\n"
      "  cria serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt";
  command.run = [options] { return run_serve(*options); };
}

}  // namespace cria::tools
