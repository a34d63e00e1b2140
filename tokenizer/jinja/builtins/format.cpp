// Python's "%s and %d" % (a, b) and "{} and {:>5}".format(a, b).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/file/utf8.h"
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

/// The digits of a number without its sign; kind: as printf's.
std::string real_digits(char kind, int precision, double value) {
  const char letters[] = {'%', '.', '*', kind, '\0'};
  char buffer[16'384];
  const int n =
      std::snprintf(buffer, sizeof buffer, letters, precision < 0 ? 6 : precision, std::abs(value));
  return {buffer, std::min(sizeof buffer - 1, static_cast<std::size_t>(n))};
}

std::string character_text(const Value& value) {
  const auto code = value.integer();
  if (!code || *code < 0 || *code > 0x10FFFF) throw Failure("a format needs a character");
  std::string text;
  append_utf8(text, static_cast<char32_t>(*code));
  return text;
}

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
      text = real_digits(c.kind, c.precision, *value.real());
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
    if (c.kind == 'c') {
      const Value value = argument(c);
      if (value.text() != nullptr && length(value.text()->bytes()) == 1) return *value.text();
      return {character_text(value), true};
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

/// [[fill]align][sign][#][0][width][grouping][.precision][type]
struct FieldSpec {
  Text fill{" ", true};
  char align = 0, sign = '-', group = 0, type = 0;
  bool alternate = false;
  int width = 0, precision = -1;

  explicit FieldSpec(const Text& text) {
    const std::string& bytes = text.bytes();
    const auto is_align = [&](std::size_t at) {
      return at < bytes.size() && std::string_view("<>=^").find(bytes[at]) != std::string::npos;
    };
    const std::size_t first = bytes.empty() ? 0 : first_char(bytes).bytes;
    std::size_t at = 0;
    if (first > 0 && is_align(first)) {
      fill = text.part(0, first);
      at = first;
    }
    if (is_align(at)) align = bytes[at++];
    const auto take = [&](std::string_view among, char& to) {
      if (at < bytes.size() && among.find(bytes[at]) != std::string_view::npos) to = bytes[at++];
    };
    const auto number = [&] {
      int n = 0;
      for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9'; ++at)
        n = std::min(kWidest + 1, n * 10 + (bytes[at] - '0'));
      if (n > kWidest) throw Failure("a format is too wide");
      return n;
    };
    char flag = 0, zero = 0, point = 0;
    take("+- ", sign);
    take("#", flag);
    take("0", zero);
    alternate = flag != 0;
    width = number();
    take(",_", group);
    take(".", point);
    if (point != 0) precision = number();
    take("bcdeEfFgGnosxX%", type);
    if (at != bytes.size()) throw Failure("format: invalid format specifier '" + bytes + "'");
    if (zero == 0 || align != 0) return;
    if (group != 0) throw Failure("format: zeros and grouping together are not supported");
    fill = Text("0", true);
    align = '=';
  }
};

/// The digits of an integer without its sign.
std::string integer_digits(std::uint64_t n, char type) {
  const std::uint64_t base = type == 'b'                  ? 2
                             : type == 'o'                ? 8
                             : type == 'x' || type == 'X' ? 16
                                                          : 10;
  const std::string_view letters = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), letters[n % base]);
  while ((n /= base) != 0);
  return text;
}

void group_digits(std::string& digits, char separator, std::size_t every) {
  std::size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (; end > every; end -= every) digits.insert(end - every, 1, separator);
}

/// One call of str.format.
class FieldFormatter {
 public:
  FieldFormatter(Context& context, const Arguments& arguments)
      : context_(context), arguments_(arguments) {}

  Text run(const Text& format, bool nested = false) {
    const std::string& bytes = format.bytes();
    Text out;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.append(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      const std::size_t end = bytes[brace] == '}' ? std::string::npos : end_of_field(bytes, brace);
      if (end == std::string::npos) throw Failure("format: a single brace");
      const Text text = field(format.part(brace + 1, end), nested);
      context_.budget.take(text.size());
      out.append(text);
      at = end + 1;
    }
    return out;
  }

 private:
  static std::size_t end_of_field(const std::string& bytes, std::size_t brace) {
    int depth = 0;
    for (std::size_t at = brace; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++depth;
      if (bytes[at] == '}' && --depth == 0) return at;
    }
    return std::string::npos;
  }

  Text field(const Text& text, bool nested) {
    const std::string& bytes = text.bytes();
    const std::size_t colon = std::min(bytes.find(':'), bytes.size());
    std::size_t name_end = std::min(bytes.find('!'), colon);
    const Value found = value(bytes.substr(0, name_end));
    Text spec = colon < bytes.size() ? text.part(colon + 1, bytes.size()) : Text();
    if (spec.bytes().find('{') != std::string::npos) {
      if (nested) throw Failure("format: fields are nested too deeply");
      spec = run(spec, true);
    }
    if (name_end == colon) return formatted(found, spec);
    const std::string conversion = bytes.substr(name_end + 1, colon - name_end - 1);
    if (conversion == "s") return formatted(context_.text(found), spec);
    if (conversion != "r") throw Failure("format: unknown conversion '" + conversion + "'");
    return formatted(context_.shown(found), spec);
  }

