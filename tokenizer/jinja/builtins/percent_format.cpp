// Python's "%s and %d" % (a, b).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {
namespace {

constexpr int kWidest = 10'000;

struct Conversion {
  std::string key;
  bool has_key = false, left = false, zero = false, plus = false, space = false, alternate = false;
  int width = 0, precision = -1;
  char kind = 's';
};

class Formatter {
 public:
  Formatter(Context& context, const Text& format, const Value& values)
      : context_(context), format_(format), bytes_(format.bytes()), values_(values) {}

  Text run() {
    while (at_ < bytes_.size()) {
      const std::size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      if (percent < bytes_.size()) convert();
    }
    const List* list = values_.list();
    const bool tuple = list != nullptr && list->kind == List::Kind::Tuple;
    const std::size_t given = tuple ? list->items.size() : values_.dict() != nullptr ? next_ : 1;
    if (!by_key_ && next_ < given && (tuple || (list == nullptr && !values_.is_undefined())))
      throw Failure("not all arguments converted during string formatting");
    context_.budget.take(out_.size());
    return std::move(out_);
  }

 private:
  char take() {
    if (at_ >= bytes_.size()) throw Failure("incomplete format");
    return bytes_[at_++];
  }

  int number() {
    int n = 0;
    while (at_ < bytes_.size() && bytes_[at_] >= '0' && bytes_[at_] <= '9')
      n = std::min(kWidest + 1, n * 10 + (bytes_[at_++] - '0'));
    if (n > kWidest) throw Failure("a format is too wide");
    return n;
  }

  Conversion parse() {
    Conversion c;
    if (at_ < bytes_.size() && bytes_[at_] == '(') {
      const std::size_t end = bytes_.find(')', at_);
      if (end == std::string::npos) throw Failure("incomplete format key");
      c.key = bytes_.substr(at_ + 1, end - at_ - 1);
      c.has_key = true;
      at_ = end + 1;
    }
    for (char flag = take();; flag = take()) {
      if (flag == '-')
        c.left = true;
      else if (flag == '0')
        c.zero = true;
      else if (flag == '+')
        c.plus = true;
      else if (flag == ' ')
        c.space = true;
      else if (flag == '#')
        c.alternate = true;
      else
        break;
    }
    --at_;
    c.width = number();
    if (at_ < bytes_.size() && bytes_[at_] == '.') {
      ++at_;
      c.precision = number();
    }
    c.kind = take();
    return c;
  }

  Value argument(const Conversion& c) {
    if (c.has_key) {
      by_key_ = true;
      if (values_.dict() == nullptr) throw Failure("format requires a mapping");
      const Value* found = values_.dict()->find(c.key);
      if (found == nullptr) throw Failure("no key '" + c.key + "' for a format");
      return *found;
    }
    const List* list = values_.list();
    const bool tuple = list != nullptr && list->kind == List::Kind::Tuple;
    const std::size_t given = tuple ? list->items.size() : 1;
    if (next_ >= given) throw Failure("not enough arguments for format string");
    ++next_;
    return tuple ? list->items[next_ - 1] : values_;
  }

  static std::string digits(const Conversion& c, double value) {
    const char letters[] = {'%', '.', '*', c.kind, '\0'};
    char buffer[16'384];
    const int n = std::snprintf(buffer, sizeof buffer, letters, c.precision < 0 ? 6 : c.precision,
                                std::abs(value));
    return {buffer, std::min(sizeof buffer - 1, static_cast<std::size_t>(n))};
  }

  static std::string digits(const Conversion& c, std::uint64_t size) {
    char buffer[32];
    const char* letters = c.kind == 'x'   ? "%lx"
                          : c.kind == 'X' ? "%lX"
                          : c.kind == 'o' ? "%lo"
                                          : "%lu";
    std::snprintf(buffer, sizeof buffer, letters, size);
    std::string text = buffer;
    if (c.precision > static_cast<int>(text.size()))
      text.insert(0, static_cast<std::size_t>(c.precision) - text.size(), '0');
    if (!c.alternate || c.kind == 'd') return text;
    return std::string("0") + c.kind + text;
  }

  static std::string number_text(const Conversion& c, const Value& value) {
    if (!value.is_number())
      throw Failure(std::string("%") + c.kind + " format: a number is required, not " +
                    value.type_name());
    const bool real = std::string_view("fFeEgG").find(c.kind) != std::string_view::npos;
    bool negative = false;
    std::string text;
    if (real) {
      negative = std::signbit(*value.real()) && !std::isnan(*value.real());
      text = digits(c, *value.real());
    } else {
      const double whole = std::trunc(*value.real());
      if (value.is_float() && !(std::abs(whole) < 9e18))
        throw Failure("cannot convert a float to an integer");
      const std::int64_t i = value.integer().value_or(static_cast<std::int64_t>(whole));
      negative = i < 0;
      text =
          digits(c, negative ? 0 - static_cast<std::uint64_t>(i) : static_cast<std::uint64_t>(i));
    }
    const std::string sign = negative ? "-" : c.plus ? "+" : c.space ? " " : "";
    const std::size_t size = sign.size() + text.size();
    if (c.zero && !c.left && static_cast<std::size_t>(c.width) > size)
      text.insert(0, static_cast<std::size_t>(c.width) - size, '0');
    return sign + text;
  }

  Text converted(Conversion c) {
    if (c.kind == 'i' || c.kind == 'u') c.kind = 'd';
    if (c.kind == 's' || c.kind == 'r') {
      const Value value = argument(c);
      Text text = c.kind == 's' ? context_.text(value) : context_.shown(value);
      if (c.precision < 0) return text;
      return text.part(0, offset_of(text.bytes(), static_cast<std::size_t>(c.precision)));
    }
    if (std::string_view("dxXofFeEgG").find(c.kind) == std::string_view::npos)
      throw Failure(std::string("unsupported format character '") + c.kind + "'");
    return {number_text(c, argument(c)), true};
  }

  void convert() {
    const Conversion c = parse();
    if (c.kind == '%') return out_.append("%", true);
    const Text text = converted(c);
    const std::size_t shown = length(text.bytes()), width = static_cast<std::size_t>(c.width);
    const std::string fill(width > shown ? width - shown : 0, ' ');
    context_.budget.take(text.size() + fill.size());
    if (!c.left) out_.append(fill, true);
    out_.append(text);
    if (c.left) out_.append(fill, true);
  }

  Context& context_;
  const Text& format_;
  const std::string& bytes_;
  const Value& values_;
  std::size_t at_ = 0, next_ = 0;
  bool by_key_ = false;
  Text out_;
};

}  // namespace

Value percent_format(Context& context, const Text& format, const Value& values) {
  return Formatter(context, format, values).run();
}

}  // namespace cria::jinja
