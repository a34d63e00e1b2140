#include "tools/serve/api/protocols.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/lora/adapters.h"
#include "model/vocabulary.h"
#include "tools/serve/http/message_parser.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

std::string token_text(const Vocabulary& vocabulary, const std::optional<TokenId>& id) {
  return id ? std::string(vocabulary.tokens[static_cast<std::size_t>(*id)]) : "";
}

/// Returns what requests have that leave out all fields.
Json default_fields(const GenerateOptions& defaults) {
  Json fields = tools::sampler_fields(defaults.sampler);
  fields["n_predict"] = defaults.max_tokens;
  fields["stop"] = defaults.stop;
  fields["ignore_eos"] = defaults.ignore_eos;
  return fields;
}

Json properties(const ServedModel& model) {
  const Vocabulary& vocabulary = model.model->vocabulary();
  return {{"default_generation_settings",
           {{"n_ctx", model.card.n_ctx}, {"params", default_fields(model.defaults)}}},
          {"total_slots", model.card.slots},
          {"model_alias", model.id},
          {"chat_template", model.chat_template->source()},
          {"bos_token", token_text(vocabulary, vocabulary.bos)},
          {"eos_token", token_text(vocabulary, vocabulary.eos)},
          {"modalities", {{"vision", false}, {"audio", false}}},
          {"build_info", "cria " CRIA_VERSION},
          {"is_sleeping", model.service == nullptr}};
}

/// fail_on_no_slot=1: 503 if none is free.
void slots(Exchange& exchange, const ServedModel& model) {
  std::vector<std::size_t> drawn;
  if (model.service != nullptr) drawn = model.service->busy_slots();
  const std::string wish = query_value(exchange.request().query, "fail_on_no_slot");
  if (!wish.empty() && wish != "0" && drawn.size() >= model.card.slots)
    return exchange.fail(
        503,
        error_body(exchange.request(), 503, "no slot is free; try again later", "no_free_slot"),
        {{"Retry-After", "1"}});
  Json all = Json::array();
  for (std::size_t i = 0; i < model.card.slots; ++i)
    all.push_back({{"id", i},
                   {"n_ctx", model.card.n_ctx},
                   {"is_processing", i < drawn.size()},
                   {"n_decoded", i < drawn.size() ? drawn[i] : 0}});
  exchange.answer(200, kJsonType, json_text(all));
}

Json adapters(const ServedModel& model) {
  Json all = Json::array();
  for (const LoraFile& lora : model.model->adapters().files())
    all.push_back({{"id", all.size()},
                   {"path", std::filesystem::path(lora.path).filename().string()},
                   {"scale", Json::parse(number_text(lora.scale))}});
  return all;
}

}  // namespace

std::vector<Route> server_info_routes(Api& api) {
  std::vector<Route> routes;
  const auto add = [&](const char* path, auto answer) {
    routes.push_back(api.get_route(path, [&api, answer](const auto& exchange) {
      const std::string name = query_value(exchange->request().query, "model");
      answer(*exchange, *api.pool().look_at(api.pool().find(name)));
    }));
  };
  add("/props", [](Exchange& exchange, const ServedModel& model) {
    exchange.answer(200, kJsonType, json_text(properties(model)));
  });
  add("/slots", slots);
  add("/lora-adapters", [](Exchange& exchange, const ServedModel& model) {
    exchange.answer(200, kJsonType, json_text(adapters(model)));
  });
  routes.push_back({"POST", "/lora-adapters", [](const std::shared_ptr<Exchange>& exchange) {
                      exchange->fail(
                          405, error_body(exchange->request(), 405,
                                          "each request has its own scales: \"lora\": [{\"id\": "
                                          "0, \"scale\": 0.5}]",
                                          "method_not_allowed"));
                    }});
  return routes;
}

}  // namespace cria::serve
