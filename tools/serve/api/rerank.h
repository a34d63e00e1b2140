// Requests for /v1/rerank: documents ordered by how well they answer a query.
#pragma once

#include "tools/serve/api/embeddings.h"

namespace cria::serve {

struct RerankRequest {
  std::string model, query;
  std::vector<std::string> documents;
  std::size_t top_n = 0;          ///< results, at most
  bool return_documents = false;  ///< results hold their documents
};

/// Throws RequestError with the path at fault.
RerankRequest read_rerank_request(const RequestJson& body);

/// Returns the tokens of each pair. Throws RequestError for a model without a classifier, and for a
/// pair of more than n_ctx tokens.
std::vector<std::vector<TokenId>> rerank_pairs(const RerankRequest& request, const Model& model,
                                               std::size_t n_ctx);

/// Returns the body of the answer: the best first, equal ones in their order. outputs: of the
/// classifier, one vector per document. tokens: of all pairs.
std::string rerank_json(const ServedModel& model, const RerankRequest& request,
                        const Vectors& outputs, std::size_t tokens);

}  // namespace cria::serve
