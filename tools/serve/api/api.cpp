#include "tools/serve/api/api.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cmath>
#include <ctime>
#include <utility>

#include "engine/constrain/constraint_error.h"
#include "engine/constrain/token_masks.h"
#include "engine/lora/adapters.h"
#include "model/plural.h"
#include "tools/serve/api/decisions.h"
#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/api/protocols.h"
#include "tools/serve/api/replies.h"
#include "tools/serve/http/message_parser.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

constexpr std::size_t kThreads = 2;
// Costly requests take turns by the system's scheduler: more of them than this wait in a row.
constexpr std::size_t kLongThreads = 16;
constexpr std::size_t kLongBody = 64
                                  << 10;  // bytes that may take more than some milliseconds to read

void refuse(Exchange& exchange, const RequestError& error) {
  Headers more;
  if (error.status == 503) more.emplace_back("Retry-After", "1");
  std::string message = error.what();
  const auto* const too_long = dynamic_cast<const PromptTooLong*>(&error);
  if (too_long != nullptr && protocol_of(exchange.request().path) == Protocol::Messages)
    message = "prompt is too long: " + std::to_string(too_long->tokens) + " tokens > " +
              std::to_string(too_long->most) + " maximum";  // clients look for these words
  exchange.fail(error.status,
                error_body(exchange.request(), error.status, message, error.code, error.param),
                more);
}

/// Runs the work; an exception becomes the answer.
template <class Work>
void guarded(Exchange& exchange, Work&& work) {
  try {
    if (!exchange.closed()) work();
  } catch (const RequestError& error) {
    refuse(exchange, error);
  } catch (const std::exception& error) {
    exchange.record().error = error.what();
    exchange.fail(500, error_body(exchange.request(), 500, error.what(), "internal_error"));
  }
}

/// Returns the path of the request that `path` of the equal one was made from.
std::string told_path(const FieldPaths& paths, const std::string& path) {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& one : paths) {
    const bool below = path.starts_with(one.first) &&
                       (path.size() == one.first.size() || one.first.empty() ||
                        path[one.first.size()] == '.' || path[one.first.size()] == '[');
    if (below && (best == nullptr || one.first.size() > best->first.size())) best = &one;
  }
  return best == nullptr ? path : best->second + path.substr(best->first.size());
}

/// Runs the work; its errors name the request's own fields.
template <class Work>
auto with_own_names(const FieldPaths& paths, Work&& work) {
  try {
    return work();
  } catch (const PromptTooLong& error) {
    throw PromptTooLong(told_path(paths, error.param), error.tokens, error.most + 1);
  } catch (const RequestError& error) {
    if (paths.empty() || error.param.empty()) throw;
    const std::string path = told_path(paths, error.param), before = "\"" + error.param + "\"";
    std::string message = error.what();
    if (message.starts_with(before)) message.replace(1, error.param.size(), path);
    throw RequestError(error.code, path, message, error.status);
  }
}

}  // namespace

Api::Api(ModelPool& pool, ApiOptions options)
    : pool_(pool),
      options_(std::move(options)),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      constraints_([this](const std::string& text) { options_.note(text); }),
      store_(options_.store_bytes),
      workers_(std::make_unique<boost::asio::thread_pool>(kThreads)),
      long_workers_(std::make_unique<boost::asio::thread_pool>(kLongThreads)) {}

Api::~Api() {
  long_workers_->join();
  workers_->join();
}

void Api::post(const std::shared_ptr<Exchange>& exchange, std::function<void()> work) {
  boost::asio::post(*workers_, [exchange, work = std::move(work)] { guarded(*exchange, work); });
}

void Api::post_long(const std::shared_ptr<Exchange>& exchange, std::function<void()> work) {
  boost::asio::post(*long_workers_, [exchange, work = std::move(work)] {
    thread_local const int niceness = nice(5);  // on Linux, this changes only the calling thread
    static_cast<void>(niceness);
    guarded(*exchange, work);
  });
}

void Api::post_reading(const std::shared_ptr<Exchange>& exchange, std::function<void()> work) {
  if (exchange->request().body.size() > kLongBody)
    post_long(exchange, std::move(work));
  else
    post(exchange, std::move(work));
}

