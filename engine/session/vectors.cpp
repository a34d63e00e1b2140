#include "engine/vectors.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <optional>

#include "engine/model_parts.h"
#include "engine/scheduler.h"
#include "engine/session/pooled_states.h"

namespace cria {
namespace {

constexpr std::string_view kPoolings[] = {"none", "mean", "cls", "last", "rank"};

// Parts of a template: text of the file, and the query or document at its place.
std::vector<TextPart> template_parts(std::string_view text, std::string_view query,
                                     std::string_view document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  std::vector<TextPart> parts;
  while (!text.empty()) {
    const std::size_t q = text.find(kQuery), d = text.find(kDocument), at = std::min(q, d);
    parts.push_back({text.substr(0, at), true});
    if (at == std::string_view::npos) break;
    parts.push_back({q < d ? query : document, false});
    text.remove_prefix(at + (q < d ? kQuery : kDocument).size());
  }
  return parts;
}

}  // namespace

Pooling parse_pooling(std::string_view name) {
  const auto* const found = std::ranges::find(kPoolings, name);
  if (found == std::end(kPoolings))
    throw Error("unknown pooling: expected none, mean, cls, last or rank, got " +
                std::string(name));
  return static_cast<Pooling>(found - std::begin(kPoolings));
}

std::string_view name(Pooling pooling) noexcept {
  return kPoolings[static_cast<std::size_t>(pooling)];
}

Pooling default_pooling(const Model& model) {
  const std::string key = model.config().arch + ".pooling_type";
  const auto type = model.file().find_uint(key);
  if (type && *type >= std::size(kPoolings))
    throw model.file().error("unknown pooling type: expected 0 to 4, got " + std::to_string(*type),
                             "key " + key);
  const Pooling pooling = model.graph().head == Head::Labels ? Pooling::Rank
                          : type                             ? static_cast<Pooling>(*type)
                                                             : Pooling::Mean;
  check_output(model, pooling);
  return pooling;
}

std::size_t vector_size(const Model& model, Pooling pooling) {
  const Graph& graph = model.graph();
  return graph.values[pooling == Pooling::Rank ? graph.logits : graph.hidden].width;
}

void check_output(const Model& model, std::optional<Pooling> pooling) {
  const Head head = model.graph().head;
  if (pooling == Pooling::Rank && head != Head::Labels)
    throw model.file().error("the model has no classifier (cls.output.weight): it cannot rank");
  if (!pooling && head != Head::Vocabulary)
    throw model.file().error(head == Head::Labels
                                 ? "the model scores pairs of texts and predicts no tokens; use "
                                   "cria rerank or /v1/rerank"
                                 : "the model gives vectors and predicts no tokens; use cria embed "
                                   "or /v1/embeddings");
}

void PooledStates::add(std::span<const float> rows) {
  for (; !rows.empty(); rows = rows.subspan(width_)) {
    const auto row = rows.first(width_);
    if (pooling_ == Pooling::First && !sum_.empty()) return;
    if (pooling_ == Pooling::Last) sum_.clear();
    if (pooling_ == Pooling::Mean && !sum_.empty())
      std::ranges::transform(sum_, row, sum_.begin(),
                             [](double sum, float x) { return sum + double{x}; });
    else
      sum_.insert(sum_.end(), row.begin(), row.end());
  }
}

std::vector<float> PooledStates::result() const {
  std::vector<float> out(sum_.begin(), sum_.end());
  if (pooling_ == Pooling::Rank) return out;
  for (std::size_t at = 0; at < sum_.size(); at += width_) {
    const auto row = std::span(sum_).subspan(at, width_);
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (std::size_t i = 0; i < width_; ++i)
      out[at + i] = length > 0 ? static_cast<float>(row[i] / length) : 0;
  }
  return out;
}

std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> prompts,
                                      Pooling pooling, std::uint64_t scope) {
  std::vector<std::vector<float>> vectors(prompts.size());
  std::optional<Error> failed;
  Scheduler scheduler(engine);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    AnswerRequest request;
    request.prompt = prompts[i];
    request.embedding = pooling;
    request.scope = scope;
    request.on_end = [&vector = vectors[i], &failed](GenerateResult result,
                                                     const std::optional<Error>& error) {
      if (error && !failed) failed = error;
      vector = std::move(result.embedding);
    };
    scheduler.add(std::move(request));
  }
  while (!failed && scheduler.step()) continue;
  if (failed) throw *failed;
  return vectors;
}

std::vector<TokenId> pair_tokens(const Model& model, std::string_view query,
                                 std::string_view document) {
  const Tokenizer& tokenizer = model.tokenizer();
  if (const auto text = model.file().find_string("tokenizer.chat_template.rerank"))
    return tokenizer.encode_parts(template_parts(*text, query, document));
  const Vocabulary& v = model.vocabulary();
  std::vector<TokenId> ids;
  const auto add_token = [&](bool wanted, std::optional<TokenId> id) {
    if (wanted && id) ids.push_back(*id);
  };
  const auto add_text = [&](std::string_view text) {
    const TextPart part{text, false};
    const std::vector<TokenId> some = tokenizer.encode_parts({&part, 1});
    ids.insert(ids.end(), some.begin(), some.end());
  };
  add_token(v.add_bos, v.bos);
  add_text(query);
  add_token(v.add_eos, v.eos);
  add_token(v.add_sep, v.sep);
  add_text(document);
  add_token(v.add_eos, v.eos);
  return ids;
}

float relevance(const Model& model, std::span<const float> outputs) {
  if (outputs.size() == 1) return static_cast<float>(1 / (1 + std::exp(-double{outputs[0]})));
  const auto labels = model.file().find_strings(model.config().arch + ".classifier.output_labels");
  std::size_t yes = 0;
  if (labels && labels->size() == outputs.size())
    if (const auto found = std::ranges::find(*labels, "yes"); found != labels->end())
      yes = static_cast<std::size_t>(found - labels->begin());
  double sum = 0;
  for (const float output : outputs) sum += std::exp(double{output} - double{outputs[yes]});
  return static_cast<float>(1 / sum);
}

std::vector<float> rerank(Engine& engine, std::string_view query,
                          std::span<const std::string> documents, std::uint64_t scope) {
  check_output(engine.model(), Pooling::Rank);
  std::vector<std::vector<TokenId>> pairs;
  pairs.reserve(documents.size());
  for (const std::string& document : documents)
    pairs.push_back(pair_tokens(engine.model(), query, document));
  std::vector<float> scores;
  for (const std::vector<float>& outputs : embed(engine, pairs, Pooling::Rank, scope))
    scores.push_back(relevance(engine.model(), outputs));
  return scores;
}

}  // namespace cria
