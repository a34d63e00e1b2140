// What an answer's text has to be: a public header of engine/. JSON Schema, grammars and regular
// expressions become one form, an automaton over bytes with a stack; a session draws only tokens
// that the text can go on with.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/constraint_error.h"
#include "tokenizer/chat/tool_call.h"

namespace cria {

/// Which calls of tools an answer has to be, or may hold.
struct ToolChoice {
  CallForm form = CallForm::None;  ///< as the model writes them
  std::string tools;  ///< a JSON array of {"type": "function", "function": {"name", "parameters",
                      ///< "strict"}}
  std::string name;   ///< one call of this tool; "": of any
  bool parallel = true;  ///< several calls
  bool free_text =
      false;  ///< text comes before them, or stands alone: anything that does not begin a call
};
/// Whether answers can be held to calls of this form.
bool can_require_calls(CallForm form);

/// Compiled; immutable, and to be shared by answers and threads. What tokens may follow is
/// remembered with it, so that whoever has the same text again keeps the object. Compiling takes a
/// bounded number of steps and at most 64 MiB; what needs more is a ConstraintError, on every
/// machine alike.
class Constraint {
 public:
  struct State;                                       // engine/constrain/constraint_state.h
  explicit Constraint(std::unique_ptr<State> state);  ///< for this room
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

  /// Calls of tools, with arguments by their parameters' schemas. A tool whose schema is not
  /// supported takes any JSON object; ConstraintError with its place ("[1].function.parameters") if
  /// it is `strict`, or no object's. loose: gets a line for each tool that takes any object, "NAME:
  /// why". Steps are those of one constraint for all tools' schemas, and as many again for all
  /// calls.
  static std::shared_ptr<const Constraint> tool_calls(const ToolChoice& choice,
                                                      std::vector<std::string>* loose = nullptr);

  /// Whether a text is whole, and whether one that is whole begins with it.
  [[nodiscard]] bool accepts(std::string_view text) const;
  [[nodiscard]] bool begins(std::string_view text) const;  ///< the latter

  /// Bytes that it takes now, with what is remembered of tokens: at most about 160 MiB, few for
  /// most.
  [[nodiscard]] std::size_t memory() const;

  [[nodiscard]] State& state() const noexcept { return *state_; }  ///< for this room

 private:
  std::unique_ptr<State> state_;
};

}  // namespace cria
