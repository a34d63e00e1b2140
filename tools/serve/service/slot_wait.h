// When a slot will be free: a guess, for clients that find the queue full.
#pragma once

#include <optional>
#include <span>

#include "engine/scheduler.h"

namespace cria::serve {

class SlotWait {
 public:
  /// prompt_tokens: of a prompt, that a step reads beside others' answers.
  explicit SlotWait(std::size_t prompt_tokens) : prompt_tokens_(prompt_tokens) {}

  /// A step has taken so long.
  void stepped(double seconds);
  /// An answer has ended by itself, of so many tokens.
  void ended(std::size_t tokens);

  /// Whole seconds, 1 to kMost, until one more than `earlier` of the running answers have ended. An
  /// answer that may become long mostly does not: it is taken to need what others did, or as much
  /// again as it has by now.
  [[nodiscard]] int seconds(std::span<const Scheduler::Progress> running,
                            std::size_t earlier) const;

  /// OpenAI's clients wait for a minute at the most, and answers may end sooner than is known.
  static constexpr int kMost = 30;

 private:
  [[nodiscard]] double steps_left(const Scheduler::Progress& answer) const;

  const std::size_t prompt_tokens_;
  std::optional<double> step_seconds_, tokens_;  // of late, on the average
};

}  // namespace cria::serve
