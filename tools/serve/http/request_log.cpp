#include "tools/serve/http/request_log.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tools/report/table.h"

namespace cria::serve {
namespace {

/// "2026-11-23T04:00:00.123Z"
std::string time_text() {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds = system_clock::to_time_t(now);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[64];
  const auto milliseconds =
      duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(milliseconds));
  return text;
}

double milliseconds(double seconds) { return std::round(seconds * 10000) / 10; }

std::string short_number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Tokens per second while the answer was written; nothing for less than two.
std::optional<double> rate(const RequestLine& line, const RequestRecord& record) {
  if (record.completion_tokens < 2 || !record.first_token || line.seconds <= *record.first_token)
    return {};
  return static_cast<double>(record.completion_tokens - 1) / (line.seconds - *record.first_token);
}

Json json_of(const RequestLine& line, const RequestRecord& record, const LogOptions& options) {
  Json json = {{"time", time_text()},
               {"id", line.id},
               {"client", line.client},
               {"method", line.method},
               {"path", line.path},
               {"status", line.status},
               {"prompt_tokens", record.prompt_tokens},
               {"cached_tokens", record.cached_tokens},
               {"completion_tokens", record.completion_tokens}};
  if (record.waited) json["waited_ms"] = milliseconds(*record.waited);
  if (record.first_token) json["first_token_ms"] = milliseconds(*record.first_token);
  json["total_ms"] = milliseconds(line.seconds);
  if (const auto speed = rate(line, record))
    json["tokens_per_second"] = std::round(*speed * 10) / 10;
  json["finish"] = line.cancelled ? "cancelled" : record.finish;
  if (!record.ignored.empty()) json["ignored"] = record.ignored;
  if (!record.error.empty()) json["error"] = record.error;
  if (options.texts) {
    json["prompt"] = record.prompt_text;
    json["answer"] = record.answer_text;
  }
  return json;
}

std::string without_end(std::string line) {
  line.pop_back();
  return line;
}

/// Bytes of the UTF-8 character that `text` begins with; 0 where it begins with none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80 ? 1 : byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (size > text.size() || (size > 1 && (byte(0) < 0xC2 || byte(0) > 0xF4))) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (byte(0) == 0xC2 && byte(1) < 0xA0) return 0;  // the control characters of Latin-1
  return size;
}

/// Quotes in it are escaped, too: none of them ends it.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : escaped_text(text)) c == '"' ? out += "\\x22" : out += c;
  return out + "\"";
}

}  // namespace

std::string escaped_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text.front());
    std::size_t size = character_size(text);
    if (byte < 0x20 || byte == 0x7F || byte == '\\') size = 0;
    if (size == 0) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02X", byte);
      out += code;
      size = 1;
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string request_line(const RequestLine& line, const RequestRecord& record,
                         const LogOptions& options) {
  if (options.json) return without_end(tools::json_line(json_of(line, record, options)));
  std::string out = time_text();
  for (const std::string_view word : {line.id, line.client, line.method, line.path})
    out.append(" ").append(word.empty() ? "-" : escaped_text(word));
  out += " " + std::to_string(line.status) + " prompt=" + std::to_string(record.prompt_tokens) +
         " cached=" + std::to_string(record.cached_tokens) +
         " completion=" + std::to_string(record.completion_tokens);
  if (record.waited) out += " waited=" + short_number(*record.waited * 1000) + "ms";
  if (record.first_token) out += " first=" + short_number(*record.first_token * 1000) + "ms";
  out += " total=" + short_number(line.seconds * 1000) + "ms";
  if (const auto speed = rate(line, record)) out += " speed=" + short_number(*speed) + "/s";
  const std::string finish = line.cancelled ? "cancelled" : escaped_text(record.finish);
  if (!finish.empty()) out += " " + finish;
  if (!record.ignored.empty()) out += " ignored=" + record.ignored;
  if (!record.error.empty()) out += " error: " + in_quotes(record.error);
  if (options.texts && !(record.prompt_text.empty() && record.answer_text.empty()))
    out +=
        " prompt: " + in_quotes(record.prompt_text) + " answer: " + in_quotes(record.answer_text);
  return out;
}

std::string message_line(std::string_view text, const LogOptions& options) {
  if (!options.json) return std::string(text);
  return without_end(tools::json_line({{"time", time_text()}, {"message", text}}));
}

}  // namespace cria::serve
