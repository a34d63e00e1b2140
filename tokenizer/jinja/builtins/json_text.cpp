#include "tokenizer/jinja/builtins/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/operators.h"

namespace cria::jinja {
namespace {

std::string unit_escape(std::uint32_t unit) {
  char out[8];
  std::snprintf(out, sizeof out, "\\u%04x", unit & 0xFFFFU);
  return out;
}

std::string escaped(char32_t c) {
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  if (c < 0x80) {
    if (const std::size_t i = kPlain.find(static_cast<char>(c)); i != std::string_view::npos)
      return {'\\', kLetters[i]};
  }
  if (c < 0x10000) return unit_escape(c);
  return unit_escape(0xD800 + ((c - 0x10000) >> 10)) +
         unit_escape(0xDC00 + ((c - 0x10000) & 0x3FF));
}

class Writer {
 public:
  Writer(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void write(const Value& value) {
    context_.budget.step();
    if (const Text* text = value.text()) return write_text(*text);
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    if (const List* list = value.list(); list != nullptr && list->kind <= List::Kind::Tuple)
      return write_list(*list);
    if (value.is_none()) return put("null");
    if (value.is_bool()) return put(value.truth() ? "true" : "false");
    if (value.is_number()) return put(number(value));
    throw Failure("Object of type " + value.type_name() + " is not JSON serializable");
  }
  Text take() { return std::move(out_); }

 private:
  static std::string number(const Value& value) {
    if (const auto n = value.large_integer()) return std::to_string(*n);
    if (!value.is_float()) return std::to_string(*value.integer());
    const double real = *value.real();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return float_text(real);
  }

  void put(std::string_view text) {
    context_.budget.take(text.size());
    out_.append(text, true);
  }
  void put(const Text& text) {
    context_.budget.take(text.size());
    out_.append(text);
  }

  void write_text(const Text& text) {
    context_.budget.take(text.size());
    const std::string_view bytes = text.bytes();
    put("\"");
    std::size_t done = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const Utf8Char c = first_char(bytes.substr(at));
      const bool plain =
          !c.valid || (c.code_point >= 0x20 && c.code_point != '"' && c.code_point != '\\' &&
                       (c.code_point < 0x7F || !style_.ensure_ascii));
      if (!plain) {
        out_.append(text, done, at);
        const std::string escape = escaped(c.code_point);
        context_.budget.take(escape.size());
        out_.append(escape, text.trusted_at(at));
        done = at + c.bytes;
      }
      at += c.bytes;
    }
    out_.append(text, done, bytes.size());
    put("\"");
  }

  void new_line() {
    if (!style_.indent) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(*style_.indent);
  }

  /// Calls write_item(i) for each of n items between brackets.
  template <class WriteItem>
  void items(const char* open, const char* close, std::size_t n, WriteItem&& write_item) {
    put(open);
    ++level_;
    for (std::size_t i = 0; i < n; ++i) {
      if (i != 0) put(style_.between_items);
      new_line();
      write_item(i);
    }
    --level_;
    if (n != 0) new_line();
    put(close);
  }

  void write_list(const List& list) {
    items("[", "]", list.items.size(), [&](std::size_t i) { write(list.items[i]); });
  }

  static Text key_text(const Value& key) {
    if (const Text* text = key.text()) return *text;
    if (key.is_none()) return {"null", true};
    if (key.is_bool()) return {key.truth() ? "true" : "false", true};
    if (key.is_number()) return {number(key), true};
    throw Failure("keys must be str, int, float, bool or None, not " + key.type_name());
  }

  void write_dict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return less(context_, a->first, b->first);
      });
    items("{", "}", entries.size(), [&](std::size_t i) {
      write_text(key_text(entries[i]->first));
      put(style_.after_key);
      write(entries[i]->second);
    });
  }

  Context& context_;
  const JsonStyle& style_;
  Text out_;
  int level_ = 0;
};

}  // namespace

Text json_text(Context& context, const Value& value, const JsonStyle& style) {
  Writer writer(context, style);
  writer.write(value);
  return writer.take();
}

Value tojson(Context& context, const Value& value, const Arguments& arguments) {
  const Bound args("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = args.truth(0, false);
  if (args.has(1) && !args[1].is_none()) {
    if (args[1].text() != nullptr) {
      style.indent = *args[1].text();
    } else {
      const auto width = static_cast<std::size_t>(std::max<std::int64_t>(0, args.integer(1, 0)));
      context.budget.take(width);
      style.indent = Text(std::string(width, ' '), true);
    }
    style.between_items = Text(",", true);
  }
  if (args.has(2) && !args[2].is_none()) {
    const List* pair = args[2].list();
    if (pair == nullptr || pair->items.size() != 2 || pair->items[0].text() == nullptr ||
        pair->items[1].text() == nullptr)
      throw Failure("tojson(): argument 'separators': expected two texts");
    style.between_items = *pair->items[0].text();
    style.after_key = *pair->items[1].text();
  }
  style.sort_keys = args.truth(3, false);
  return json_text(context, value, style);
}

}  // namespace cria::jinja
