#include "tokenizer/jinja/run/loop.h"

namespace cria::jinja {

std::optional<Value> Loop::attribute(std::string_view name) {
  const std::size_t n = items_->size();
  if (name == "index") return Value::from_size(index_ + 1);
  if (name == "index0") return Value::from_size(index_);
  if (name == "revindex") return Value::from_size(n - index_);
  if (name == "revindex0") return Value::from_size(n - index_ - 1);
  if (name == "first") return index_ == 0;
  if (name == "last") return index_ + 1 == n;
  if (name == "length") return Value::from_size(n);
  if (name == "depth") return depth_;
  if (name == "depth0") return depth_ - 1;
  if (name == "previtem")
    return index_ == 0 ? Value::undefined("there is no previous item") : items()[index_ - 1];
  if (name == "nextitem")
    return index_ + 1 == n ? Value::undefined("there is no next item") : items()[index_ + 1];
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  if (name == "cycle")
    return function(
        "cycle", [self](Context&, const Arguments& arguments) { return self->cycle(arguments); });
  if (name == "changed")
    return function("changed", [self](Context& context, const Arguments& arguments) -> Value {
      return self->changed(context, arguments);
    });
  return std::nullopt;
}

Value Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) throw Failure("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

bool Loop::changed(Context& context, const Arguments& arguments) {
  const std::string now = context.shown(List(arguments.positional, List::Kind::Tuple)).bytes();
  if (last_ == now) return false;
  last_ = now;
  return true;
}

Value Loop::call(Context&, const Arguments& arguments) {
  const Bound args("loop", arguments, {"iterable"}, 1);
  if (again_ == nullptr) throw Failure("the loop must have the 'recursive' marker to be called");
  return again_(args[0], depth_ + 1);
}

}  // namespace cria::jinja
