// A model behind the server: what computes, and the endpoints that ask it.
#pragma once

#include "tools/serve/api/api.h"
#include "tools/serve/serve.h"

namespace cria::serve {

class ModelBackend final : public Backend {
 public:
  /// Throws Error if the machine has not enough memory. The metrics outlive it.
  ModelBackend(ServedModel model, const ServiceOptions& service, ApiOptions api, Metrics& metrics)
      : name_(model.id),
        service_(*model.model, service, metrics),
        api_(std::move(model), service_, std::move(api)) {}
  ~ModelBackend() override { service_.stop(); }  // its calls use the API's threads

  std::vector<Route> routes() override { return api_.routes(); }
  [[nodiscard]] std::string summary() const override { return service_.summary(); }
  [[nodiscard]] std::string model_name() const override { return name_; }
  void shut_down(std::chrono::milliseconds grace) override { service_.shut_down(grace); }

 private:
  const std::string name_;
  Service service_;
  Api api_;
};

}  // namespace cria::serve
