// What a session holds; shared by the files that implement it.
#pragma once

#include <algorithm>

#include "engine/execute/executor.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "tokenizer/chat/transcript.h"

namespace cria {

inline constexpr std::uint32_t kDefaultContext = 4096;
inline constexpr std::uint32_t kMaxContext = 1U << 24;
inline constexpr std::uint32_t kMaxBatch = 4096;
inline constexpr unsigned kMaxThreads = 1024;

/// Everything decided about a session before anything is allocated.
struct SessionPlan {
  SessionOptions options;  ///< with the defaults filled in
  Graph graph;
  WorkShape shape;
  SessionMemory memory;

  static SessionPlan of(const Model& model, const SessionOptions& wanted);
  /// Throws Error if the machine has not enough memory.
  void check(const Model& model) const;
};

struct Session::State {
  const std::shared_ptr<const Model> owner;  // keeps the model alive
  const Model& model;
  const SessionPlan plan;
  KvCache cache;
  Executor executor;
  std::vector<TokenId> tokens;  // positions in use; capacity n_ctx from the start
  NodeObserver observer;
  std::shared_ptr<const ChatTemplate> chat_template;  // of the model, once a chat asked for it
  Transcript transcript;                              // of chat()

  State(const Model& m, SessionPlan p);

  const ChatTemplate* template_for(const ChatOptions& how);

  /// Evaluates tokens in batches; calls on_logits(index, logits) for tokens from first_wanted on.
  template <class OnLogits>
  void eval(std::span<const TokenId> added, std::size_t first_wanted, OnLogits&& on_logits);
  void forward(std::span<const TokenId> batch, std::size_t first_wanted);
  std::span<const float> logits(std::size_t begin, std::size_t end);
  void check_tokens(std::span<const TokenId> added) const;
  [[noreturn]] void throw_not_finite();
};

}  // namespace cria
