// `cria serve`: a model for many clients, over HTTP.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/error.h"
#include "model/plural.h"
#include "tokenizer/chat/partial_marker.h"
#include "tools/cli/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/serve_models.h"
#include "tools/model_store.h"
#include "tools/options/values.h"
#include "tools/serve/api/api.h"
#include "tools/serve/serve.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// The models behind the server, and the endpoints that ask them.
class ModelBackend final : public serve::Backend {
 public:
  ModelBackend(std::unique_ptr<serve::ModelPool> pool, serve::ApiOptions api)
      : pool_(std::move(pool)), api_(*pool_, std::move(api)) {}
  ~ModelBackend() override { pool_->stop(); }  // its calls use the API's threads

  std::vector<serve::Route> routes() override { return api_.routes(); }
  [[nodiscard]] std::string summary() const override {
    if (pool_->on_demand()) return "loaded on demand, by default " + pool_->id(pool_->find(""));
    return pool_->look_at(0)->service->summary();
  }
  [[nodiscard]] std::string model_name() const override {
    return pool_->on_demand() ? counted(pool_->size(), "model") : pool_->id(0);
  }
  void shut_down(std::chrono::milliseconds grace) override { pool_->shut_down(grace); }

 private:
  const std::unique_ptr<serve::ModelPool> pool_;
  serve::Api api_;
};

struct ServeCommand {
  ServeModels models;
  serve::ServeOptions serve;
  std::string key_file;
  std::string cache_scope = "key";
  std::size_t store_mib = 64;
  double read_timeout = 30, write_timeout = 30, keep_alive = 75, grace = 10;
  bool no_web = false;
};

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

std::unique_ptr<serve::Backend> open_backend(const ServeCommand& options, serve::Metrics& metrics) {
  auto pool = options.models.pool(metrics);
  metrics.set_build(CRIA_VERSION, pool->id(pool->find("")));
  serve::ApiOptions api;
  api.store_bytes = options.store_mib << 20;
  api.log_prompts = options.serve.server.log.texts;
  api.note = [log = options.serve.server.log](const std::string& text) {
    print_line(serve::message_line(serve::escaped_text(text), log));
  };
  return std::make_unique<ModelBackend>(std::move(pool), std::move(api));
}

int run_serve(ServeCommand& options) {
  if (options.models.places.empty())
    options.models.model.model = find_model(options.models.model.model);
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
  return serve::serve(options.serve,
                      [&](serve::Metrics& metrics) { return open_backend(options, metrics); });
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

/// Others take host and port, or a URL, in one.
void check_host(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool has_port = colon != std::string::npos &&
                        (text.find(':') == colon || colon == 0 || text[colon - 1] == ']');
  if (text.find('/') != std::string::npos || has_port)
    throw Error("", "expected a name or an address without the port, which --port sets, got " +
                        without_controls(text));
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
       into::text(server.host, check_host)},
      {"--port", "N", "port (0: any free one)", into::number(server.port, 0, 65535)},
      {"--public-url", "URL",
       "the server's address behind a proxy, such as https://chat.example.org; pages from there "
       "may call the API",
       into::text(access.public_url, check_origin)},
      {"--alias", "NAME", "the model's name for clients (default: the name of its file)",
       into::text(o.models.alias)},
      {"--strict-model", "", "refuse requests that name another model",
       into::flag(o.models.strict)},
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
       into::number(o.models.slots, 1, 1024)},
      {"--queue", "N", "requests that may wait for a slot; more are refused",
       into::number(o.models.queue, 0, 1 << 20)},
      {"--prefill-chunk", "N",
       "prompt tokens evaluated per step while other answers are decoded; fewer slow those down "
       "less",
       into::number(o.models.prefill_chunk, 1, 1 << 20)},
      {"--cache-mib", "N", "MiB of memory for the prefix cache",
       into::number(o.models.cache_mib, 0, 1 << 20)},
      {"--store-mib", "N", "MiB of memory for responses that later requests may continue (0: none)",
       into::number(o.store_mib, 0, 1 << 20)},
      {"--cache-scope", "",
       "which requests share cached prefixes: those with the same API key, or all",
       into::choice(o.cache_scope, {"key", "all"})},
      {"--pooling", "",
       "embeddings: the mean of all tokens, the first (cls) or the last one; default: as the file "
       "says",
       into::choice(o.models.pooling, {"mean", "cls", "last"})},
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
       into::number(o.models.request_timeout, 0, 1e6)},
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
  o.models.sampling.command = &command;
  command.add(access_flags(o));
  command.add({template_flag(o.models.chat_template), call_form_flag(o.models.tool_format)});
  command.add(limit_flags(o));
  command.add(o.models.flags());
  command.add({
      {"--no-web", "", "do not serve the chat page", into::flag(o.no_web)},
      {"--log-json", "", "write log lines as JSON objects", into::flag(o.serve.server.log.json)},
      {"--log-prompts", "", "write prompts and answers to the log, too",
       into::flag(o.serve.server.log.texts)},
  });
  command.add(without(model_flags(o.models.model), "--profile"));
  command.add(speculation_flags(o.models.model, o.models.sampling.generate));
  command.add(o.models.sampling.flags());
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
      "them out. The same request and seed give the same bytes, regardless of other "
      "requests.\n\n"
      "Examples:\n"
      "  cria serve\n"
      "  cria serve -m model.gguf --slots 8 -c 8192\n"
      "  cria serve --models ~/models --models-idle 600\n"
      "  cria serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt";
  command.run = [options] { return run_serve(*options); };
}

}  // namespace cria::tools
