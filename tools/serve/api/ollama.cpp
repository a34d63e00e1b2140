#include "tools/serve/api/protocols.h"

#include <utility>

#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/api/replies.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

constexpr const char* kOllamaVersion =
    "0.13.4";  // an Ollama with this API: clients compare versions

void answer_ollama(Exchange& exchange, const Json& json) {
  exchange.answer(200, kJsonType, json_text(json));
}

/// One object, as the only line of a stream or as the body.
void answer_once(Exchange& exchange, const Json& json, bool stream) {
  if (!stream) return answer_ollama(exchange, json);
  exchange.begin_events({true, {}});
  exchange.event(json_text(json));
  exchange.end_events();
}

/// Waits for a model: lines without text break the silence.
Api::WaitingForm waiting_form(Api& api, const std::shared_ptr<Exchange>& exchange,
                              const Fields& body, bool generate) {
  if (!body.flag("stream").value_or(true)) return std::nullopt;
  StreamForm form;
  form.lines = form.late_head = true;
  const std::string id = api.pool().id(api.pool().find(body.text("model").value_or("")));
  form.on_silence = [to = std::weak_ptr(exchange), id, generate] {
    if (const auto open = to.lock()) open->event(json_text(OllamaReply::line(id, generate, "")));
  };
  return form;
}

/// Older clients have "name".
std::string named_model(const Fields& body) {
  const auto old_name = body.text("name");
  return body.text("model").value_or(old_name.value_or(""));
}

/// Answers an empty request, which loads the model or unloads it.
void load(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json, bool generate) {
  const Fields body(json);
  const bool stream = body.flag("stream").value_or(true);
  const auto answer = [exchange, generate, stream](const std::string& id, const char* reason) {
    Json line = OllamaReply::line(id, generate, "");
    line["done"] = true;
    line["done_reason"] = reason;
    answer_once(*exchange, line, stream);
  };
  if (tools::read_keep_alive(body) != 0.0)
    return api.with_model(
        exchange, json,
        [answer](const auto&, const Json&, const ModelLease& model) { answer(model->id, "load"); },
        waiting_form(api, exchange, body, generate));
  const std::size_t model = api.pool().find(body.text("model").value_or(""));
  api.pool().expire(model);
  answer(api.pool().id(model), "unload");
}

/// Answers a request; refuses to turn thinking on for a model that does not think.
void ask(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json, bool generate) {
  api.with_model(
      exchange, json,
      [&api, generate](const auto& to, const Json& body, const ModelLease& model) {
        EqualRequest request = generate ? read_ollama_generate(body) : read_ollama_chat(body);
        request.change = [model](const CompletionRequest& said) {
          if (said.think == true && !model->chat_template->answer_format().thinks())
            tools::refuse_unsupported(said.think_path, "this model does not think");
        };
        api.ask(to, model, std::move(request));
      },
      waiting_form(api, exchange, Fields(json), generate));
}

/// Refuses what the other endpoint reads: it would be lost here.
void refuse_other(const Fields& body, const char* name, const char* endpoint) {
  const Json* const value = body.find(name);
  if (value != nullptr && !value->empty() && *value != "")
    tools::refuse_unsupported(name, std::string("it belongs to ") + endpoint);
}

void chat(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json) {
  const Fields body(json);
  refuse_other(body, "prompt", "/api/generate");
  const Json* const messages = body.array("messages");
  if (messages != nullptr && messages->empty()) return load(api, exchange, json, false);
  ask(api, exchange, json, false);
}

void generate(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json) {
  const Fields body(json);
  refuse_other(body, "messages", "/api/chat");
  const std::string prompt = body.text("prompt").value_or("");
  if (prompt.empty() && body.text("suffix").value_or("").empty())
    return load(api, exchange, json, true);
  ask(api, exchange, json, true);
}

