// The prompts of decisions, the scores of their letters, and the answers made of them.
#include "tools/serve/api/decisions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/prompts.h"

namespace cria::serve {
namespace {

using Ids = std::vector<TokenId>;

/// Returns the request for one question: it stands after the conversation. Thinking is off if the
/// template has a switch for it.
EqualRequest asking(const EqualRequest& conversation, const DecisionQuestion& question,
                    const ChatTemplate& chat) {
  EqualRequest out = conversation;
  const std::string text = decision_text(question);
  Json& messages = out.body["messages"];
  Json& last = messages.back();
  if (last["role"] == "user")
    last["content"] = last["content"].get<std::string>() + "\n\n" + text;
  else
    messages.push_back({{"role", "user"}, {"content", text}});
  if (chat.reads("enable_thinking") || chat.reads("thinking")) out.body["enable_thinking"] = false;
  return out;
}

/// The tokens to score for one question: those that follow each beginning of a label.
struct LabelTree {
  std::vector<Ids> labels;     ///< tokens of the labels, by option
  std::map<Ids, Ids> next;     ///< next tokens after each beginning, each token once
  AnswerRequest request = {};  ///< with the prompt that asks the question
  std::size_t first = 0;       ///< index of the first beginning among those of all questions

  LabelTree(const Tokenizer& tokenizer, std::size_t options) {
    for (std::size_t i = 0; i < options; ++i) {
      labels.push_back(tokenizer.encode(decision_label(i, options), false, true));
      Ids beginning;
      for (const TokenId id : labels.back()) {
        Ids& tokens = next[beginning];
        if (std::ranges::count(tokens, id) == 0) tokens.push_back(id);
        beginning.push_back(id);
      }
    }
  }
  /// Returns the sum of the log-probabilities of a label. scores: of each beginning, in their
  /// order.
  double score(const Ids& label, std::span<const std::vector<float>> scores) const {
    double sum = 0;
    Ids beginning;
    for (const TokenId id : label) {
      const auto at = next.find(beginning);
      const auto node = static_cast<std::size_t>(std::distance(next.begin(), at));
      const auto token = std::ranges::find(at->second, id) - at->second.begin();
      sum += scores[node][static_cast<std::size_t>(token)];
      beginning.push_back(id);
    }
    return sum;
  }
};

struct Decision {
  DecisionRequest request;
  std::vector<LabelTree> trees;       ///< by question
  std::size_t count = 0, tokens = 0;  ///< beginnings to score, tokens of all prompts
  std::size_t cached = 0;             ///< prompt tokens found in the prefix cache