// The client may leave while it waits.
void Api::use_model(const std::shared_ptr<Exchange>& exchange, const std::string& name,
                    ModelPool::KeepAlive keep_alive, WaitingForm waiting, const ModelWork& now,
                    ModelWork later) {
  const std::size_t model = pool_.find(name);
  if (const ModelLease lease = pool_.use(model, keep_alive)) return now(lease);
  const ModelPool::Id id = pool_.fresh_id();
  if (waiting) exchange->begin_events(std::move(*waiting));
  exchange->on_closed([this, id] { pool_.cancel(id); });
  try {
    pool_.wait(id, {model, keep_alive,
                    [this, exchange, later = std::move(later)](const ModelLease& lease) {
                      post_reading(exchange, [later, lease] { later(lease); });
                    },
                    [exchange](const Failure& failure) { fail(*exchange, failure); }});
  } catch (const Failure& failure) {
    fail(*exchange, failure);
  }
}

namespace {

template <class Handle>
Route make_route(const char* method, const std::string& path, Handle handler) {
  Route route;
  route.method = method;
  route.path = path;
  route.handler = std::move(handler);
  return route;
}

ModelPool::KeepAlive keep_alive_of(const Fields& fields) {
  const auto seconds = tools::read_keep_alive(fields);
  if (!seconds) return std::nullopt;
  constexpr double kMost = 1e9;  // 30 years
  return std::chrono::milliseconds(std::llround(1000 * std::clamp(*seconds, -1.0, kMost)));
}

}  // namespace

Route Api::post_route(const std::string& path, Answerer answerer) {
  return make_route(
      "POST", path,
      [this, answerer = std::move(answerer)](const std::shared_ptr<Exchange>& exchange) {
        post_reading(exchange, [answerer, exchange] {
          answerer(exchange, tools::parse_request_json(exchange->request().body));
        });
      });
}

// A waiting request keeps its body as text, which takes less memory than a tree.
void Api::with_model(const std::shared_ptr<Exchange>& exchange, const Json& body,
                     const ModelAnswerer& answerer, WaitingForm waiting) {
  const Fields fields(body);
  use_model(
      exchange, fields.text("model").value_or(""), keep_alive_of(fields), std::move(waiting),
      [&](const ModelLease& model) { answerer(exchange, body, model); },
      [answerer, exchange](const ModelLease& model) {
        answerer(exchange, tools::parse_request_json(exchange->request().body), model);
      });
}

Route Api::post_route(const std::string& path, ModelAnswerer answerer) {
  return post_route(path, [this, answerer = std::move(answerer)](
                              const std::shared_ptr<Exchange>& exchange, const Json& body) {
    const bool stream = body.is_object() && body.contains("stream") && body["stream"] == true;
    with_model(exchange, body, answerer, stream ? WaitingForm(StreamForm()) : std::nullopt);
  });
}

Route Api::get_route(const std::string& path,
                     std::function<void(const std::shared_ptr<Exchange>& exchange)> answerer) {
  return make_route(
      "GET", path,
      [this, answerer = std::move(answerer)](const std::shared_ptr<Exchange>& exchange) {
        post(exchange, [answerer, exchange] { answerer(exchange); });
      });
}

Route Api::get_route(
    const std::string& path,
    std::function<void(const std::shared_ptr<Exchange>& exchange, const ModelLease& model)>
        answerer) {
  return get_route(
      path, [this, answerer = std::move(answerer)](const std::shared_ptr<Exchange>& exchange) {
        const auto answer = [answerer, exchange](const ModelLease& model) {
          answerer(exchange, model);
        };
        use_model(exchange, query_value(exchange->request().query, "model"), std::nullopt,
                  std::nullopt, answer, answer);
      });
}

// ------------------------------------------------------------ texts and tokens

