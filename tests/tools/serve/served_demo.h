// The demo model behind its API, asked without a network.
#pragma once

#include <stdexcept>

#include "model/gguf/rewrite.h"
#include "model/vocabulary.h"
#include "tests/tools/paths.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/fake_exchange.h"
#include "tools/serve/api/api.h"
#include "tools/serve/http/response.h"

namespace cria::serve::test {

inline std::shared_ptr<const Model> demo_model() {
  static const std::shared_ptr<const Model> model =
      Model::load(std::string(cria::test::project_root()) + "/data/cria-demo-Q8_0.gguf");
  return model;
}

/// Returns the demo model with changed metadata.
inline std::shared_ptr<const Model> demo_model_with(const GgufEdit& edit) {
  const cria::test::TempDirectory directory;
  const std::string path = directory.path("edited.gguf");
  write_edited(demo_model()->file(), path, edit);
  return Model::load(path);
}

/// Options of the API, and of its model.
struct DemoOptions : ApiOptions {
  Pooling pooling = Pooling::Mean;
};

/// A pool of models behind its API.
class ServedPool {
 public:
  /// make: makes the sources; the models that they load count in the metrics.
  ServedPool(const std::function<std::vector<ModelSource>(Metrics& metrics)>& make,
             const PoolOptions& options, const ApiOptions& api)
      : pool_(make(metrics_), 0, options, metrics_), api_(pool_, api), routes_(api_.routes()) {}
  ~ServedPool() { pool_.stop(); }

  /// Hands a request in.
  std::shared_ptr<FakeExchange> ask(const std::string& path, const std::string& body) {
    auto exchange = std::make_shared<FakeExchange>(path, body);
    hand_in(exchange);
    return exchange;
  }
  void hand_in(const std::shared_ptr<FakeExchange>& exchange) {
    const RouteTable::Match match =
        routes_.find(exchange->request().method, exchange->request().path);
    if (match.route == nullptr) throw std::logic_error("no route: " + exchange->request().path);
    match.route->handler(exchange);
  }
  std::shared_ptr<FakeExchange> ask(const std::string& path, const nlohmann::ordered_json& body) {
    return ask(path, body.dump());
  }
  /// And waits for the answer's end.
  std::shared_ptr<FakeExchange> answer(const std::string& path,
                                       const nlohmann::ordered_json& body) {
    auto exchange = ask(path, body);
    exchange->wait();
    return exchange;
  }
  /// Answers GET.
  std::shared_ptr<FakeExchange> get(const std::string& path, const std::string& query = "") {
    auto exchange = std::make_shared<FakeExchange>(path, "", "GET", query);
    hand_in(exchange);
    exchange->wait();
    return exchange;
  }
  ModelPool& pool() { return pool_; }
  const Metrics& metrics() const { return metrics_; }

 private:
  Metrics metrics_;
  ModelPool pool_;
  Api api_;
  RouteTable routes_;
};

/// Returns the template of the demo model.
inline std::shared_ptr<const ChatTemplate> demo_template() {
  return std::make_shared<const ChatTemplate>(
      ChatTemplate::from_vocabulary(demo_model()->vocabulary()));
}

class ServedDemo : public ServedPool {
 public:
  /// model: the demo model if not given. alias: the model's name, or "" for that of its file.
  /// calls: how it calls tools, by default as its template says.
  explicit ServedDemo(const ServiceOptions& options = {}, const DemoOptions& api = {},
                      const std::string& alias = "", std::optional<CallForm> calls = std::nullopt,
                      const std::shared_ptr<const Model>& model = demo_model())
      : ServedPool(
            [&](Metrics& metrics) -> std::vector<ModelSource> {
              const auto load = [options, alias, calls, model, pooling = api.pooling, &metrics] {
                auto served = std::make_unique<ServedModel>(
                    ServedModel::of(model, demo_template(), calls, alias));
                served->pooling = pooling;
                served->service = std::make_unique<Service>(*model, with_demo(options), metrics);
                served->card.slots = served->service->slots();
                served->card.n_ctx = served->service->n_ctx();
                return served;
              };
              return {{alias.empty() ? file_name(model->path()) : alias, "", load, load}};
            },
            {}, api) {}

  Service& service() { return *pool().look_at(0)->service; }

  static std::shared_ptr<const ChatTemplate> chat_template() { return demo_template(); }

 private:
  static ServiceOptions with_demo(ServiceOptions options) {
    if (options.engine.sequences == 1) options.engine.sequences = 4;
    options.engine.threads = 2;
    return options;
  }
};

}  // namespace cria::serve::test
