#include "tools/serve/api/api.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

#include "model/plural.h"
#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/api/rerank.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

constexpr std::size_t kThreads = 2, kLongThreads = 2;
constexpr std::size_t kLongBody = 64
                                  << 10;  // bytes that may take more than some milliseconds to read

void refuse(Exchange& exchange, const RequestError& error) {
  Headers more;
  if (error.status == 503) more.emplace_back("Retry-After", "1");
  exchange.fail(error.status, error_body(error.status, error.what(), error.code, error.param),
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
    exchange.fail(500, error_body(500, error.what(), "internal_error"));
  }
}

}  // namespace

Api::Api(ServedModel model, Service& service, ApiOptions options)
    : model_(std::move(model)),
      service_(service),
      options_(std::move(options)),
      constraints_([this](const std::string& text) { options_.note(text); }),
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

Route Api::post_route(const char* path, Answerer answerer) {
  Route route;
  route.method = "POST";
  route.path = path;
  route.handler = [this, answerer](const std::shared_ptr<Exchange>& exchange) {
    const bool is_long = exchange->request().body.size() > kLongBody;
    auto work = [this, answerer, exchange] {
      (this->*answerer)(exchange, tools::parse_request_json(exchange->request().body));
    };
    if (is_long)
      post_long(exchange, std::move(work));
    else
      post(exchange, std::move(work));
  };
  return route;
}

std::vector<Route> Api::routes() {
  std::vector<Route> all;
  const auto get = [&](const char* path, auto handler) {
    Route route;
    route.method = "GET";
    route.path = path;
    route.handler = handler;
    all.push_back(std::move(route));
  };
  for (const std::string prefix : {"/v1", ""}) {
    const auto endpoint = [&](Route route) {
      route.endpoint = "/v1" + route.path;
      route.path = prefix + route.path;
      all.push_back(std::move(route));
    };
    endpoint(post_route("/chat/completions", &Api::chat));
    endpoint(post_route("/completions", &Api::complete));
    endpoint(post_route("/embeddings", &Api::embed));
    for (const char* path : {"/rerank", "/reranking"}) endpoint(post_route(path, &Api::rerank));
    get((prefix + "/models").c_str(),
        [this](const std::shared_ptr<Exchange>& exchange) { models(exchange); });
    get((prefix + "/models/{id}").c_str(),
        [this](const std::shared_ptr<Exchange>& exchange) { model(exchange); });
  }
  all.push_back(post_route("/v2/rerank", &Api::rerank));
  all.push_back(post_route("/tokenize", &Api::tokenize));
  all.push_back(post_route("/detokenize", &Api::detokenize));
  all.push_back(post_route("/apply-template", &Api::apply_template));
  return all;
}

// ------------------------------------------------------------ models

void Api::models(const std::shared_ptr<Exchange>& exchange) const {
  const RequestJson json = {{"object", "list"},
                            {"data", RequestJson::array({model_.json(service_.n_ctx())})}};
  exchange->answer(200, kJsonType, json_text(json));
}

void Api::model(const std::shared_ptr<Exchange>& exchange) const {
  const std::string& wanted = exchange->request().parameter;
  if (wanted == model_.id)
    return exchange->answer(200, kJsonType, json_text(model_.json(service_.n_ctx())));
  refuse(*exchange, unknown_model(wanted, model_.id));
}

// ------------------------------------------------------------ answers

void Api::check_model(const std::string& wanted) const {
  if (options_.strict_model && !wanted.empty() && wanted != model_.id)
    throw unknown_model(wanted, model_.id);
}

void Api::check_writer(const std::string& wanted) const {
  check_model(wanted);
  try {
    check_output(*model_.model, std::nullopt);
  } catch (const Error& error) {
    throw RequestError("unsupported_model", "model", error.what());
  }
}

void Api::with_constraint(const std::shared_ptr<Exchange>& exchange, CompletionRequest request,
                          void (Api::*then)(const std::shared_ptr<Exchange>&, CompletionRequest)) {
  const CallForm form = call_form(model_, request);
  if (constraints_.has(request, form)) {
    request.generate.constraint = constraints_.of(request, form);
    return (this->*then)(exchange, std::move(request));
  }
  post_long(exchange, [this, exchange, form, then, request = std::move(request)]() mutable {
    request.generate.constraint = constraints_.of(request, form);
    (this->*then)(exchange, std::move(request));
  });
}

void Api::chat(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  CompletionRequest request =
      tools::read_chat_request(body, options_.defaults, model_.model->token_count());
  check_writer(request.model);
  with_constraint(exchange, std::move(request), &Api::answer_chat);
}

