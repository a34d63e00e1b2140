#include "tools/serve/api/embeddings.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "engine/model_parts.h"
#include "model/plural.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_value;

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (j < n ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += j <= n ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

std::string little_endian(std::span<const float> values) {
  std::string bytes;
  for (const float value : values)
    for (std::uint32_t bits = std::bit_cast<std::uint32_t>(value), i = 0; i < 4; ++i, bits >>= 8U)
      bytes += static_cast<char>(bits & 255U);
  return bytes;
}

}  // namespace

EmbeddingRequest read_embedding_request(const Fields& body, const Model& model) {
  EmbeddingRequest out;
  bool several = false;
  out.model = body.text("model").value_or("");
  out.inputs = tools::read_prompts(body, "input", model.token_count(), several);
  out.one_input = !several;
  for (std::size_t i = 0; i < out.inputs.size(); ++i)
    if (const auto* text = std::get_if<std::string>(&out.inputs[i]);
        text != nullptr && text->empty())
      refuse_value(several ? element_path("input", i) : "input", "a non-empty string", *text);
  const std::string format = body.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    refuse_value("encoding_format", "\"float\" or \"base64\"", format);
  out.base64 = format == "base64";
  if (const auto dimensions = body.integer("dimensions", 1)) check_dimensions(*dimensions, model);
  return out;
}

void check_dimensions(std::int64_t wanted, const Model& model) {
  const auto own = static_cast<std::int64_t>(vector_size(model, Pooling::None));
  if (wanted != own)
    refuse_value("dimensions", std::to_string(own) + ", the dimensions of the model", wanted);
}

void refuse_long_input(const std::string& path, std::size_t tokens, std::size_t n_ctx) {
  throw RequestError("context_length_exceeded", path,
                     "\"" + path + "\": expected at most " + counted(n_ctx, "token") +
                         " (the context), got " + std::to_string(tokens));
}

std::vector<std::vector<TokenId>> embedding_prompts(const EmbeddingRequest& request,
                                                    const Tokenizer& tokenizer, std::size_t n_ctx) {
  std::vector<std::vector<TokenId>> prompts;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string path = request.one_input ? "input" : element_path("input", i);
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.inputs[i]))
      prompts.push_back(*ids);
    else
      prompts.push_back(tokenizer.encode(std::get<std::string>(request.inputs[i]), true, true));
    if (prompts.back().size() > n_ctx) refuse_long_input(path, prompts.back().size(), n_ctx);
    if (prompts.back().empty()) refuse_value(path, "a string with at least one token", "");
  }
  return prompts;
}

void fail(Exchange& exchange, const Failure& failure) {
  Headers more;
  if (failure.retry_after > 0)
    more.emplace_back("Retry-After", std::to_string(failure.retry_after));
  if (failure.code == "internal_error") exchange.record().error = failure.message;
  exchange.fail(failure.status,
                error_body(exchange.request(), failure.status, failure.message, failure.code),
                more);
}

EmbeddingReply::EmbeddingReply(std::shared_ptr<Exchange> exchange, Write write, Post post)
    : exchange_(std::move(exchange)), write_(std::move(write)), post_(std::move(post)) {}

Job EmbeddingReply::job(std::vector<std::vector<TokenId>> prompts, Pooling pooling,
                        std::uint64_t scope) {
  std::size_t tokens = 0;
  for (const std::vector<TokenId>& prompt : prompts) tokens += prompt.size();
  const std::size_t count = prompts.size();
  return job(count, tokens,
             [prompts = std::move(prompts), pooling, scope](std::size_t index) mutable {
               AnswerRequest request;
               request.prompt = std::move(prompts[index]);
               request.embedding = pooling;
               request.scope = scope;
               return request;
             });
}

Job EmbeddingReply::job(std::size_t count, std::size_t tokens,
                        std::function<AnswerRequest(std::size_t index)> make) {
  const auto self = shared_from_this();
  tokens_ = tokens;
  left_ = count;
  vectors_.resize(left_);
  Job job;
  job.count = count;
  job.answer = [self, make = std::move(make)](std::size_t index) {
    AnswerRequest request = make(index);
    request.on_end = [self, index, told = std::move(request.on_end)](
                         GenerateResult result, const std::optional<Error>& error) {
      if (told) told(result, error);
      self->on_end(index, std::move(result.scores.empty() ? result.embedding : result.scores));
    };
    return request;
  };
  job.on_begin = [self] {
    self->exchange_->record().waited =
        std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                      self->exchange_->request().arrived)
            .count();
  };
  job.on_failure = [self](const Failure& failure) { fail(*self->exchange_, failure); };
  return job;
}

void EmbeddingReply::on_end(std::size_t index, std::vector<float> vector) {
  vectors_[index] = std::move(vector);
  if (--left_ > 0) return;
  exchange_->record().prompt_tokens = tokens_;
  post_([self = shared_from_this()] { self->answer(); });
}

void EmbeddingReply::answer() { exchange_->answer(200, kJsonType, write_(vectors_, tokens_)); }

std::string embeddings_json(const ServedModel& model, bool base64, const Vectors& vectors,
                            std::size_t tokens) {
  ObjectText json;
  json.add("object", "list");
  json.add_list("data", vectors.size(), [&](std::string& text, std::size_t index) {
    const std::vector<float>& vector = vectors[index];
    text +=
        json_text({{"object", "embedding"},
                   {"index", index},
                   {"embedding", base64 ? Json(base64_of(little_endian(vector))) : Json(vector)}});
  });
  json.add("model", model.id);
  json.add("usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}});
  return json.take();
}

namespace {

using tools::refuse_type;

constexpr std::size_t kMaxDocuments = 2048;

}  // namespace

RerankRequest read_rerank_request(const Fields& body) {
  RerankRequest out;
  out.model = body.text("model").value_or("");
  out.query = body.require_text("query");
  if (out.query.empty()) refuse_value("query", "a non-empty string", out.query);
  const std::string expected = "an array of 1 to " + std::to_string(kMaxDocuments) + " documents";
  (void)body.require("documents", expected);
  const Json& documents = *body.array("documents");
  if (documents.empty() || documents.size() > kMaxDocuments)
    refuse_value("documents", expected, documents.size());
  std::set<std::string> unread;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string path = element_path("documents", i);
    if (documents[i].is_string()) {
      out.documents.push_back(documents[i].get<std::string>());
      continue;
    }
    if (!documents[i].is_object())
      refuse_type(path, "a string or an object with \"text\"", documents[i]);
    const Fields document(documents[i], path);
    out.documents.push_back(document.require_text("text"));
    for (const char* const name : {"image", "images"}) tools::reject_foreign_field(document, name);
    for (std::string& name : document.unknown()) unread.insert(std::move(name));
  }
  out.top_n = static_cast<std::size_t>(
      body.integer("top_n", 1).value_or(static_cast<std::int64_t>(out.documents.size())));
  out.return_documents = body.flag("return_documents").value_or(false);
  out.ignored = tools::ignored_fields(body);
  tools::add_ignored(out.ignored, {unread.begin(), unread.end()}, "documents.");
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
    Json result = {{"index", order[i]}, {"relevance_score", scores[order[i]]}};
    if (request.return_documents) result["document"] = {{"text", request.documents[order[i]]}};
    text += json_text(result);
  });
  json.add("usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}});
  return json.take();
}

}  // namespace cria::serve