  /// NAME, or nothing for the next argument, then .ATTRIBUTE and [INDEX].
  Value value(std::string_view name) {
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() < 9 &&
             text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string first(name.substr(0, end));
    name.remove_prefix(end);
    Value found = first.empty()      ? positional(next_++)
                  : is_number(first) ? positional(std::stoul(first))
                                     : named(first);
    while (!name.empty()) {
      const bool dot = name[0] == '.';
      const std::size_t stop = dot ? std::min(name.find_first_of(".[", 1), name.size())
                                   : std::min(name.find(']'), name.size());
      const std::string part(name.substr(1, stop - 1));
      found = dot               ? attribute(found, part)
              : is_number(part) ? item(context_, found, static_cast<std::int64_t>(std::stoul(part)))
                                : item(context_, found, Text(part, true));
      name.remove_prefix(std::min(name.size(), stop + (dot ? 0 : 1)));
    }
    return found;
  }
  Value positional(std::size_t i) const {
    if (i < arguments_.positional.size()) return arguments_.positional[i];
    throw Failure("format: no argument " + std::to_string(i));
  }
  Value named(const std::string& name) const {
    for (const auto& one : arguments_.named)
      if (one.name.bytes() == name) return one.value;
    throw Failure("format: no argument '" + name + "'");
  }

  Text formatted(const Value& value, const Text& spec_text) {
    if (spec_text.empty()) return context_.text(value);
    const FieldSpec spec(spec_text);
    if (value.is_number()) return padded(spec, number(spec, value), '>');
    if (value.text() == nullptr)
      throw Failure("format: unsupported format for " + value.type_name());
    if (spec.type != 0 && spec.type != 's') throw Failure("format: a number is required");
    if (spec.align == '=') throw Failure("format: '=' is not allowed for a string");
    const Text& text = *value.text();
    const auto shown = static_cast<std::size_t>(std::max(0, spec.precision));
    return padded(
        spec, {{}, spec.precision < 0 ? text : text.part(0, offset_of(text.bytes(), shown))}, '<');
  }

  struct Parts {
    std::string sign;
    Text body;
  };

  static Parts number(const FieldSpec& spec, const Value& value) {
    if (spec.type == 's') throw Failure("format: a string is required");
    if (spec.type == 'c') return {"", {character_text(value), true}};
    const bool real = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos ||
                      (value.is_float() && (spec.type == 0 || spec.type == 'n'));
    std::string digits;
    bool negative = false;
    if (real && (spec.type != 0 || value.is_float())) {
      const double number = *value.real();
      negative = std::signbit(number) && !std::isnan(number);
      if (spec.type == 0 && spec.precision < 0)
        digits = float_text(std::abs(number));
      else if (spec.type == '%')
        digits = real_digits('f', spec.precision, number * 100) + "%";
      else
        digits = real_digits(spec.type == 0 || spec.type == 'n' ? 'g' : spec.type, spec.precision,
                             number);
      if (spec.type == 0 && digits.find_first_of(".en") == std::string::npos) digits += ".0";
    } else {
      if (!value.integer()) throw Failure("format: an integer is required");
      const std::int64_t n = *value.integer();
      negative = n < 0;
      digits = integer_digits(
          negative ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n), spec.type);
    }
    const bool by_fours =
        spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X';
    if (spec.group != 0) group_digits(digits, spec.group, by_fours ? 4 : 3);
    std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.alternate && by_fours) sign += std::string("0") + spec.type;
    return {sign, {digits, true}};
  }

  Text padded(const FieldSpec& spec, const Parts& parts, char usual) {
    const std::size_t shown = parts.sign.size() + length(parts.body.bytes()),
                      width = static_cast<std::size_t>(spec.width);
    const std::size_t fill = width > shown ? width - shown : 0;
    context_.budget.take(fill * spec.fill.size());
    const char align = spec.align != 0 ? spec.align : usual;
    const std::size_t before = align == '<' ? 0 : align == '^' ? fill / 2 : fill;
    Text out;
    const auto pad = [&](std::size_t n) {
      for (; n > 0; --n) out.append(spec.fill);
    };
    if (align != '=') pad(before);
    out.append(parts.sign, true);
    if (align == '=') pad(before);
    out.append(parts.body);
    pad(fill - before);
    return out;
  }

  Context& context_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
};

}  // namespace

Value brace_format(Context& context, const Text& format, const Arguments& arguments) {
  return context.made(FieldFormatter(context, arguments).run(format));
}

Value percent_format(Context& context, const Text& format, const Value& values) {
  if (!format.is_markup()) return Formatter(context, format, values).run();
  Text out = Formatter(context, format, escaped(context, values)).run();
  out.set_markup(true);
  return out;
}

}  // namespace cria::jinja
