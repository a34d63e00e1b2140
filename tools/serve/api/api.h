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
  GenerateOptions defaults;   ///< what requests do not say; without a seed each gets one of its own
  bool strict_model = false;  ///< requests for a model of another name are refused
  Pooling pooling = Pooling::Mean;  ///< of embeddings
  bool log_prompts = false;         ///< texts are put into the record
  /// Gets lines for the log that belong to no request, from any thread.
  std::function<void(const std::string&)> note = [](const std::string&) {};
};

class Api {
 public:
  /// The service outlives it.
  Api(ServedModel model, Service& service, ApiOptions options);
  ~Api();  ///< waits for what is being read or written
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Their handlers hold this, which outlives them.
  [[nodiscard]] std::vector<Route> routes();

 private:
  using Answerer = void (Api::*)(const std::shared_ptr<Exchange>& exchange,
                                 const RequestJson& body);

  /// A route whose requests have a body of JSON: it is read, and answered, on a thread for such
  /// work.
  Route post_route(const char* path, Answerer answerer);
  /// Work for an exchange: what it throws is the answer.
  void post(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// For what may take long: threads of their own, after which no other request has to wait, and of
  /// low priority.
  void post_long(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// What chat() and complete() do when their constraint is there; it is compiled where long work
  /// is done.
  void with_constraint(const std::shared_ptr<Exchange>& exchange, CompletionRequest request,
                       void (Api::*then)(const std::shared_ptr<Exchange>&, CompletionRequest));

  void models(const std::shared_ptr<Exchange>& exchange) const;
  void model(const std::shared_ptr<Exchange>& exchange) const;
  void chat(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void answer_chat(const std::shared_ptr<Exchange>& exchange, CompletionRequest request);
  void complete(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void answer_completion(const std::shared_ptr<Exchange>& exchange, CompletionRequest request);
  void embed(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void tokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void detokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void apply_template(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);

  void check_model(const std::string& wanted) const;
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
