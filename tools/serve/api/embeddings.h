// Requests for /v1/embeddings.
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
EmbeddingRequest read_embedding_request(const RequestJson& body, const Model& model);

/// Returns the tokens of the inputs. Throws RequestError if one has none or more than n_ctx - 1.
std::vector<std::vector<TokenId>> embedding_prompts(const EmbeddingRequest& request,
                                                    const Tokenizer& tokenizer, std::size_t n_ctx);

/// Writes OpenAI's answer.
std::string embedding_body(const ServedModel& model, bool base64,
                           std::vector<std::vector<float>>& vectors, std::size_t tokens);

/// Answers with one vector for each prompt, in order.
class EmbeddingReply : public std::enable_shared_from_this<EmbeddingReply> {
 public:
  /// Returns the body of the answer.
  using Write =
      std::function<std::string(std::vector<std::vector<float>>& vectors, std::size_t tokens)>;
  EmbeddingReply(std::shared_ptr<Exchange> exchange, Write write, Post post);
  Job job(std::vector<std::vector<TokenId>> prompts, Pooling pooling, std::uint64_t scope);

 private:
  void on_end(std::size_t index, std::vector<float> vector);
  void answer();

  const std::shared_ptr<Exchange> exchange_;
  const Write write_;
  const Post post_;
  std::vector<std::vector<float>> vectors_;
  std::size_t left_ = 0, tokens_ = 0;
};

/// Ends an exchange whose job came to nothing.
void fail(Exchange& exchange, const Failure& failure);

}  // namespace cria::serve
