// The endpoints of `cria serve` that concern the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/serve/api/constraints.h"
#include "tools/serve/api/reply.h"
#include "tools/serve/api/response_store.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/models/model_pool.h"
#include "tools/serve/service/service.h"

namespace boost::asio {
class thread_pool;
}

namespace cria::serve {

struct ApiOptions {
  std::size_t store_bytes = std::size_t{64} << 20;  ///< memory for responses that are kept
  bool log_prompts = false;                         ///< add texts to the request record
  /// Receives log lines that belong to no request, from any thread.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

/// Paths of a request in another protocol's form: pairs of a path in the equal request, and of the
/// path of what it was made from. Paths below a pair's first one follow it.
using FieldPaths = std::vector<std::pair<std::string, std::string>>;

/// A request as one of chat completions or completions that is answered in a form of its own.
struct EqualRequest {
  Json body;
  bool chat = true;
  FieldPaths paths;
  /// Makes the reply.
  std::function<std::shared_ptr<Reply>(ReplyParts parts)> reply;
  /// Changes the request after it was read, or refuses it. May be empty.
  std::function<void(CompletionRequest& request)> change = {};
  std::string ignored = {};  ///< names of ignored parts: see add_ignored()
};

class Api {
 public:
  /// The pool must outlive this.
  Api(ModelPool& pool, ApiOptions options);
  ~Api();  ///< waits for requests in progress
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Returns the routes. Their handlers must not outlive this.
  [[nodiscard]] std::vector<Route> routes();

  // For the protocols:

  using Answerer = std::function<void(const std::shared_ptr<Exchange>& exchange, const Json& body)>;
  using ModelAnswerer = std::function<void(const std::shared_ptr<Exchange>& exchange,
                                           const Json& body, const ModelLease& model)>;
  /// Returns a route for requests with a JSON body, read and answered on a worker thread.
  Route post_route(const std::string& path, Answerer answerer);
  /// The same, for requests that need the model that "model" names: they wait until it is loaded.
  Route post_route(const std::string& path, ModelAnswerer answerer);
  /// Returns a route without a body, answered on a worker thread.
  Route get_route(const std::string& path,
                  std::function<void(const std::shared_ptr<Exchange>& exchange)> answerer);
  /// The same for a model, the one that "?model=" names.
  Route get_route(
      const std::string& path,
      std::function<void(const std::shared_ptr<Exchange>& exchange, const ModelLease& model)>
          answerer);

  /// Form of a stream while its request waits for a model; nullopt: not a stream.
  using WaitingForm = std::optional<StreamForm>;
  /// Answers with the model that the body names, at once or once it is loaded. "keep_alive" says
  /// how long it stays. Throws RequestError, and what the answerer throws at once.
  void with_model(const std::shared_ptr<Exchange>& exchange, const Json& body,
                  const ModelAnswerer& answerer, WaitingForm waiting);
  /// Answers a request, with errors that name its own fields.
  void ask(const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
           EqualRequest request);
  /// Returns the prompts of a request, and the request for an answer in the model's context.
  [[nodiscard]] Prompts prompts(const Exchange& exchange, const ServedModel& model,
                                const EqualRequest& request) const;
  /// Returns the number of its prompt's tokens.
  [[nodiscard]] std::size_t count_tokens(Exchange& exchange, const ServedModel& model,
                                         EqualRequest request);
  [[nodiscard]] ModelPool& pool() { return pool_; }
  void submit(const std::shared_ptr<Exchange>& exchange, const ModelLease& model, Job job);
  /// Queues work for an exchange; an exception becomes its answer.
  void post(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// Queues work that may take long, on separate threads of low priority: no other request waits
  /// for it.
  void post_long(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);

 private:
  /// Queues the reading of a body: post_long() if it is large, else post().
  void post_reading(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// Calls work with the model, at once or, on a worker thread, once it is loaded.
  using ModelWork = std::function<void(const ModelLease& model)>;
  void use_model(const std::shared_ptr<Exchange>& exchange, const std::string& name,
                 ModelPool::KeepAlive keep_alive, WaitingForm waiting, const ModelWork& now,
                 ModelWork later);
  CompletionRequest read(const ServedModel& model, const EqualRequest& request) const;
  void answer(const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
              const EqualRequest& asked, CompletionRequest request);

  void models(const std::shared_ptr<Exchange>& exchange);
  void one_model(const std::shared_ptr<Exchange>& exchange);
  void embed(const std::shared_ptr<Exchange>& exchange, const Json& body, const ModelLease& model);
  void rerank(const std::shared_ptr<Exchange>& exchange, const Json& body, const ModelLease& model);
  void apply_template(const std::shared_ptr<Exchange>& exchange, const Json& body,
                      const ModelLease& model);

  ModelPool& pool_;
  const ApiOptions options_;
  const std::int64_t created_;  // seconds since 1970, of all models
  Constraints constraints_;
  ResponseStore store_;
  const std::unique_ptr<boost::asio::thread_pool> workers_, long_workers_;
};

}  // namespace cria::serve
