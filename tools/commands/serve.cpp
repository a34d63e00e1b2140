// `cria serve`: a model for many clients, over HTTP.
#include "tools/serve/serve.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "engine/model.h"
#include "model/error.h"
#include "tokenizer/chat/partial_marker.h"
#include "tools/commands/commands.h"
#include "tools/options/chat_template.h"
#include "tools/options/command_line.h"
#include "tools/options/common.h"
#include "tools/options/find_model.h"
#include "tools/options/sampling.h"
#include "tools/serve/model_backend.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct ServeCommand {
  ModelOptions model;
  SamplingOptions sampling;
  serve::ServeOptions serve;
  std::string alias, chat_template, tool_format, key_file;
  std::string cache_scope = "key", pooling = "mean";
  std::size_t slots = 4, queue = 64, prefill_chunk = 128, cache_mib = 512;
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
  if (keys.empty()) throw Error(path, "there is no key in it");
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
  if (!options.model.draft.empty())
    service.scheduler.draft = Model::load(find_model(options.model.draft));
  service.queue = options.queue;
  service.request_timeout = milliseconds(options.request_timeout);
  return service;
}

/// What requests do not say. Without --seed each has one of its own.
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
  say_note(note);
  serve::ApiOptions api;
  api.defaults = default_answer(options, *model);
  api.strict_model = options.strict_model;
  api.pooling = options.pooling == "last" ? Pooling::Last : Pooling::Mean;
  api.log_prompts = options.serve.server.log.texts;
  api.note = [log = options.serve.server.log](const std::string& text) {
    print_line(serve::message_line(serve::escaped_text(text), log));
  };
  return std::make_unique<serve::ModelBackend>(
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

std::string check_origin(const std::string& text) {
  return serve::is_origin(text)
             ? ""
             : "expected SCHEME://HOST or SCHEME://HOST:PORT, got " + without_controls(text);
}

void add_seconds(CLI::App& command, const char* name, double& value, double least,
                 const char* what) {
  command.add_option(name, value, what)
      ->type_name("S")
      ->check(range(least, 1e6))
      ->capture_default_str();
}

void add_address_options(CLI::App& command, serve::ServerOptions& server) {
  command
      .add_option(
          "--host", server.host,
          "address to listen on; if other machines can reach it, set a key (--api-key-file)")
      ->type_name("ADDR")
      ->capture_default_str();
  command.add_option("--port", server.port, "port (0: any free one)")
      ->type_name("N")
      ->check(range(0, 65535))
      ->capture_default_str();
  command
      .add_option(
          "--public-url", server.access.public_url,
          "the server's address behind a proxy, such as https://chat.example.org; pages from there "
          "may call the API")
      ->type_name("URL")
      ->check(check_origin);
}

void add_access_options(CLI::App& command, ServeCommand& options) {
  serve::AccessOptions& access = options.serve.server.access;
  const auto is_key = [](const std::string& key) {
    return serve::is_api_key(key) ? std::string()
                                  : "expected visible characters without blanks, at most 512";
  };
  command
      .add_option(
          "--api-key", access.keys,
          "key that clients must send (safer in a file, or as $CRIA_API_KEY); may be repeated")
      ->type_name("KEY")
      ->allow_extra_args(false)
      ->check(is_key);
  command.add_option("--api-key-file", options.key_file, "file of such keys, one per line")
      ->type_name("FILE");
  command
      .add_option("--cors-origin", access.cors_origins,
                  "web origin whose pages may call the API, * for all; may be repeated")
      ->type_name("ORIGIN")
      ->allow_extra_args(false)
      ->check([](const std::string& text) { return text == "*" ? "" : check_origin(text); });
  command
      .add_option("--allowed-host", access.allowed_hosts,
                  "additional host name that clients may use for a server on a loopback address; "
                  "may be repeated")
      ->type_name("HOST")
      ->allow_extra_args(false);
}

void add_limit_options(CLI::App& command, ServeCommand& options) {
  serve::ServerOptions& server = options.serve.server;
  command.add_option("--max-body", server.max_body, "largest size of a request's body, in bytes")
      ->type_name("BYTES")
      ->check(range<std::uint64_t>(1, std::uint64_t{1} << 32))
      ->capture_default_str();
  command.add_option("--max-connections", server.max_connections, "connections at once")
      ->type_name("N")
      ->check(range(1, 1 << 16))
      ->capture_default_str();
  add_seconds(command, "--read-timeout", options.read_timeout, 0.01,
              "seconds within which a request must have arrived completely");
  add_seconds(command, "--write-timeout", options.write_timeout, 0.01,
              "seconds after which a client that reads nothing is disconnected");
  add_seconds(command, "--keep-alive", options.keep_alive, 0.01,
              "seconds after which an idle connection is closed");
  add_seconds(command, "--request-timeout", options.request_timeout, 0,
              "seconds that a request may wait, and as many that it may then run (0: no limit)");
  add_seconds(command, "--grace", options.grace, 0,
              "seconds that running answers may go on after Ctrl-C or SIGTERM");
}

void add_slot_options(CLI::App& command, ServeCommand& options) {
  const auto number = [&command](const char* name, std::size_t& value, std::size_t least,
                                 std::size_t most, const char* what) {
    command.add_option(name, value, what)
        ->type_name("N")
        ->check(range(least, most))
        ->capture_default_str();
  };
  number("--slots", options.slots, 1, 1024,
         "requests answered at once, each with a context of -c tokens");
  number("--queue", options.queue, 0, 1 << 20,
         "requests that may wait for a slot; more are refused");
  number("--prefill-chunk", options.prefill_chunk, 1, 1 << 20,
         "prompt tokens read per step while other answers are being written; fewer: those are "
         "slowed down less");
  number("--cache-mib", options.cache_mib, 0, 1 << 20, "MiB of memory for prompts kept for reuse");
  command
      .add_option(
          "--cache-scope", options.cache_scope,
          "which requests may reuse each other's prompts: those with the same API key, or all")
      ->check(CLI::IsMember({"key", "all"}))
      ->capture_default_str();
  command
      .add_option("--pooling", options.pooling,
                  "embeddings: the mean of all tokens, or the last one")
      ->check(CLI::IsMember({"mean", "last"}))
      ->capture_default_str();
}

}  // namespace

