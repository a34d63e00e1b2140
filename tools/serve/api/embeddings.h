// Requests for /v1/embeddings, and for /v1/rerank: documents ordered by how well they answer a
// query.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

struct EmbeddingRequest {
  std::string model;
  std::vector<PromptText> inputs;
  bool one_input = true;  ///< the input is not a list
  bool base64 = false;    ///< little-endian float32 in base64, else numbers
};

/// Throws RequestError with the path at fault.
EmbeddingRequest read_embedding_request(const Fields& body, const Model& model);
/// Throws RequestError if a request wants vectors of other dimensions than the model's.
void check_dimensions(std::int64_t wanted, const Model& model);
[[noreturn]] void refuse_long_input(const std::string& path, std::size_t tokens, std::size_t n_ctx);

/// Returns the tokens of the inputs. Throws RequestError if one has none or more than n_ctx.
std::vector<std::vector<TokenId>> embedding_prompts(const EmbeddingRequest& request,
                                                    const Tokenizer& tokenizer, std::size_t n_ctx);

using Vectors = std::vector<std::vector<float>>;

/// Returns the body of the answer. tokens: of all inputs.
std::string embeddings_json(const ServedModel& model, bool base64, const Vectors& vectors,
                            std::size_t tokens);

struct RerankRequest {
  std::string model, query;
  std::vector<std::string> documents;
  std::size_t top_n = 0;          ///< results, at most
  bool return_documents = false;  ///< results hold their documents
  std::string ignored;            ///< members that were not read: see add_ignored()
};

/// Throws RequestError with the path at fault.
RerankRequest read_rerank_request(const Fields& body);

/// Returns the tokens of each pair. Throws RequestError for a model without a classifier, and for a
/// pair of more than n_ctx tokens.
std::vector<std::vector<TokenId>> rerank_pairs(const RerankRequest& request, const Model& model,
                                               std::size_t n_ctx);

/// Returns the body of the answer: the best first, equal ones in their order. outputs: of the
/// classifier, one vector per document. tokens: of all pairs.
std::string rerank_json(const ServedModel& model, const RerankRequest& request,
                        const Vectors& outputs, std::size_t tokens);

/// Answers with what is made of one vector for each prompt, in order.
class EmbeddingReply : public std::enable_shared_from_this<EmbeddingReply> {
 public:
  using Write = std::function<std::string(const Vectors& vectors, std::size_t tokens)>;
  /// write: returns the body of the answer; called by post.
  EmbeddingReply(std::shared_ptr<Exchange> exchange, Write write, Post post);
  Job job(std::vector<std::vector<TokenId>> prompts, Pooling pooling, std::uint64_t scope);
  /// Returns a job of `count` requests, each for an embedding or scores, whose ends are reported to
  /// their on_end too. make is called once for each index, in order. tokens: of all prompts.
  Job job(std::size_t count, std::size_t tokens,
          std::function<AnswerRequest(std::size_t index)> make);

 private:
  void on_end(std::size_t index, std::vector<float> vector);
  void answer();

  const std::shared_ptr<Exchange> exchange_;
  const Write write_;
  const Post post_;
  Vectors vectors_;
  std::size_t left_ = 0, tokens_ = 0;
};

/// Ends an exchange whose job came to nothing.
void fail(Exchange& exchange, const Failure& failure);

}  // namespace cria::serve
