// A flag that stops evaluations, for a while.
#pragma once

#include <atomic>

#include "engine/session/engine_state.h"

namespace cria {

/// While it lives, evaluations of the engine end with EvaluationStopped once the flag is set; null:
/// nothing stops them. Afterwards what stopped them before does.
class StopOn {
 public:
  StopOn(Engine& engine, const std::atomic<bool>* flag)
      : executor_(engine.state().executor), before_(executor_.stop_on(flag)) {}
  ~StopOn() { executor_.stop_on(before_); }
  StopOn(const StopOn&) = delete;
  StopOn& operator=(const StopOn&) = delete;

 private:
  Executor& executor_;
  const std::atomic<bool>* const before_;
};

}  // namespace cria
