// Constrained answers: a public header of engine/. JSON Schema, grammars and regular expressions
// are compiled to one form, an automaton over bytes with a stack. A session then samples only
// tokens that may follow.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/constraint_error.h"
#include "tokenizer/chat/tool_call.h"

namespace cria {

/// The tool calls that an answer must or may contain.
struct ToolChoice {
  CallForm form = CallForm::None;  ///< as the model writes them
  std::string tools;  ///< a JSON array of {"type": "function", "function": {"name", "parameters",
                      ///< "strict"}}
  std::string name;   ///< one call of this tool; "": of any
  bool parallel = true;  ///< several calls
  bool free_text =
      false;  ///< text may precede the calls or replace them: anything that does not begin a call
  std::vector<std::string> allowed = {};  ///< only these tools; empty: all
  /// Instead of calls, the answer may be JSON that satisfies this schema ("": any object).
  std::optional<std::string> format = {};
};
/// True if answers can be constrained to calls of this form.
bool can_require_calls(CallForm form);

/// A compiled constraint: immutable, and shared by answers and threads. It caches the allowed next
/// tokens, so keep the object for repeated use. Compiling is limited to a number of steps and 64
/// MiB, equal on every machine; beyond that it throws ConstraintError.
class Constraint {
 public:
  struct State;                                       // engine/constrain/constraint_state.h
  explicit Constraint(std::unique_ptr<State> state);  ///< internal
  ~Constraint();
  Constraint(const Constraint&) = delete;
  Constraint& operator=(const Constraint&) = delete;

  /// Any JSON object.
  static std::shared_ptr<const Constraint> any_object();
  /// JSON that satisfies a schema (JSON text of at most 256 KiB). Members come in the order of
  /// `properties`. Throws ConstraintError for what is not supported, and for contradictions that
  /// leave no value.
  static std::shared_ptr<const Constraint> json_schema(std::string_view schema);
  /// A grammar in GBNF (at most 256 KiB), with a rule `root`.
  static std::shared_ptr<const Constraint> gbnf(std::string_view grammar);
  /// A regular expression of ECMA 262 (at most 256 KiB) without look-around and back references;
  /// the whole text matches it.
  static std::shared_ptr<const Constraint> regex(std::string_view expression);

  /// Tool calls, with arguments constrained by the parameters' schemas. A tool with an unsupported
  /// schema takes any JSON object; if it is `strict`, or its schema is not an object's,
  /// ConstraintError names the place ("[1].function.parameters"). loose gets a line "NAME: why" for
  /// each tool that takes any object. Steps: one constraint's for all schemas, and the same again
  /// for all calls.
  static std::shared_ptr<const Constraint> tool_calls(const ToolChoice& choice,
                                                      std::vector<std::string>* loose = nullptr);

  /// True if the text is complete / if some complete text begins with it.
  [[nodiscard]] bool accepts(std::string_view text) const;
  [[nodiscard]] bool begins(std::string_view text) const;  ///< the latter

  /// Bytes that it takes now, with what is remembered of tokens: at most about 160 MiB, few for
  /// most.
  [[nodiscard]] std::size_t memory() const;

  [[nodiscard]] State& state() const noexcept { return *state_; }  ///< internal

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cria