  /// Returns the request that scores what follows one of the beginnings.
  AnswerRequest make(std::size_t index) const {
    const auto tree = std::prev(std::ranges::upper_bound(trees, index, {}, &LabelTree::first));
    const auto node =
        std::next(tree->next.begin(), static_cast<std::ptrdiff_t>(index - tree->first));
    AnswerRequest out = tree->request;
    out.prompt.insert(out.prompt.end(), node->first.begin(), node->first.end());
    out.options.scored = node->second;
    out.options.max_tokens = 0;
    return out;
  }
};

/// Returns the probabilities of a question's options.
std::vector<double> probabilities(const LabelTree& tree,
                                  std::span<const std::vector<float>> scores) {
  std::vector<double> out;
  for (const Ids& label : tree.labels) out.push_back(tree.score(label, scores));
  const double highest = std::ranges::max(out);
  double total = 0;
  for (double& value : out) total += value = std::exp(value - highest);
  for (double& value : out) value /= total;
  return out;
}

Json usage_of(bool systemone, std::size_t tokens, std::size_t cached) {
  if (systemone) return {{"input_tokens", tokens}, {"output_tokens", 0}};
  return {{"input_tokens", tokens},
          {"input_tokens_details", {{"cached_tokens", cached}}},
          {"output_tokens", 0},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", tokens}};
}

std::string body_of(const ServedModel& model, const Decision& decision, const Vectors& scores) {
  const bool systemone = decision.request.systemone;
  Json answers = systemone ? Json::object() : Json::array();
  for (std::size_t i = 0; i < decision.trees.size(); ++i) {
    const LabelTree& tree = decision.trees[i];
    const DecisionQuestion& question = decision.request.questions[i];
    Json answer =
        decision_json(question, systemone,
                      probabilities(tree, std::span(scores).subspan(tree.first, tree.next.size())));
    if (systemone)
      answers[question.name.get<std::string>()] = std::move(answer);
    else
      answers.push_back(std::move(answer));
  }
  return json_text({{"model", model.id},
                    {"answers", std::move(answers)},
                    {"usage", usage_of(systemone, decision.tokens, decision.cached)}});
}

/// {"A": value} of systemone, or [{"value": …, "probability"}] of decisions.
Json probability_list(const DecisionQuestion& question, bool systemone,
                      std::span<const double> probabilities) {
  const bool score = question.kind == DecisionQuestion::Kind::Score;
  Json list = systemone ? Json::object() : Json::array();
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const Json& value = question.options[i].value;
    if (systemone) {
      list[score ? std::to_string(i) : value.get<std::string>()] = probabilities[i];
      continue;
    }
    Json one = {{"value", score ? Json(i) : value}};
    if (score) one["label"] = value;
    one["probability"] = probabilities[i];
    list.push_back(std::move(one));
  }
  return list;
}

/// Reads the prompts of all questions, and scores them.
void decide(Api& api, const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
            DecisionRequest request) {
  const auto decision = std::make_shared<Decision>();
  const std::size_t n_ctx = model->n_ctx();
  for (const DecisionQuestion& question : request.questions) {
    LabelTree& tree =
        decision->trees.emplace_back(model->model->tokenizer(), question.options.size());
    Prompts prompts = api.prompts(*exchange, *model,
                                  asking(request.conversation, question, *model->chat_template));
    tree.request = std::move(prompts.request);
    tree.request.prompt = std::move(prompts.all.front().tokens);
    tree.first = decision->count;
    decision->count += tree.next.size();
    decision->tokens += tree.request.prompt.size();
    const std::size_t longest = std::ranges::max(tree.labels, {}, &Ids::size).size();
    if (tree.request.prompt.size() + longest > n_ctx)
      throw PromptTooLong(question.path, tree.request.prompt.size(), n_ctx - longest + 1);
  }
  request.conversation.body = nullptr;
  decision->request = std::move(request);
  const auto reply = std::make_shared<EmbeddingReply>(
      exchange,
      [model, decision](const Vectors& scores, std::size_t) {
        return body_of(*model, *decision, scores);
      },
      [&api, exchange](std::function<void()> work) { api.post(exchange, std::move(work)); });
  const auto make = [decision](std::size_t index) {
    AnswerRequest one = decision->make(index);
    if (std::ranges::count(decision->trees, index, &LabelTree::first) == 0) return one;
    one.on_end = [decision](const GenerateResult& result, const std::optional<Error>&) {
      decision->cached += result.cached_tokens;
    };
    return one;
  };
  api.submit(exchange, model, reply->job(decision->count, decision->tokens, make));
}

/// Each question reads the conversation again: many questions take long.
void decide_elsewhere(Api& api, const std::shared_ptr<Exchange>& exchange, const ModelLease& model,
                      DecisionRequest request) {
  constexpr std::size_t kLongTexts = 256 << 10;  // bytes
  if (request.questions.size() * exchange->request().body.size() <= kLongTexts)
    return decide(api, exchange, model, std::move(request));
  api.post_long(exchange, [&api, exchange, model, request = std::move(request)] {
    decide(api, exchange, model, request);
  });
}

}  // namespace

Json decision_json(const DecisionQuestion& question, bool systemone,
                   std::span<const double> probabilities) {
  using Kind = DecisionQuestion::Kind;
  constexpr const char* kTypes[] = {"predicate", "choice", "score"};
  const char* const type = systemone && question.kind == Kind::Predicate
                               ? "noul"
                               : kTypes[static_cast<std::size_t>(question.kind)];
  Json out = {{"type", type}};
  if (!systemone) out["name"] = question.name;
  if (question.kind == Kind::Predicate) {
    out[systemone ? "noul" : "probability"] = probabilities.front();
    return out;
  }
  const auto best = std::ranges::max_element(probabilities);
  if (question.kind == Kind::Choice) {
    out["choice"] = question.options[static_cast<std::size_t>(best - probabilities.begin())].value;
  } else {
    double score = 0;
    for (std::size_t i = 0; i < probabilities.size(); ++i)
      score += static_cast<double>(i) * probabilities[i];
    out["score"] = score;
    if (systemone)
      for (std::size_t i = 0; i < probabilities.size(); ++i)
        out["legend"][std::to_string(i)] = question.options[i].value;
  }
  const auto n = static_cast<double>(probabilities.size());
  out["confidence"] = (n * *best - 1) / (n - 1);
  out["probabilities"] = probability_list(question, systemone, probabilities);
  return out;
}

std::vector<Route> decisions_routes(Api& api, ResponseStore& store) {
  std::vector<Route> routes;
  routes.push_back(api.post_route(
      "/v1/decisions", [&](const auto& exchange, const Json& body, const ModelLease& model) {
        decide_elsewhere(api, exchange, model,
                         read_decisions_request(body, exchange->request().scope, store));
      }));
  routes.push_back(api.post_route(
      "/v1/systemone", [&api](const auto& exchange, const Json& body, const ModelLease& model) {
        decide_elsewhere(api, exchange, model, read_systemone_request(body));
      }));
  return routes;
}

}  // namespace cria::serve
