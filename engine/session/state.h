// What a session holds; shared by the files that implement it.
#pragma once

#include "engine/session.h"
#include "engine/session/draft_control.h"
#include "engine/session/draft_model.h"
#include "engine/session/engine_state.h"
#include "tokenizer/chat/transcript.h"

namespace cria {

struct Session::State {
  Engine engine;
  SessionOptions options;  // with the defaults filled in
  Sequence sequence;
  Batch batch;
  std::size_t first_wanted = 0;  // of the batch
  std::optional<DraftModel> draft_model;
  std::optional<Sequence> draft_sequence;  // of the draft model
  DraftControl drafts;
  std::shared_ptr<const ChatTemplate> chat_template;  // of the model, once a chat asked for it
  Transcript transcript;                              // of chat()

  State(const Model& model, const SessionOptions& wanted);

  [[nodiscard]] const Model& model() const { return engine.model(); }
  const ChatTemplate* template_for(const ChatOptions& how);

  /// Evaluates tokens in batches; calls on_logits(index, logits) for tokens from first_wanted on.
  template <class OnLogits>
  void eval(std::span<const TokenId> added, std::size_t first_wanted, OnLogits&& on_logits);
  template <class OnLogits>
  void eval_batches(std::span<const TokenId> added, std::size_t first_wanted, OnLogits&& on_logits);
  void forward(std::span<const TokenId> added, std::size_t first_wanted);
  /// Throws Error unless they are; token: of the last batch, the first that they are of.
  void check_finite(std::span<const float> logits, std::size_t token);
  std::span<const float> logits(std::size_t begin, std::size_t end);
};

}  // namespace cria