namespace {

void tokenize(const std::shared_ptr<Exchange>& exchange, const Json& body,
              const ModelLease& model) {
  const Tokenizer& tokenizer = model->model->tokenizer();
  const Fields fields(body);
  const std::string content = fields.require_text("content");
  const bool add_special = fields.flag("add_special").value_or(false),
             parse_special = fields.flag("parse_special").value_or(true),
             with_pieces = fields.flag("with_pieces").value_or(false);
  exchange->record().ignored = ignored_fields(fields);
  const std::vector<TokenId> ids = tokenizer.encode(content, add_special, parse_special);
  ObjectText json;
  json.add_list("tokens", ids.size(), [&](std::string& text, std::size_t i) {
    const std::string id = std::to_string(ids[i]);
    if (!with_pieces) {
      text += id;
      return;
    }
    text.append("{\"id\":").append(id).append(",\"piece\":");
    text.append(json_text(piece_json(tokenizer.piece(ids[i], true)))).append("}");
  });
  exchange->answer(200, kJsonType, json.take());
}

void detokenize(const std::shared_ptr<Exchange>& exchange, const Json& body,
                const ModelLease& model) {
  const Fields fields(body);
  (void)fields.require("tokens", "an array of token ids");
  const std::vector<TokenId> ids =
      tools::read_ids(*fields.array("tokens"), "tokens", model->model->token_count());
  exchange->answer(200, kJsonType,
                   json_text({{"content", model->model->tokenizer().decode(ids, true)}}));
}

}  // namespace

std::vector<Route> Api::routes() {
  std::vector<Route> all;
  const auto own = [this](void (Api::*handler)(const std::shared_ptr<Exchange>&, const Json&,
                                               const ModelLease&)) -> ModelAnswerer {
    return [this, handler](const auto& exchange, const Json& body, const ModelLease& model) {
      (this->*handler)(exchange, body, model);
    };
  };
  for (const std::string prefix : {"/v1", ""}) {
    const auto endpoint = [&](Route route) {
      route.endpoint = "/v1" + route.path;
      route.path = prefix + route.path;
      all.push_back(std::move(route));
    };
    for (const bool chat : {true, false})
      endpoint(post_route(
          chat ? "/chat/completions" : "/completions",
          [this, chat](const auto& exchange, const Json& body, const ModelLease& model) {
            ask(exchange, model, {body, chat, {}, [](ReplyParts parts) {
                                    return std::make_shared<OpenAiReply>(std::move(parts));
                                  }});
          }));
    endpoint(post_route("/embeddings", own(&Api::embed)));
    for (const char* path : {"/rerank", "/reranking"})
      endpoint(post_route(path, own(&Api::rerank)));
    all.push_back(
        get_route(prefix + "/models", [this](const auto& exchange) { models(exchange); }));
    all.push_back(
        get_route(prefix + "/models/{id}", [this](const auto& exchange) { one_model(exchange); }));
  }
  std::ranges::move(messages_routes(*this), std::back_inserter(all));
  std::ranges::move(responses_routes(*this, store_), std::back_inserter(all));
  std::ranges::move(ollama_routes(*this), std::back_inserter(all));
  std::ranges::move(decisions_routes(*this, store_), std::back_inserter(all));
  std::ranges::move(infill_routes(*this), std::back_inserter(all));
  std::ranges::move(server_info_routes(*this), std::back_inserter(all));
  all.push_back(post_route("/v2/rerank", own(&Api::rerank)));
  all.push_back(post_route("/tokenize", tokenize));
  all.push_back(post_route("/detokenize", detokenize));
  all.push_back(post_route("/apply-template", own(&Api::apply_template)));
  std::ranges::move(other_routes(), std::back_inserter(all));
  return all;
}

// ------------------------------------------------------------ models

namespace {

Json model_json(const ModelPool::Entry& entry, std::int64_t created) {
  Json json = {{"id", entry.id}, {"object", "model"}, {"created", created}, {"owned_by", "cria"}};
  if (entry.card) {
    const ModelCard& card = *entry.card;
    json["meta"] = {{"n_ctx", card.n_ctx},       {"n_ctx_train", card.n_ctx_train},
                    {"n_vocab", card.n_vocab},   {"n_embd", card.n_embd},
                    {"n_params", card.n_params}, {"size", card.tensor_bytes},
                    {"memory", card.memory}};
    json["context_length"] = card.n_ctx;
    json["architecture"] = {{"input_modalities", Json::array({"text"})},
                            {"output_modalities", Json::array({card.output})}};
  }
  json["status"] = {{"value", entry.status}};
  return json;
}

}  // namespace

