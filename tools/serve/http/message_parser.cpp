#include "tools/serve/http/message_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <charconv>
#include <limits>

#include "model/file/utf8.h"
#include "tools/serve/http/response.h"

namespace cria::serve {

namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

}  // namespace

bool HeadScanner::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
  return false;
}

/// A whole line without its end.
bool HeadScanner::check_line(std::string_view line) {
  if (lines_ == 0) {
    if (line.size() > kLine)
      return refuse(414, "the request line is too long: expected at most 8 KiB");
  } else {
    if (lines_ > kFields) return refuse(431, "the head has more than 100 fields");
    if (line.front() == ' ' || line.front() == '\t')
      return refuse(400, "a field of the head is folded");
  }
  return true;
}

/// A line whose end has not come: refused as soon as no end can make it good.
bool HeadScanner::check_unfinished(std::string_view line, std::size_t all) {
  if (lines_ == 0 && line.size() > kLine + 1)
    return refuse(414, "the request line is too long: expected at most 8 KiB");
  if (all >= kHead) return refuse(431, "the headers are too large: expected at most 32 KiB");
  return true;
}

std::size_t HeadScanner::scan(std::string_view bytes) {
  while (!refusal_) {
    const std::size_t end = std::min(bytes.find('\n', checked_), bytes.size());
    std::string_view line = bytes.substr(line_, end - line_);
    const bool whole = end < bytes.size();
    const std::size_t from = checked_;
    checked_ = end;
    const std::string_view fresh = bytes.substr(from, end - from);
    const auto bad = std::ranges::find_if(fresh, [](char c) { return is_control(c) && c != '\r'; });
    if (bad != fresh.end()) return refuse(400, "the head has a control character");
    // A CR ends its line, so it stands last; one in an earlier piece is found as the last but one
    // of what there is.
    const std::size_t cr = line.find('\r');
    if (cr != std::string_view::npos && cr + 1 != line.size())
      return refuse(400, "the head has a CR that is not followed by LF");
    if (!whole) return check_unfinished(line, bytes.size()), 0;
    if (cr == std::string_view::npos)
      return refuse(400, "a line of the head does not end with CR LF");
    if (end + 1 > kHead) return refuse(431, "the headers are too large: expected at most 32 KiB");
    line.remove_suffix(1);
    if (line.empty() && lines_ > 0) return end + 1;
    if (!check_line(line)) return 0;
    ++lines_;
    line_ = checked_ = end + 1;
  }
  return 0;
}

namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2 || value == 0)
      return {};
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

}  // namespace

std::optional<Target> parse_target(std::string_view text) {
  Target target;
  if (text == "*") return Target{"*", "", ""};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    const std::size_t end = std::min(text.find_first_of("/?"), text.size());
    target.host = text.substr(0, end);
    if (target.host.empty()) return {};
    text.remove_prefix(end);
    if (text.empty() || text.front() == '?') target.path = "/";
    break;
  }
  if (target.path.empty() && !text.starts_with('/')) return {};
  const std::size_t mark = std::min(text.find('?'), text.size());
  if (target.path.empty()) {
    auto path = percent_decoded(text.substr(0, mark));
    if (!path) return {};
    target.path = std::move(*path);
  }
  if (mark < text.size()) target.query = text.substr(mark + 1);
  return target;
}

std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view member = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(member.size() + 1, query.size()));
    if (member.starts_with(name) && member.substr(name.size()).starts_with('='))
      return percent_decoded(member.substr(name.size() + 1)).value_or("");
  }
  return "";
}

namespace {

namespace http = boost::beast::http;

/// Like string_body, but memory grows with the received bytes, not with the declared size.
struct ArrivingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>& /*head*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, boost::system::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      const std::size_t before = body_.size();
      for (auto at = boost::asio::buffer_sequence_begin(buffers);
           at != boost::asio::buffer_sequence_end(buffers); ++at)
        body_.append(static_cast<const char*>(boost::asio::const_buffer(*at).data()),
                     boost::asio::const_buffer(*at).size());
      return body_.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

std::string text_of(const boost::beast::string_view& text) { return {text.data(), text.size()}; }

Refusal bad(std::string message) { return {400, std::move(message)}; }

/// Checks that Beast leaves out: the headers of the body's length, and Host.
Refusal check_fields(const ParsedHead& head) {
  std::size_t hosts = 0, encodings = 0;
  bool length = false;
  for (const auto& [name, value] : head.fields) {
    if (name == "host") ++hosts;
    if (name == "content-length") {
      length = true;
      if (value.empty() ||
          !std::ranges::all_of(value, [](unsigned char c) { return std::isdigit(c); }))
        return bad("Content-Length is not a number");
    }
    if (name == "transfer-encoding") {
      ++encodings;
      if (lower_case(value) != "chunked") return bad("Transfer-Encoding is not chunked");
    }
  }
  if (encodings > 0 && length) return bad("both Content-Length and Transfer-Encoding are given");
  if (encodings > 1) return bad("Transfer-Encoding is given twice");
  if (encodings > 0 && head.version < 11) return bad("HTTP/1.0 has no Transfer-Encoding");
  if (hosts > 1) return bad("Host is given twice");
  if (hosts == 0 && head.version >= 11) return bad("Host is missing");
  return {};
}

}  // namespace

struct MessageParser::Reader {
  Reader() {
    parser.header_limit(2 * HeadScanner::kHead);                   // HeadScanner has looked
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // limit_body() follows
    parser.eager(false);
  }
  http::request_parser<ArrivingBody> parser;
};

MessageParser::MessageParser() : reader_(std::make_unique<Reader>()) {}
MessageParser::~MessageParser() = default;

Refusal MessageParser::read_head(std::string_view bytes, ParsedHead& head) {
  boost::system::error_code error;
  auto& parser = reader_->parser;
  parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
  if (error) return bad("the head is malformed (" + error.message() + ")");
  if (!parser.is_header_done()) return bad("the head is malformed");
  const auto& message = parser.get();
  head.method = text_of(message.method_string());
  head.target = text_of(message.target());
  head.version = message.version();
  for (const auto& field : message)
    head.fields.emplace_back(lower_case(text_of(field.name_string())), text_of(field.value()));
  if (Refusal refusal = check_fields(head)) return refusal;
  head.chunked = parser.chunked();
  if (const auto length = parser.content_length(); length && !head.chunked) head.length = *length;
  head.keep_alive = parser.keep_alive();
  parser.eager(true);
  return {};
}

void MessageParser::limit_body(std::uint64_t bytes) { reader_->parser.body_limit(bytes); }

Refusal MessageParser::read_body(std::string_view bytes, std::size_t& taken) {
  constexpr std::size_t kLongestChunkHead =
      16 << 10;  // with extensions, or the fields behind the last chunk
  auto& parser = reader_->parser;
  boost::system::error_code error;
  taken = 0;
  while (!parser.is_done() && taken < bytes.size()) {
    const std::size_t n =
        parser.put(boost::asio::buffer(bytes.data() + taken, bytes.size() - taken), error);
    taken += n;
    if (error == http::error::need_more) break;
    if (error == http::error::body_limit)
      return {413, "the body is too large", "request_too_large"};
    if (error) return bad("the body is malformed (" + error.message() + ")");
  }
  if (!parser.is_done() && bytes.size() - taken > kLongestChunkHead)
    return bad("a chunk's head is too long");
  return {};
}

bool MessageParser::done() const { return reader_->parser.is_done(); }
std::string& MessageParser::body() { return reader_->parser.get().body(); }

}  // namespace cria::serve
