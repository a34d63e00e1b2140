// The endpoints of `cria serve` that concern the model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/serve/api/constraints.h"
#include "tools/serve/api/reply.h"
#include "tools/serve/api/response_store.h"
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
  Pooling pooling = Pooling::Mean;                  ///< for embeddings
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
  RequestJson body;
  bool chat = true;
  FieldPaths paths;
  /// Makes the reply.
  std::function<std::shared_ptr<Reply>(ReplyParts parts)> reply;
  /// Changes the request after it was read, or refuses it. May be empty.
  std::function<void(CompletionRequest& request)> change = {};
  std::string ignored = {};  ///< further unknown fields
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

  // For the protocols:

  /// Answers a request, with errors that name its own fields.
  void ask(const std::shared_ptr<Exchange>& exchange, EqualRequest request);
  /// Returns the prompts of a request, and the request for an answer in a context of n_ctx tokens.
  [[nodiscard]] Prompts prompts(const Exchange& exchange, const EqualRequest& request,
                                std::size_t n_ctx) const;
  /// Returns the number of its prompt's tokens.
  [[nodiscard]] std::size_t count_tokens(EqualRequest request);
  [[nodiscard]] const ServedModel& model() const { return model_; }
  [[nodiscard]] const Service& service() const { return service_; }
  [[nodiscard]] const ApiOptions& options() const { return options_; }
  /// Throws RequestError for a model of another name, if that matters.
  void check_model(const std::string& wanted) const;
  void submit(const std::shared_ptr<Exchange>& exchange, Job job);
  /// Queues work for an exchange; an exception becomes its answer.
  void post(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  /// Returns a route for requests with a JSON body, read and answered on a worker thread.
  using Answerer =
      std::function<void(const std::shared_ptr<Exchange>& exchange, const RequestJson& body)>;
  Route post_route(const std::string& path, Answerer answerer);

 private:
  /// Queues work that may take long, on separate threads of low priority: no other request waits
  /// for it.
  void post_long(const std::shared_ptr<Exchange>& exchange, std::function<void()> work);
  CompletionRequest read(const EqualRequest& request) const;
  void answer(const std::shared_ptr<Exchange>& exchange, const EqualRequest& asked,
              CompletionRequest request);

  void models(const std::shared_ptr<Exchange>& exchange) const;
  void one_model(const std::shared_ptr<Exchange>& exchange) const;
  void embed(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void rerank(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void tokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void detokenize(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);
  void apply_template(const std::shared_ptr<Exchange>& exchange, const RequestJson& body);

  /// As check_model(); also refuses models that predict no tokens.
  void check_writer(const std::string& wanted) const;
  [[nodiscard]] const Tokenizer& tokenizer() const { return model_.model->tokenizer(); }

  const ServedModel model_;
  Service& service_;
  const ApiOptions options_;
  Constraints constraints_;
  ResponseStore store_;
  const std::unique_ptr<boost::asio::thread_pool> workers_, long_workers_;
};

}  // namespace cria::serve