void Api::answer_chat(const std::shared_ptr<Exchange>& exchange, CompletionRequest request) {
  Prompts prompts = chat_prompt(model_, service_.n_ctx(), request);
  submit(exchange, std::move(request), std::move(prompts));
}

void Api::complete(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  CompletionRequest request =
      tools::read_completion_request(body, options_.defaults, model_.model->token_count());
  check_writer(request.model);
  with_constraint(exchange, std::move(request), &Api::answer_completion);
}

void Api::answer_completion(const std::shared_ptr<Exchange>& exchange, CompletionRequest request) {
  Prompts prompts = text_prompts(model_, service_.n_ctx(), request);
  submit(exchange, std::move(request), std::move(prompts));
}

void Api::submit(const std::shared_ptr<Exchange>& exchange, CompletionRequest request,
                 Prompts prompts) {
  prompts.request.scope = exchange->request().scope;
  prompts.request.cache_prompt = request.reuse;
  // Free the sources of the prompts while the answer waits.
  request.messages = {};
  request.variables = {};
  request.prompts = {};
  request.tools.tools = nullptr;
  request.constraint = {};
  if (options_.log_prompts) exchange->record().prompt_text = exchange->request().body;
  const bool stream = request.stream;
  const auto reply = std::make_shared<Reply>(
      exchange, model_, std::move(request), std::move(prompts),
      [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); },
      options_.log_prompts);
  if (stream) exchange->begin_events();
  submit(exchange, reply->job());
}

void Api::submit(const std::shared_ptr<Exchange>& exchange, Job job) {
  try {
    const Service::Id id = service_.submit(std::move(job));
    exchange->on_closed([this, id] { service_.cancel(id); });
  } catch (const Failure& failure) {
    fail(*exchange, failure);
  }
}

void Api::embed(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  const EmbeddingRequest request = read_embedding_request(body, *model_.model);
  check_model(request.model);
  if (options_.pooling == Pooling::None || options_.pooling == Pooling::Rank)
    throw RequestError("unsupported_model", "model",
                       options_.pooling == Pooling::Rank
                           ? "the model scores pairs of texts; use /v1/rerank"
                           : "the file asks for a vector per token; start cria serve with "
                             "--pooling mean, cls or last");
  auto prompts = embedding_prompts(request, tokenizer(), service_.n_ctx());
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange,
      [this, base64 = request.base64](const Vectors& vectors, std::size_t tokens) {
        return embeddings_json(model_, base64, vectors, tokens);
      },
      [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); });
  submit(exchange, reply->job(std::move(prompts), options_.pooling, exchange->request().scope));
}

void Api::rerank(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  RerankRequest request = read_rerank_request(body);
  check_model(request.model);
  auto pairs = rerank_pairs(request, *model_.model, service_.n_ctx());
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange,
      [this, request = std::move(request)](const Vectors& outputs, std::size_t tokens) {
        return rerank_json(model_, request, outputs, tokens);
      },
      [this, exchange](std::function<void()> work) { post(exchange, std::move(work)); });
  submit(exchange, reply->job(std::move(pairs), Pooling::Rank, exchange->request().scope));
}

// ------------------------------------------------------------ texts and tokens

void Api::tokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  const Fields fields(body);
  const std::string content = fields.require_text("content");
  const bool add_special = fields.flag("add_special").value_or(false),
             parse_special = fields.flag("parse_special").value_or(true),
             with_pieces = fields.flag("with_pieces").value_or(false);
  const std::vector<TokenId> ids = tokenizer().encode(content, add_special, parse_special);
  ObjectText json;
  json.add_list("tokens", ids.size(), [&](std::string& text, std::size_t i) {
    const std::string id = std::to_string(ids[i]);
    if (!with_pieces) {
      text += id;
      return;
    }
    text.append("{\"id\":").append(id).append(",\"piece\":");
    text.append(json_text(piece_json(tokenizer().piece(ids[i], true)))).append("}");
  });
  exchange->answer(200, kJsonType, json.take());
}

void Api::detokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  const Fields fields(body);
  (void)fields.require("tokens", "an array of token ids");
  const std::vector<TokenId> ids =
      tools::read_ids(*fields.array("tokens"), "tokens", model_.model->token_count());
  exchange->answer(200, kJsonType, json_text({{"content", tokenizer().decode(ids, true)}}));
}

void Api::apply_template(const std::shared_ptr<Exchange>& exchange, const RequestJson& body) {
  const Fields fields(body);
  const bool generation = fields.flag("add_generation_prompt").value_or(true);
  const CompletionRequest request =
      tools::read_chat_request(body, options_.defaults, model_.model->token_count());
  exchange->answer(200, kJsonType,
                   json_text({{"prompt", rendered_prompt(model_, request, generation)}}));
}

}  // namespace cria::serve