void Api::models(const std::shared_ptr<Exchange>& exchange) {
  Json all = Json::array();
  for (std::size_t i = 0; i < pool_.size(); ++i)
    all.push_back(model_json(pool_.entry(i), created_));
  exchange->answer(200, kJsonType, json_text({{"object", "list"}, {"data", std::move(all)}}));
}

void Api::one_model(const std::shared_ptr<Exchange>& exchange) {
  const ModelPool::Entry entry = pool_.entry(pool_.find(exchange->request().parameter, true));
  exchange->answer(200, kJsonType, json_text(model_json(entry, created_)));
}

// ------------------------------------------------------------ answers

CompletionRequest Api::read(const ServedModel& model, const EqualRequest& asked) const {
  const std::size_t n_vocab = model.model->token_count(),
                    n_adapters = model.model->adapters().files().size();
  CompletionRequest request =
      asked.chat ? tools::read_chat_request(asked.body, model.defaults, n_vocab, n_adapters)
                 : tools::read_completion_request(asked.body, model.defaults, n_vocab, n_adapters);
  try {
    check_output(*model.model, std::nullopt);
  } catch (const Error& error) {
    throw RequestError("unsupported_model", "model", error.what());
  }
  if (asked.change) asked.change(request);
  return request;
}

namespace {

/// A grammar may name tokens by their ids, which depend on the model.
void check_token_ids(const CompletionRequest& request, const Model& model) {
  if (request.constraint.kind != ConstraintFields::Kind::Grammar) return;
  try {
    (void)request.generate.constraint->state().masks(model.token_trie());
  } catch (const ConstraintError& error) {
    throw RequestError("invalid_grammar", request.constraint.path,
                       "\"" + request.constraint.path + "\": " + error.what());
  }
}

/// Returns the names of ignored fields, with those inside of messages and of chat_template_kwargs
/// that the template does not use.
std::string all_ignored(const CompletionRequest& request, const EqualRequest& asked,
                        const ServedModel& model) {
  std::string list = asked.ignored;
  tools::add_ignored(list, request.ignored);
  if (!request.chat) return list;
  const ChatTemplate& chat = *model.chat_template;
  const bool shows_thoughts = chat.names("reasoning") || chat.names("thinking");
  const auto reads = [&chat, shows_thoughts](const Json& message, const std::string& name) {
    const bool assistant = message.value("role", Json()) == "assistant";
    if (name == "tool_calls") return assistant;
    if (name == "refusal") return assistant && message.value("content", Json()).empty();
    if (tools::is_thinking_member(name)) return shows_thoughts;
    return tools::is_known_member(name) || (name == "name" && chat.names(name));
  };
  for (const Json& message : asked.body.at("messages")) {
    for (const auto& [name, value] : message.items())
      if (!value.empty() && !reads(message, name)) tools::add_ignored(list, {name}, "messages.");
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (const Json& part : *content)
      for (const auto& [name, value] : part.items())
        if (name != "text" && name != "refusal" && !tools::changes_nothing(name))
          tools::add_ignored(list, {name}, "messages.content.");
  }
  const auto given = asked.body.find("chat_template_kwargs");
  if (given != asked.body.end() && given->is_object())
    for (const auto& [name, value] : given->items())
      if (!chat.names(name)) tools::add_ignored(list, {name}, "chat_template_kwargs.");
  return list;
}

}  // namespace

// A new constraint is compiled by post_long().
void Api::ask(const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
              EqualRequest asked) {
  with_own_names(asked.paths, [&] {
    CompletionRequest request = read(*model, asked);
    exchange->record().ignored = all_ignored(request, asked, *model);
    const CallForm form = call_form(*model, request);
    asked.body = nullptr;
    if (constraints_.has(request, form)) {
      request.generate.constraint = constraints_.of(request, form);
      check_token_ids(request, *model->model);
      return answer(exchange, model, asked, std::move(request));
    }
    post_long(exchange, [this, exchange, model, form, asked = std::move(asked),
                         request = std::move(request)]() mutable {
      with_own_names(asked.paths, [&] {
        request.generate.constraint = constraints_.of(request, form);
        check_token_ids(request, *model->model);
        answer(exchange, model, asked, std::move(request));
      });
    });
  });
}