/// Reads the texts to embed. Ollama cuts what exceeds the context, if asked to.
std::vector<std::vector<TokenId>> inputs_of(const ServedModel& model, const Fields& body,
                                            bool one) {
  const char* const name = one ? "prompt" : "input";
  if (const auto dimensions = body.integer("dimensions", 1))
    check_dimensions(*dimensions, *model.model);
  (void)body.has("options");
  const bool cut = body.flag("truncate").value_or(true);
  const char* const expected =
      one ? "a string (/api/embed takes several)" : "a string or an array of strings";
  const Json& input = body.require(name, expected);
  if (!input.is_string() && (one || !input.is_array())) tools::refuse_type(name, expected, input);
  const Json all = input.is_string() ? Json::array({input}) : input;
  if (all.empty() || all.size() > 2048) tools::refuse_value(name, "1 to 2048 strings", all.size());
  const std::size_t n_ctx = model.n_ctx();
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string path = input.is_string() ? name : tools::element_path(name, i);
    if (!all[i].is_string()) tools::refuse_type(path, "a string", all[i]);
    prompts.push_back(model.model->tokenizer().encode(all[i].get<std::string>(), true, true));
    std::vector<TokenId>& ids = prompts.back();
    if (ids.empty()) tools::refuse_value(path, "a string with at least one token", all[i]);
    if (cut) ids.resize(std::min(ids.size(), n_ctx));
    if (ids.size() > n_ctx) refuse_long_input(path, ids.size(), n_ctx);
  }
  return prompts;
}

/// one: /api/embeddings, which has one vector and nothing else.
void embed(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json,
           const ModelLease& model, bool one) {
  const Fields body(json);
  auto prompts = inputs_of(*model, body, one);
  exchange->record().ignored = ignored_fields(body);
  const auto write = [model, one, arrived = exchange->request().arrived](
                         const std::vector<std::vector<float>>& vectors, std::size_t tokens) {
    if (one) return json_text({{"embedding", vectors.front()}});
    const auto passed = std::chrono::steady_clock::now() - arrived;
    return json_text(
        {{"model", model->id},
         {"embeddings", vectors},
         {"total_duration", std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()},
         {"load_duration", 0},
         {"prompt_eval_count", tokens}});
  };
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange, write,
      [&api, exchange](std::function<void()> work) { api.post(exchange, std::move(work)); });
  api.submit(exchange, model,
             reply->job(std::move(prompts), model->pooling, exchange->request().scope));
}

void refuse_change(const std::shared_ptr<Exchange>& exchange) {
  exchange->fail(501, error_body(exchange->request(), 501,
                                 "this server downloads and changes nothing", "not_implemented"));
}

void pull(Api& api, const std::shared_ptr<Exchange>& exchange, const Json& json) {
  const Fields body(json);
  if (!api.pool().known(named_model(body))) return refuse_change(exchange);
  answer_once(*exchange, {{"status", "success"}}, body.flag("stream").value_or(true));
}

}  // namespace

std::vector<Route> ollama_routes(Api& api) {
  std::vector<Route> routes;
  const auto get = [&](const char* path, auto make) {
    routes.push_back(api.get_route(path, [make](const std::shared_ptr<Exchange>& exchange) {
      answer_ollama(*exchange, make());
    }));
  };
  const auto post = [&](const char* path, auto handler) {
    routes.push_back(api.post_route(path, [&api, handler](const auto& exchange, const Json& body) {
      handler(api, exchange, body);
    }));
  };
  get("/api/version", [] { return Json{{"version", kOllamaVersion}}; });
  get("/api/tags", [&api] { return ollama_tags(api.pool()); });
  get("/api/ps", [&api] { return ollama_loaded(api.pool()); });
  post("/api/show", [](Api& of, const auto& exchange, const Json& json) {
    const Fields body(json);
    const ModelLease model = of.pool().look_at(of.pool().find(named_model(body)));
    answer_ollama(*exchange, ollama_show(*model, body.flag("verbose").value_or(false)));
  });
  post("/api/chat", chat);
  post("/api/generate", generate);
  for (const bool one : {false, true})
    routes.push_back(api.post_route(
        one ? "/api/embeddings" : "/api/embed",
        [&api, one](const auto& exchange, const Json& body, const ModelLease& model) {
          embed(api, exchange, body, model, one);
        }));
  post("/api/pull", pull);
  for (const char* path : {"/api/push", "/api/create", "/api/copy", "/api/blobs/{digest}"})
    routes.push_back({"POST", path, refuse_change});
  routes.push_back({"DELETE", "/api/delete", refuse_change});
  return routes;
}

}  // namespace cria::serve