void add_serve(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve OpenAI's HTTP API, and a chat page for the browser");
  auto options = std::make_shared<ServeCommand>();
  add_address_options(*command, options->serve.server);
  command
      ->add_option("--alias", options->alias,
                   "the model's name for clients (default: the name of its file)")
      ->type_name("NAME");
  command->add_flag("--strict-model", options->strict_model,
                    "refuse requests that name another model");
  add_slot_options(*command, *options);
  add_template_option(*command, options->chat_template);
  add_call_form_option(*command, options->tool_format);
  add_access_options(*command, *options);
  add_limit_options(*command, *options);
  command->add_flag("--no-web", options->no_web, "do not serve the chat page");
  command->add_flag("--log-json", options->serve.server.log.json,
                    "write log lines as JSON objects");
  command->add_flag("--log-prompts", options->serve.server.log.texts,
                    "write prompts and answers to the log, too");
  add_model_options(*command, options->model);
  command->remove_option(command->get_option("--profile"));
  add_speculation_options(*command, options->model, options->sampling.generate);
  options->sampling.add_to(*command);
  command->footer(
      "OpenAI's clients work unchanged, with the base URL http://127.0.0.1:8080/v1. The chat page "
      "is at "
      "http://127.0.0.1:8080. The sampling options apply where a request leaves them out. The same "
      "request "
      "and seed give the same bytes, whatever else is being answered.\n\n"
      "Examples:\n"
      "  cria serve\n"
      "  cria serve -m model.gguf --slots 8 -c 8192\n"
      "  cria serve -m model.gguf --host 0.0.0.0 --api-key-file keys.txt");
  on_run(command, [options] { return run_serve(*options); });
}

}  // namespace cria::tools