Prompts Api::prompts(const Exchange& exchange, const ServedModel& model,
                     const EqualRequest& asked) const {
  return with_own_names(asked.paths, [&] {
    const CompletionRequest request = read(model, asked);
    Prompts out = chat_prompt(model, model.n_ctx(), request);
    out.request.scope = exchange.request().scope;
    out.request.cache_prompt = request.reuse;
    out.request.adapters = request.adapters;
    return out;
  });
}

std::size_t Api::count_tokens(Exchange& exchange, const ServedModel& model, EqualRequest asked) {
  return with_own_names(asked.paths, [&] {
    const CompletionRequest request = read(model, asked);
    exchange.record().ignored = all_ignored(request, asked, model);
    return chat_prompt(model, SIZE_MAX / 2, request).all.front().tokens.size();
  });
}

void Api::answer(const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
                 const EqualRequest& asked, CompletionRequest request) {
  Prompts prompts = request.chat ? chat_prompt(*model, model->n_ctx(), request)
                                 : text_prompts(*model, model->n_ctx(), request);
  prompts.request.scope = exchange->request().scope;
  prompts.request.cache_prompt = request.reuse;
  prompts.request.adapters = request.adapters;
  // Free the sources of the prompts while the answer waits.
  request.messages = {};
  request.variables = {};
  request.prompts = {};
  request.tools.tools = nullptr;
  request.constraint = {};
  if (options_.log_prompts) exchange->record().prompt_text = exchange->request().body;
  const auto reply = asked.reply(
      {exchange, model, std::move(request), std::move(prompts),
       [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); },
       options_.log_prompts});
  submit(exchange, model, reply->job());
}

void Api::submit(const std::shared_ptr<Exchange>& exchange, const ModelLease& model, Job job) {
  try {
    const Service::Id id = model->service->submit(std::move(job));
    exchange->on_closed([id, weak = std::weak_ptr(model)] {
      if (const ModelLease lease = weak.lock()) lease->service->cancel(id);
    });
  } catch (const Failure& failure) {
    fail(*exchange, failure);
  }
}

void Api::embed(const std::shared_ptr<Exchange>& exchange, const Json& body,
                const ModelLease& model) {
  const Fields fields(body);
  const EmbeddingRequest request = read_embedding_request(fields, *model->model);
  exchange->record().ignored = ignored_fields(fields);
  if (model->pooling == Pooling::None || model->pooling == Pooling::Rank)
    throw RequestError("unsupported_model", "model",
                       model->pooling == Pooling::Rank
                           ? "the model scores pairs of texts; use /v1/rerank"
                           : "the file asks for a vector per token; start cria serve with "
                             "--pooling mean, cls or last");
  auto prompts = embedding_prompts(request, model->model->tokenizer(), model->n_ctx());
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange,
      [model, base64 = request.base64](const Vectors& vectors, std::size_t tokens) {
        return embeddings_json(*model, base64, vectors, tokens);
      },
      [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); });
  submit(exchange, model,
         reply->job(std::move(prompts), model->pooling, exchange->request().scope));
}

void Api::rerank(const std::shared_ptr<Exchange>& exchange, const Json& body,
                 const ModelLease& model) {
  const Fields fields(body);
  RerankRequest request = read_rerank_request(fields);
  exchange->record().ignored = request.ignored;
  auto pairs = rerank_pairs(request, *model->model, model->n_ctx());
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange,
      [model, request = std::move(request)](const Vectors& outputs, std::size_t tokens) {
        return rerank_json(*model, request, outputs, tokens);
      },
      [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); });
  submit(exchange, model, reply->job(std::move(pairs), Pooling::Rank, exchange->request().scope));
}

void Api::apply_template(const std::shared_ptr<Exchange>& exchange, const Json& body,
                         const ModelLease& model) {
  const Fields fields(body);
  const bool generation = fields.flag("add_generation_prompt").value_or(true);
  Json chat = body;
  chat.erase("add_generation_prompt");
  const CompletionRequest request = tools::read_chat_request(
      chat, model->defaults, model->model->token_count(), model->model->adapters().files().size());
  tools::add_ignored(exchange->record().ignored, request.ignored);
  Repairs repairs;
  Json json = {{"prompt", rendered_prompt(*model, request, generation, repairs)}};
  if (!repairs.empty()) json["repairs"] = repairs;
  exchange->answer(200, kJsonType, json_text(json));
}

}  // namespace cria::serve
