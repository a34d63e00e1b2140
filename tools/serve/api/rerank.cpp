#include "tools/serve/api/rerank.h"

#include <algorithm>
#include <numeric>

#include "model/plural.h"
#include "tools/serve/api/json_text.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_value;

constexpr std::size_t kMaxDocuments = 2048;

}  // namespace

RerankRequest read_rerank_request(const RequestJson& json) {
  const Fields body(json);
  RerankRequest out;
  out.model = body.text("model").value_or("");
  out.query = body.require_text("query");
  if (out.query.empty()) refuse_value("query", "a non-empty string", out.query);
  const std::string expected = "an array of 1 to " + std::to_string(kMaxDocuments) + " documents";
  (void)body.require("documents", expected);
  const RequestJson& documents = *body.array("documents");
  if (documents.empty() || documents.size() > kMaxDocuments)
    refuse_value("documents", expected, documents.size());
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string path = element_path("documents", i);
    if (documents[i].is_string())
      out.documents.push_back(documents[i].get<std::string>());
    else if (documents[i].is_object())
      out.documents.push_back(Fields(documents[i], path).require_text("text"));
    else
      refuse_type(path, "a string or an object with \"text\"", documents[i]);
  }
  out.top_n = static_cast<std::size_t>(
      body.integer("top_n", 1).value_or(static_cast<std::int64_t>(out.documents.size())));
  out.return_documents = body.flag("return_documents").value_or(false);
  return out;
}

std::vector<std::vector<TokenId>> rerank_pairs(const RerankRequest& request, const Model& model,
                                               std::size_t n_ctx) {
  try {
    check_output(model, Pooling::Rank);
  } catch (const Error& error) {
    throw RequestError("unsupported_model", "model", error.what());
  }
  std::vector<std::vector<TokenId>> pairs;
  for (std::size_t i = 0; i < request.documents.size(); ++i) {
    pairs.push_back(pair_tokens(model, request.query, request.documents[i]));
    if (pairs.back().size() <= n_ctx) continue;
    const std::string path = element_path("documents", i);
    throw RequestError("context_length_exceeded", path,
                       "\"" + path + "\": expected at most " + counted(n_ctx, "token") +
                           " with the query (the context), got " +
                           std::to_string(pairs.back().size()));
  }
  return pairs;
}

std::string rerank_json(const ServedModel& model, const RerankRequest& request,
                        const Vectors& outputs, std::size_t tokens) {
  std::vector<float> scores;
  for (const std::vector<float>& each : outputs) scores.push_back(relevance(*model.model, each));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return scores[i]; });
  order.resize(std::min(order.size(), request.top_n));
  ObjectText json;
  json.add("id", fresh_id("rerank-"));
  json.add("object", "list");
  json.add("model", model.id);
  json.add_list("results", order.size(), [&](std::string& text, std::size_t i) {
    RequestJson result = {{"index", order[i]}, {"relevance_score", scores[order[i]]}};
    if (request.return_documents) result["document"] = {{"text", request.documents[order[i]]}};
    text += json_text(result);
  });
  json.add("usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}});
  return json.take();
}

}  // namespace cria::serve
