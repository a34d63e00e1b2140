// The variable `loop` of a for block.
#pragma once

#include <functional>
#include <vector>

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

class Loop final : public Object {
 public:
  /// again: renders the block for other items, one level deeper; empty where the block is not
  /// recursive.
  using Again = std::function<Value(const Value& items, std::int64_t depth)>;
  Loop(std::shared_ptr<const std::vector<Value>> items, std::int64_t depth, Again again)
      : items_(std::move(items)), depth_(depth), again_(std::move(again)) {}

  [[nodiscard]] const std::vector<Value>& items() const { return *items_; }
  void go_to(std::size_t index) { index_ = index; }

  [[nodiscard]] std::string type_name() const override { return "LoopContext"; }
  [[nodiscard]] Text shown() const override {
    return {
        "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(items_->size()) + ">",
        true};
  }
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  [[nodiscard]] bool callable() const override { return again_ != nullptr; }
  Value call(Context& context, const Arguments& arguments) override;

 private:
  Value cycle(const Arguments& arguments) const;
  bool changed(Context& context, const Arguments& arguments);

  std::shared_ptr<const std::vector<Value>> items_;
  std::size_t index_ = 0;
  std::int64_t depth_;  // from 1
  Again again_;
  std::optional<std::string> last_;  // as text: a value could be this loop
};

}  // namespace cria::jinja
