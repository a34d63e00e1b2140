// The endpoints of `cria serve` that concern the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/serve/api/constraints.h"
#include "tools/serve/api/reply.h"
#include "tools/serve/api/served_model.h"
#include "tools/serve/http/exchange.h"
#include "tools/serve/service/service.h"

namespace boost::asio {
class thread_pool;
}

namespace cria::serve {

struct ApiOptions {
  GenerateOptions defaults;   ///< used for absent fields; no seed: a random one for each request
  bool strict_model = false;  ///< refuse requests for a model of another name
  Pooling pooling = Pooling::Mean;  ///< for embeddings
  bool log_prompts = false;         ///< add texts to the request record
  /// Receives log lines that belong to no request, from any thread.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

class Api {
 public:
  /// The service must outlive this.
  Api(ServedModel model, Service& service, ApiOptions options);
  ~Api();  ///< waits for requests in progress
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Returns the routes. Their handlers must not outlive this.
  [[nodiscard]] std::vector<Route> routes();

 private:
  using Answerer = void (Api::*)(const std::shared_ptr<Exchange>& exchange,
                                 const RequestJson& body);

  /// Returns a route for requests with a JSON body, read and answered on a worker thread.
  Route post_route(const char* path, Answerer answerer);
  /// Queues work for an exchange; an exception becomes its answer.
  void post(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// Queues work that may take long, on separate threads of low priority: no other request waits
  /// for it.
  void post_long(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// Calls `then` with the constraint of the request, compiled by post_long() if it is new.
  void with_constraint(const std::shared_ptr<Exchange>& exchange, CompletionRequest request,
                       void (Api::*then)(const std::shared_ptr<Exchange>&, CompletionRequest));

  void models(const std::shared_ptr<Exchange>& exchange) const;
  void model(const std::shared_ptr<Exchange>& exchange) const;
  void chat(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void answer_chat(const std::shared_ptr<Exchange>& exchange, CompletionRequest request);
  void complete(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void answer_completion(const std::shared_ptr<Exchange>& exchange, CompletionRequest request);
  void embed(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void rerank(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void tokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void detokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void apply_template(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);

  void check_model(const std::string& wanted) const;
  /// The same; also refuses models that predict no tokens.
  void check_writer(const std::string& wanted) const;
  void submit(const std::shared_ptr<Exchange>& exchange, Job job);
  void submit(const std::shared_ptr<Exchange>& exchange, CompletionRequest request,
              Prompts prompts);
  [[nodiscard]] const Tokenizer& tokenizer() const { return model_.model->tokenizer(); }

  const ServedModel model_;
  Service& service_;
  const ApiOptions options_;
  Constraints constraints_;
  const std::unique_ptr<boost::asio::thread_pool> workers_, long_workers_;
};

}  // namespace cria::serve
